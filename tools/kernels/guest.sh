#!/bin/bash
# The first process of the machine that tools/kernels/run.sh boots: uses the laws, `leeway run` and the
# gateway on this kernel, says "RESULT NAME OUTCOME" for each, and turns the machine off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

main() {
	mounts
	# After what the firmware has printed, in a line of its own.
	echo
	echo "RESULT release $(uname -r)"
	cd /tmp || exit
	echo "RESULT law $(law)"
	echo "RESULT replay $(replay)"
	echo "RESULT run $(run)"
	echo "RESULT gateway $(gateway)"
}

mounts() {
	mount -t proc proc /proc
	mount -t sysfs sys /sys
	mkdir -p /dev /run /tmp
	mount -t devtmpfs dev /dev
	mkdir -p /dev/pts /dev/shm
	mount -t devpts pts /dev/pts
	mount -t tmpfs shm /dev/shm
	mount -t tmpfs run /run
	mount -t tmpfs tmp /tmp
	mount -t cgroup2 none /sys/fs/cgroup
	depmod 2>/dev/null
	modprobe -a tun veth dummy nf_tables
	ip link set lo up
}

# One case of docs/live.md: the law's parts of the line, alone and beside CUBIC; or why the kernel was refused.
law() {
	/leeway-live run --results results --repetitions 1 --jobs 1 \
		--only "10Mbit/s 50ms droptail 2BDP ledbat:target=25ms beside cubic" >said 2>&1
	cat said >/dev/console
	python3 - <<-'PYTHON'
		import json, pathlib
		results = pathlib.Path("results")
		lines = results.read_text().splitlines() if results.exists() else []
		live = [result["figures"] for result in map(json.loads, lines) if result["source"] == "live"]
		if live:
		    alone, beside = (100 * live[0][part] for part in ("alone", "background"))
		    print(f"{alone:.0f} % of the line alone, {beside:.0f} % beside CUBIC")
		else:
		    print("refused:", open("said").read().strip().removeprefix("leeway-live: "))
	PYTHON
}

# What the kernel told each law, told to the same law here: the states have to be equal to the byte.
replay() {
	if /replay --exact paths::every_law_does_the_same_here_and_in_the_kernel >said 2>&1; then
		echo "equal"
	else
		refused said || echo "differs"
	fi
	cat said >/dev/console
}

# A program under `leeway run`, alone and beside a CUBIC that starts 20 seconds later. A machine without KVM
# can play the line of 2 Mbit/s.
run() {
	iperf3 --server --daemon
	iperf3 --server --daemon --port 5202
	# shellcheck disable=SC2016 # the inner shell's words
	leeway link --up 2mbit --down 2mbit --delay 25ms --buffer 2BDP -- bash -c '
		leeway run --json account.json -- iperf3 --client "$LEEWAY_GATEWAY" --time 40 --json >polite.json 2>said &
		sleep 20
		iperf3 --client "$LEEWAY_GATEWAY" --port 5202 --time 20 --json >cubic.json
		wait' >/dev/console 2>&1
	cat said >/dev/console
	python3 - <<-'PYTHON' || refused said || echo "failed"
		import json, sys
		polite = json.load(open("polite.json"))
		if "error" in polite or not polite["intervals"]:
		    sys.exit(1)
		parts = [(one["sum"]["start"], one["sum"]["bits_per_second"] / 2e6) for one in polite["intervals"]]
		mean = lambda low, high: sum(part for start, part in parts if low <= start < high) / (high - low)
		print(f"{100 * mean(5, 20):.0f} % of the line alone, {100 * mean(25, 38):.0f} % beside CUBIC")
	PYTHON
}

# A home of docs/testbed.md alone and beside neighbours whom a gateway serves.
gateway() {
	leeway testbed overload --mechanism prim_only --mechanism proxy --repetitions 1 --duration 20s --json \
		--out testbed.json >/dev/console 2>&1
	python3 - <<-'PYTHON' || echo "failed"
		import json
		rows = {row["mechanism"]: row for row in json.load(open("testbed.json"))[0]["points"][0]["rows"]}
		of_alone, proxy = rows["proxy"]["of_prim_only"], rows["proxy"]["median"]
		print(f"home's requests {of_alone['primary_mean']:.2f} of alone, neighbours {proxy['secondary_per_s']:.1f} a second")
	PYTHON
}

# refused FILE: says that a part was refused, if its file says why.
refused() {
	grep -q "kernel is too old" "$1" && echo "refused"
}

main
sync
echo o >/proc/sysrq-trigger
sleep 60

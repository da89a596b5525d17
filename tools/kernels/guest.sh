#!/bin/bash
# The first process of the machine that tools/kernels/run.sh boots: measures one case of docs/live.md
# under a law in this kernel, says "RESULT NAME OUTCOME", and turns the machine off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

main() {
	mounts
	# After what the firmware has printed, in a line of its own.
	echo
	echo "RESULT release $(uname -r)"
	cd /tmp || exit
	/leeway-live run --results results --repetitions 1 --jobs 1 \
		--only "10Mbit/s 50ms droptail 2BDP ledbat:target=25ms beside cubic" >said 2>&1
	echo "RESULT code $?"
	cat said results
	echo "RESULT outcome $(outcome)"
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

# The law's parts of the line, alone and beside CUBIC; or what the kernel was refused with.
outcome() {
	python3 - <<-'PYTHON'
		import json
		results = [json.loads(line) for line in open("results")] if __import__("os").path.exists("results") else []
		live = [result["figures"] for result in results if result["source"] == "live"]
		if live:
		    alone, beside = (100 * live[0][part] for part in ("alone", "background"))
		    print(f"{alone:.0f} % of the line alone, {beside:.0f} % beside CUBIC")
		else:
		    print("refused:", open("said").read().strip().removeprefix("leeway-live: "))
	PYTHON
}

main
sync
echo o >/proc/sysrq-trigger
sleep 60

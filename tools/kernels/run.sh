#!/usr/bin/env bash
# Boots Debian's kernels in QEMU, one after the other, and uses Leeway in each: a law on real TCP, the
# replay of every law, `leeway run` and a gateway. Linux 6.1 has to refuse all but the gateway. Writes
# the outcome into the table of docs/kernels.md; the consoles are kept in target/kernels.
# usage: tools/kernels/run.sh [SUITE...], of Debian: those of `suites` below by default.
# LEEWAY_QEMU is the emulator with its options. Needs root (mmdebstrap) and qemu-system-x86; no KVM.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly out=$PWD/target/kernels page=docs/kernels.md
readonly suites=(bookworm bookworm-backports trixie-backports)
# One that lives longer has got stuck.
readonly LIMIT_S=1800

main() {
	local suite rows=()
	[ $# -gt 0 ] || set -- "${suites[@]}"
	mkdir -p "$out"
	root_file_system
	programs
	for suite in "$@"; do
		kernel_of "$suite"
		boot "$suite"
		rows+=("$(row "$suite")")
	done
	printf '%s\n' "${rows[@]}"
	table "${rows[@]}"
}

# The machine's files: a small Debian with what the tests call.
root_file_system() {
	[ ! -e "$out/root/etc/debian_version" ] || return 0
	say "making the root file system"
	rm -rf "$out/root"
	nice -n 10 mmdebstrap --quiet --variant=minbase \
		--include=iproute2,iputils-ping,nftables,iperf3,kmod,libelf1,procps,psmisc,python3,util-linux,zlib1g \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$out/root" >&2
}

# The programs that the machine uses, and the test that replays the laws.
programs() {
	local built=${CARGO_TARGET_DIR:-target}/release replay
	rm -rf "$out/added"
	mkdir -p "$out/added/usr/bin"
	nice -n 10 cargo build --release --locked --package leeway-live --package leeway-cli >&2
	replay=$(nice -n 10 cargo test --release --locked --package leeway-kernel --test live --no-run \
		--message-format json | sed -nE 's/.*"executable":"([^"]*\/live-[^"]*)".*/\1/p')
	strip -o "$out/added/leeway-live" "$built/leeway-live"
	strip -o "$out/added/usr/bin/leeway" "$built/leeway"
	strip -o "$out/added/replay" "$replay"
	install -m 755 tools/kernels/guest.sh "$out/added/init"
}

# kernel_of SUITE: the newest kernel image of a suite, and its modules.
kernel_of() {
	local apt=$out/apt mirror name
	[ ! -e "$out/$1/vmlinuz" ] || return 0
	say "fetching the kernel of $1"
	mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$out/$1"
	: >"$apt/status"
	# Where this machine has its own Debian from.
	# shellcheck disable=SC2016 # apt's words, not the shell's
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/*$')
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$apt/list"
	local options=(-o "Dir::State=$apt/state" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
		-o "Dir::Etc::sourcelist=$apt/list" -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root)
	apt-get "${options[@]}" -qq update
	name=$(apt-cache "${options[@]}" depends linux-image-amd64 | sed -nE 's/.*Depends: (linux-image-[0-9][^ ]*)/\1/p' | head -1)
	(cd "$apt" && apt-get "${options[@]}" -qq download "$name")
	# From Linux 7 on, it is several packages.
	for name in $(dpkg-deb --field "$apt/$name"_*.deb Depends | grep -oE 'linux-(binary|modules)-[0-9][^ ,]*'); do
		(cd "$apt" && apt-get "${options[@]}" -qq download "$name")
	done
	for name in "$apt"/*.deb; do
		dpkg-deb --extract "$name" "$out/$1/package"
	done
	rm -f "$apt"/*.deb
	mv "$(find "$out/$1/package" -type f -name 'vmlinuz*')" "$out/$1/vmlinuz"
	modules "$out/$1"
	rm -rf "$out/$1/package"
}

# Only what concerns networks, which the machine keeps in memory.
modules() {
	local from to kind
	from=$(echo "$1"/package/{usr/,}lib/modules/*)
	from=${from##* }
	[ -d "$from" ] || from=$(echo "$1"/package/usr/lib/modules/*)
	to=$1/usr/lib/modules/${from##*/}
	for kind in net lib crypto drivers/net/veth drivers/net/tun drivers/net/dummy drivers/net/ifb; do
		find "$from/kernel" -path "$from/kernel/$kind*" -name '*.ko*' | while read -r file; do
			install -D -m 644 "$file" "$to${file#"$from"}"
		done
	done
	# depmod, which the machine runs, wants those that there are.
	find "$from" -maxdepth 1 -name "modules.[bo]*" -exec cp -t "$to" {} +
}

# boot SUITE: runs the machine; its console says how it went.
boot() {
	local folder=$out/$1 console=$out/$1.console emulator
	say "booting $(ls "$folder/usr/lib/modules")"
	: >"$folder/machine.cpio"
	for tree in "$out/root" "$out/added" "$folder"; do
		(cd "$tree" && find . -path ./machine.cpio -prune -o -path ./vmlinuz -prune -o -path ./dev -prune -o -print0 |
			cpio --quiet --null --create --format newc) >>"$folder/machine.cpio"
	done
	read -ra emulator <<<"${LEEWAY_QEMU:-qemu-system-x86_64 -accel tcg,thread=multi -cpu max}"
	timeout "$LIMIT_S" "${emulator[@]}" -smp 2 -m 3072 -nographic -no-reboot \
		-kernel "$folder/vmlinuz" -initrd "$folder/machine.cpio" \
		-append "console=ttyS0 quiet panic=-1 rdinit=/init" </dev/null >"$console" || true
	rm -f "$folder/machine.cpio"
	tr -d '\r' <"$console" | grep '^RESULT ' || fail "nothing came from $1; see $console"
}

# row SUITE: a line of the table.
row() {
	tr -d '\r' <"$out/$1.console" | awk -v suite="$1" '
		/^RESULT / {
			name = $2
			sub(/^RESULT [a-z]+ /, "")
			said[name] = $0
		}
		END {
			printf "| %s | %s |", said["release"], suite
			split("law replay run gateway", parts, " ")
			for (part = 1; part <= 4; part++)
				printf " %s |", said[parts[part]] == "" ? "did not end" : said[parts[part]]
			print ""
		}'
}

# table ROW...: puts them in place of those that the page has.
table() {
	awk -v rows="$(printf '%s\n' "$@")" '
		/^<!-- kernels:/ { inside = 1 }
		/^<!-- \/kernels/ {
			print rows
			inside = below = 0
		}
		!below { print }
		inside && /^[|]---/ { below = 1 }' "$page" >"$out/page"
	cp "$out/page" "$page"
}

say() {
	echo "kernels: $*" >&2
}

fail() {
	say "$*"
	exit 1
}

main "$@"

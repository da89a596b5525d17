#!/usr/bin/env bash
# Installs the program. As root: for everybody, with the systemd units and examples of what they read; otherwise
# where cargo puts programs. DESTDIR and PREFIX (/usr/local) as usual.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
	if [ "$(id -u)" -ne 0 ] && [ -z "${DESTDIR:-}" ]; then
		cargo install --locked --path crates/cli
		return
	fi
	local prefix=${PREFIX:-/usr/local} root=${DESTDIR:-}
	cargo build --release --locked --package leeway-cli
	put 755 "${CARGO_TARGET_DIR:-target}/release/leeway" "$root$prefix/bin/leeway"
	local unit
	for unit in packaging/systemd/*.{service,socket}; do
		sed -E "s|=/usr(/local)?/bin/|=$prefix/bin/|" "$unit" |
			put 644 /dev/stdin "$root$prefix/lib/systemd/system/${unit##*/}"
	done
	# What somebody has written stays.
	local example
	for example in laws.conf gateway.toml; do
		[ -e "$root/etc/leeway/$example" ] || put 644 "packaging/$example" "$root/etc/leeway/$example"
	done
	put 644 packaging/sysusers.conf "$root$prefix/lib/sysusers.d/leeway.conf"
	echo "for ordinary users: systemd-sysusers, then systemctl enable --now leeway-helper.socket"
	echo "to load the laws of /etc/leeway/laws.conf at boot: systemctl enable --now leeway-kernel"
}

# put MODE FROM TO
put() {
	install -D -m "$1" "$2" "$3"
	echo "installed $3"
}

main

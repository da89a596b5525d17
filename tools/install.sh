#!/usr/bin/env bash
# Installs the program. As root, or with DESTDIR or PREFIX (/usr/local), for everybody: the program, a manual page for each
# command, the pages for who shares a line, completions, the C headers, the systemd units and examples of what they read. Otherwise where cargo puts programs.
# usage: tools/install.sh [uninstall]; LEEWAY_PROGRAM names a program that is built already
set -euo pipefail
cd "$(dirname "$0")/.."

readonly prefix=${PREFIX:-/usr/local} root=${DESTDIR:-}
# What was installed, a path in a line without DESTDIR, folders that were made with a slash at the end.
readonly manifest=$root$prefix/share/leeway/manifest
# Pages of docs/ for who shares a line.
readonly pages=(operator.md gateway.md accounts.md)

main() {
	case ${1:-install} in
	install) everything ;;
	uninstall) uninstall ;;
	*) fail "usage: tools/install.sh [uninstall]" ;;
	esac
}

everything() {
	if [ "$(id -u)" -ne 0 ] && [ -z "$root" ] && [ -z "${PREFIX:-}" ]; then
		cargo install --locked --profile dist --path crates/cli
		return
	fi
	# Built as the Debian package has it: small.
	local program=${LEEWAY_PROGRAM:-${CARGO_TARGET_DIR:-target}/dist/leeway}
	if [ -z "${LEEWAY_PROGRAM:-}" ]; then
		cargo build --profile dist --locked --package leeway-cli
		tools/check_program.py "$program"
	fi
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	strip -o "$work/leeway" "$program"
	put 755 "$work/leeway" "$prefix/bin/leeway"
	local file
	"$program" man --out "$work/man"
	for file in "$work"/man/*; do
		put 644 "$file" "$prefix/share/man/man1/${file##*/}"
	done
	for file in "${pages[@]}"; do
		page "docs/$file" >"$work/$file"
		put 644 "$work/$file" "$prefix/share/doc/leeway/$file"
	done
	completions bash "$prefix/share/bash-completion/completions/leeway"
	completions zsh "$prefix/share/zsh/site-functions/_leeway"
	completions fish "$prefix/share/fish/vendor_completions.d/leeway.fish"
	for file in control/*.h; do
		put 644 "$file" "$prefix/include/leeway/${file##*/}"
	done
	package >"$work/leeway.pc"
	put 644 "$work/leeway.pc" "$prefix/share/pkgconfig/leeway.pc"
	for file in packaging/systemd/*.{service,socket}; do
		sed -E "s|=/usr(/local)?/bin/|=$prefix/bin/|" "$file" >"$work/unit"
		put 644 "$work/unit" "$prefix/lib/systemd/system/${file##*/}"
	done
	put 644 packaging/sysusers.conf "$prefix/lib/sysusers.d/leeway.conf"
	# What somebody has written stays. The gateway's is written by `leeway gateway init`, for the machine.
	[ -e "$root/etc/leeway/laws.conf" ] || put 644 packaging/laws.conf /etc/leeway/laws.conf
	put 644 packaging/gateway.toml "$prefix/share/leeway/gateway.toml"
	echo "for ordinary users: systemd-sysusers, then systemctl enable --now leeway-helper.socket"
	echo "to load the laws of /etc/leeway/laws.conf at boot: systemctl enable --now leeway-kernel"
}

completions() {
	"$program" completions "$1" >"$work/completions"
	put 644 "$work/completions" "$2"
}

# A page of docs/ whose links lead to the pages beside it, and to the repository for what is not installed.
page() {
	local repository=https://github.com/leeway-net/leeway/blob/main beside
	beside=$(IFS='|' && echo "${pages[*]//./\\.}")
	sed -E -e "s#\]\(\.\./#]($repository/#g" -e "s#\]\(([a-z][a-z0-9/-]*\.(md|png))#]($repository/docs/\1#g" \
		-e "s#\]\($repository/docs/($beside)#](\1#g" "$1"
}

# For pkg-config.
package() {
	local version
	version=$(sed -nE 's/^#define LEEWAY_VERSION +"(.*)"/\1/p' control/leeway.h)
	sed -e "s|@PREFIX@|$prefix|" -e "s/@VERSION@/$version/" packaging/headers/leeway.pc.in
}

# put MODE FROM TO: TO without DESTDIR
put() {
	note_folders "$(dirname "$manifest")"
	note_folders "$root$(dirname "$3")"
	install -D -m "$1" "$2" "$root$3"
	note "$3"
	echo "installed $root$3"
}

# Notes the folders that are not there yet, and makes them.
note_folders() {
	local folder=$1 made=()
	while [ ! -d "$folder" ]; do
		made=("$folder" ${made[@]+"${made[@]}"})
		folder=$(dirname "$folder")
	done
	mkdir -p "$1"
	for folder in ${made[@]+"${made[@]}"}; do
		note "${folder#"$root"}/"
	done
}

note() {
	mkdir -p "$(dirname "$manifest")"
	grep -qxF "$1" "$manifest" 2>/dev/null || echo "$1" >>"$manifest"
}

# What the manifest names, the last first; folders only where nothing else is in them, and what somebody has changed under
# /etc stays.
uninstall() {
	[ -e "$manifest" ] || fail "nothing to remove: there is no $manifest"
	local lines line
	mapfile -t lines < <(tac "$manifest")
	rm -f "$manifest"
	for line in "${lines[@]}"; do
		case $line in
		*/) rmdir --ignore-fail-on-non-empty "$root$line" 2>/dev/null || true ;;
		/etc/*)
			if [ -e "$root$line" ] && ! cmp -s "packaging/${line##*/}" "$root$line"; then
				echo "left $root$line, which has been changed"
			else
				rm -f "$root$line"
			fi
			;;
		*)
			rm -f "$root$line"
			echo "removed $root$line"
			;;
		esac
	done
}

fail() {
	echo "$*" >&2
	exit 1
}

main "$@"

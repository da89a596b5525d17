#!/usr/bin/env bash
# Installs the program. As root, or with DESTDIR or PREFIX (/usr/local), for everybody: the program, a
# manual page for each command, the pages for owners of a line, completions, the C headers,
# libleeway_utp (in LIBDIR, PREFIX/lib by default), the systemd units and examples of their
# configuration. Otherwise the program alone, where cargo puts programs.
# usage: tools/install.sh [uninstall]; LEEWAY_PROGRAM names a program that is built already, with
# libleeway_utp beside it
set -euo pipefail
cd "$(dirname "$0")/.."

readonly prefix=${PREFIX:-/usr/local} root=${DESTDIR:-}
readonly libraries=${LIBDIR:-$prefix/lib}
# Where examples of the configuration go. Another user than root has the PREFIX alone.
if [ "$(id -u)" -eq 0 ] || [ -n "$root" ]; then etc=/etc; else etc=$prefix/etc; fi
readonly etc
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
		# By itself: together with the program, cargo would build it with the features that the program needs.
		cargo build --profile dist --locked --package leeway-utp-c
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
	package packaging/headers/leeway.pc.in >"$work/leeway.pc"
	put 644 "$work/leeway.pc" "$prefix/share/pkgconfig/leeway.pc"
	utp "${program%/*}"
	for file in packaging/systemd/*.{service,socket}; do
		sed -E "s|=/usr(/local)?/bin/|=$prefix/bin/|" "$file" >"$work/unit"
		put 644 "$work/unit" "$prefix/lib/systemd/system/${file##*/}"
	done
	put 644 packaging/sysusers.conf "$prefix/lib/sysusers.d/leeway.conf"
	# What somebody has written stays. The gateway's is written by `leeway gateway init`, for the machine.
	[ -e "$root$etc/leeway/laws.conf" ] || put 644 packaging/laws.conf "$etc/leeway/laws.conf"
	put 644 packaging/gateway.toml "$prefix/share/leeway/gateway.toml"
	if [ "$etc" = /etc ]; then
		echo "for ordinary users: systemd-sysusers, then systemctl enable --now leeway-helper.socket"
		echo "to load the laws of /etc/leeway/laws.conf at boot: systemctl enable --now leeway-kernel"
	fi
	linker_cache
}

# utp FOLDER: the C library that was built there, in a folder of headers that hides no libutp.
utp() {
	local name=libleeway_utp soname file
	for file in "$name.so" "$name.a"; do
		[ -f "$1/$file" ] || fail "there is no $1/$file; cargo build --package leeway-utp-c makes it, with the program's --profile"
	done
	soname=$(readelf --dynamic "$1/$name.so" | sed -nE 's/.*\(SONAME\).*\[(.*)\]$/\1/p')
	[ -n "$soname" ] || fail "$1/$name.so has no SONAME; crates/utp-c/build.rs gives it one"
	# libleeway_utp.so.0 of version 0.1.0: libleeway_utp.so.0.1.0.
	file=$soname.$(version | cut -d . -f 2-)
	strip --strip-unneeded -o "$work/$file" "$1/$name.so"
	strip --strip-debug --enable-deterministic-archives -o "$work/$name.a" "$1/$name.a"
	put 644 "$work/$file" "$libraries/$file"
	put_link "$file" "$libraries/$soname"
	put_link "$soname" "$libraries/$name.so"
	put 644 "$work/$name.a" "$libraries/$name.a"
	put 644 crates/utp-c/include/utp.h "$prefix/include/leeway-utp/utp.h"
	# Some programs for libutp include <libutp/utp.h>.
	put_link ../utp.h "$prefix/include/leeway-utp/libutp/utp.h"
	package packaging/utp/leeway_utp.pc.in >"$work/leeway_utp.pc"
	put 644 "$work/leeway_utp.pc" "$libraries/pkgconfig/leeway_utp.pc"
}

# Tells the dynamic linker of this machine which libraries are there now.
linker_cache() {
	if [ "$(id -u)" -eq 0 ] && [ -z "$root" ] && command -v ldconfig >/dev/null; then
		ldconfig
	fi
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

# package FILE: for pkg-config.
package() {
	# shellcheck disable=SC2016 # pkg-config puts the prefix in its place
	sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|${libraries/#$prefix\//'${prefix}/'}|" -e "s/@VERSION@/$(version)/" "$1"
}

version() {
	sed -nE 's/^#define LEEWAY_VERSION +"(.*)"/\1/p' control/leeway.h
}

# put MODE FROM TO: TO without DESTDIR
put() {
	place "$3"
	install -D -m "$1" "$2" "$root$3"
}

# put_link TARGET TO: TO without DESTDIR
put_link() {
	place "$2"
	ln -sf "$1" "$root$2"
}

# place TO: the folder of what is installed, and a line in the manifest.
place() {
	note_folders "$(dirname "$manifest")"
	note_folders "$root$(dirname "$1")"
	note "$1"
	echo "installs $root$1"
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

# What the manifest names, the last first; folders only where nothing else is in them, and configuration that somebody
# has changed stays.
uninstall() {
	[ -e "$manifest" ] || fail "nothing to remove: there is no $manifest"
	local lines line
	mapfile -t lines < <(tac "$manifest")
	rm -f "$manifest"
	for line in "${lines[@]}"; do
		case $line in
		*/) rmdir --ignore-fail-on-non-empty "$root$line" 2>/dev/null || true ;;
		"$etc"/*)
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
	linker_cache
}

fail() {
	echo "$*" >&2
	exit 1
}

main "$@"

#!/usr/bin/env bash
# Packs the C headers of the laws for people who use them alone, with a Makefile that installs them
# and a file for pkg-config, and prints the archive's path. The same commit makes the same archive.
# usage: tools/headers.sh [FOLDER]; where the archive goes: target/headers by default.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
	local folder=${1:-target/headers} version name tree
	version=$(sed -nE 's/^#define LEEWAY_VERSION +"(.*)"/\1/p' control/leeway.h)
	name=leeway-headers-$version
	SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -c safe.directory="$PWD" log -1 --format=%ct 2>/dev/null || date +%s)}
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	tree=$work/$name
	install -d "$tree" "$tree/include" "$tree/examples"
	install -m 644 control/*.h "$tree/include"
	install -m 644 examples/c/duel.c "$tree/examples"
	install -m 644 LICENSE-MIT LICENSE-GPL-2.0 packaging/headers/Makefile "$tree"
	sed "s/@VERSION@/$version/" packaging/headers/leeway.pc.in >"$tree/leeway.pc.in"
	# Pages that are not in the archive are in the repository.
	sed 's|](\.\./|](https://github.com/leeway-net/leeway/blob/main/|g' control/README.md >"$tree/README.md"
	mkdir -p "$folder"
	tar --create --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
		--mtime="@$SOURCE_DATE_EPOCH" "$name" | gzip -9n >"$folder/$name.tar.gz"
	echo "$folder/$name.tar.gz"
}

main "$@"

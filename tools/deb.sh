#!/usr/bin/env bash
# Makes a Debian package of what `make install` puts in place, and prints its path. One package serves Debian 12 and newer.
# usage: tools/deb.sh [FOLDER]; where the package goes: target/deb by default.
# LEEWAY_PROGRAM as for tools/install.sh, which builds. LEEWAY_DEB_VERSION is the package's version,
# by default that of the workspace.
# LEEWAY_DEB_LEVEL, 0 to 9, is how hard xz compresses; 6, as in Debian's packages, by default.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
	local folder=${1:-target/deb} architecture version
	version=${LEEWAY_DEB_VERSION:-$(sed -n '0,/^version = "\(.*\)"/s//\1/p' Cargo.toml)}
	architecture=$(dpkg --print-architecture)
	# Times in the package are those of the last commit, so that the same commit makes the same package.
	SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -c safe.directory="$PWD" log -1 --format=%ct 2>/dev/null || date +%s)}
	export SOURCE_DATE_EPOCH
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	tree >&2
	control "$version" "$architecture"
	mkdir -p "$folder"
	find "$work/root" -print0 | xargs -0 touch --no-dereference --date "@$SOURCE_DATE_EPOCH"
	dpkg-deb --root-owner-group -Zxz -z"${LEEWAY_DEB_LEVEL:-6}" --build "$work/root" "$folder/leeway_${version}_$architecture.deb" >&2
	echo "$folder/leeway_${version}_$architecture.deb"
}

# Everything that the package installs.
tree() {
	local root=$work/root doc=$work/root/usr/share/doc/leeway
	umask 022
	DESTDIR=$root PREFIX=/usr LIBDIR=$(libraries) tools/install.sh >/dev/null
	# dpkg keeps the list of files.
	rm "$root/usr/share/leeway/manifest"
	find "$root/usr/share/man" -type f -exec gzip -9n {} +
	mkdir -p "$doc"
	{
		cat packaging/debian/copyright
		license MIT LICENSE-MIT
		license Apache-2.0 /usr/share/common-licenses/Apache-2.0
		license GPL-2.0-only /usr/share/common-licenses/GPL-2
	} >"$doc/copyright"
	changelog | gzip -9n >"$doc/changelog.gz"
	elsewhere CHANGELOG.md | gzip -9n >"$doc/NEWS.md.gz"
	elsewhere README.md >"$doc/README.md"
	install -D -m 644 -t "$doc/examples" packaging/grafana/leeway-gateway.json packaging/prometheus/leeway-gateway.rules.yml
}

# Where Debian has libraries of this architecture.
libraries() {
	echo "/usr/lib/$(dpkg-architecture --query DEB_HOST_MULTIARCH)"
}

# elsewhere FILE: a page of the top folder, whose links lead to the repository.
elsewhere() {
	sed -E 's#\]\(([A-Za-z][^):]*)\)#](https://github.com/leeway-net/leeway/blob/main/\1)#g' "$1"
}

# license NAME FILE: a text in the form of Debian's copyright file; every Debian has those below /usr.
license() {
	printf 'License: %s\n' "$1"
	case $2 in
	/usr/*) printf ' The text is in %s.\n' "$2" ;;
	*) sed 's/^$/./; s/^/ /' "$2" ;;
	esac
	echo
}

# What Debian calls a changelog: of the package, not of the program.
changelog() {
	printf 'leeway (%s) stable; urgency=medium\n\n  * What is new: /usr/share/doc/leeway/NEWS.md.gz\n\n -- %s  %s\n' "$version" \
		"$(sed -n 's/^Maintainer: //p' packaging/debian/control)" "$(date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")"
}

control() {
	local version=$1 architecture=$2 root=$work/root depends file
	mkdir -p "$root/DEBIAN" "$work/shlibs/debian"
	# dpkg-shlibdeps wants a source package around it.
	printf 'Source: leeway\n\nPackage: leeway\nArchitecture: any\n' >"$work/shlibs/debian/control"
	depends=$(cd "$work/shlibs" && dpkg-shlibdeps -O "$root/usr/bin/leeway" "$root$(libraries)/libleeway_utp.so" |
		sed -n 's/^shlibs:Depends=//p')
	sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@DEPENDS@/$depends/" \
		-e "s/@SIZE@/$(du -sk --exclude DEBIAN "$root" | cut -f 1)/" packaging/debian/control >"$root/DEBIAN/control"
	(cd "$root" && find etc -type f -printf '/%p\n' | sort) >"$root/DEBIAN/conffiles"
	# The dynamic linker's cache is made anew. A package whose program is linked with the library
	# depends on this package.
	echo activate-noawait ldconfig >"$root/DEBIAN/triggers"
	echo "libleeway_utp 0 leeway (>= $version)" >"$root/DEBIAN/shlibs"
	for file in postinst prerm postrm; do
		install -m 755 "packaging/debian/$file" "$root/DEBIAN/$file"
	done
	(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
}

main "$@"

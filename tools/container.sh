#!/usr/bin/env bash
# Builds the container image of gateway and relay, and prints its name.
# usage: tools/container.sh [PACKAGE]; a package of tools/deb.sh, made now by default.
# LEEWAY_BUILDER is podman, docker or buildah: the first of them that is there by default.
# LEEWAY_BASE names a base image instead of Debian's, such as one of tools/container.sh --base, which
# makes it with mmdebstrap (root), without a registry.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
	local builder folder package version base=()
	builder=${LEEWAY_BUILDER:-$(first podman docker buildah)}
	folder=$(mktemp -d)
	# shellcheck disable=SC2064 # the folder as it is now
	trap "rm -rf '$folder'" EXIT
	if [ "${1:-}" = --base ]; then
		mmdebstrap --quiet --variant=minbase bookworm "$folder/base.tar"
		import "$builder" "$folder/base.tar" localhost/leeway-base
		echo localhost/leeway-base
		return
	fi
	package=${1:-$(tools/deb.sh)}
	cp "$package" "$folder/"
	version=$(dpkg-deb --field "$package" Version)
	[ -z "${LEEWAY_BASE:-}" ] || base=(--build-arg "BASE=$LEEWAY_BASE")
	"$builder" build ${base[@]+"${base[@]}"} --file packaging/container/Containerfile \
		--tag "localhost/leeway:$version" "$folder" >&2
	echo "localhost/leeway:$version"
}

# The first of these programs that is there.
first() {
	local name
	for name in "$@"; do
		if command -v "$name" >/dev/null; then
			echo "$name"
			return
		fi
	done
	echo "none of $* is there; on Debian: apt-get install podman" >&2
	return 1
}

# import BUILDER ARCHIVE NAME: a root file system as an image.
import() {
	local made
	if [ "$1" = buildah ]; then
		made=$(buildah from scratch)
		buildah add --quiet "$made" "$2" / >/dev/null
		buildah commit --quiet --rm "$made" "$3" >&2
	else
		"$1" import "$2" "$3" >&2
	fi
}

main "$@"

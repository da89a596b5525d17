#!/usr/bin/env bash
# Makes the wheel and the source distribution. The wheel is installed where nothing of the checkout
# is: the lab has to list its experiments there, and to repeat a published one. Of the source
# distribution, which is not built here, cargo has to find every crate, and each crate's sources have
# to be those of the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
	local wheel sdist made
	made=$(tools/wheel.sh target/wheels)
	{ read -r wheel && read -r sdist; } <<<"$made"
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	works "$PWD/$wheel"
	tagged "$wheel"
	complete "$sdist"
	echo "$wheel and $sdist: complete"
}

works() (
	python3 -m venv "$folder/venv"
	"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --constraint python/constraints.txt "leeway[lab] @ file://$1"
	cd "$folder"
	unset PYTHONPATH
	venv/bin/leeway-lab list >listed
	grep -q rossi2010:fig2a listed
	venv/bin/leeway-lab run rossi2010:fig2a --out figures >said
	grep -q ' claims: ' said
	ls figures/rossi2010/fig2a/*.svg >/dev/null
)

# Debian 12 makes the tag that the page names.
tagged() {
	local tag
	[[ $(cat /etc/debian_version 2>/dev/null) == 12.* ]] || return 0
	tag=$(grep -oE 'manylinux_[0-9]+_[0-9]+' <<<"$1")
	grep -q "$tag" docs/install.md || {
		echo "docs/install.md does not name the wheel's tag, $tag" >&2
		return 1
	}
}

complete() {
	local source=$folder/source manifest crate
	mkdir "$source"
	tar --extract --gzip --strip-components 1 --directory "$source" --file "$1"
	cargo metadata --offline --format-version 1 --manifest-path "$source/python/Cargo.toml" >/dev/null
	for manifest in "$source"/crates/*/Cargo.toml; do
		crate=crates/$(basename "${manifest%/*}")
		diff --recursive --brief "$crate/src" "$source/$crate/src"
		[ ! -e "$crate/build.rs" ] || diff --brief "$crate/build.rs" "$source/$crate/build.rs"
	done
	diff --brief <(cat control/*.h) <(cat "$source"/crates/control/include/*.h)
	diff --recursive --brief python/src "$source/python/src"
	diff --recursive --brief --exclude __pycache__ --exclude '*.so' python/leeway "$source/leeway"
	ls "$source"/python/LICENSE-* >/dev/null
}

main

#!/usr/bin/env bash
# Compares the public items of every library crate with the crate's api.txt; a difference fails, and is shown.
# usage: tools/api.sh [--write]; --write makes the files anew: a change of them is a change of the interface.
# The format of rustdoc's JSON changes with Rust, so another Rust than that of `rust-version` compares nothing, and says so.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
	local wanted found json=${CARGO_TARGET_DIR:-target}/doc differ=0 program name folder list
	wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
	found=$(rustc --version | cut -d ' ' -f 2)
	if [ "${found#"$wanted".}" = "$found" ]; then
		echo "api: nothing compared: rustc is $found, and the lists are made by $wanted"
		return
	fi
	# The example is not wanted: with it, cargo chooses the features that clippy and rustdoc have in tools/lint.sh.
	RUSTDOC=$PWD/tools/api/rustdoc.sh RUSTDOCFLAGS="-A rustdoc::all -Z unstable-options --output-format json" \
		cargo doc --no-deps --workspace --exclude leeway-utp-c --lib --example toy --locked --quiet
	program=$(tools/program.sh leeway-api)
	while read -r name folder; do
		list=$("$program" "$json/${name//-/_}.json")
		if [ "${1:-}" = --write ]; then
			echo "$list" >"$folder/api.txt"
		elif ! echo "$list" | diff --unified=0 --label "$folder/api.txt" --label "the code" "$folder/api.txt" -; then
			differ=1
		fi
	done < <(crates)
	exhaustive
	if [ $differ -ne 0 ]; then
		echo "api: public items have changed; if that is meant, tools/api.sh --write, and commit what it changes" >&2
		return 1
	fi
}

# In a minor release an error may get another cause, and a struct of options another field. What is exhaustive
# on purpose is in tools/api/exhaustive.txt, with the reason.
exhaustive() {
	local found
	found=$(cat crates/*/api.txt | grep -E '^pub (enum .*Error|struct .*(Config|Context|Options|Params))$' |
		grep -vxFf <(grep -v '^#' tools/api/exhaustive.txt) || true)
	if [ -n "$found" ]; then
		printf '%s\napi: these need #[non_exhaustive], or a line in tools/api/exhaustive.txt\n' "$found" >&2
		return 1
	fi
}

# Name and folder of every library that others can depend on.
crates() {
	cargo metadata --no-deps --locked --format-version 1 | python3 -c '
import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    kinds = {kind for target in package["targets"] for kind in target["kind"]}
    if package["publish"] is None and "lib" in kinds:
        print(package["name"], os.path.relpath(os.path.dirname(package["manifest_path"])))
'
}

main "$@"

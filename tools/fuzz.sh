#!/usr/bin/env bash
# Fuzzes with libFuzzer, guided by coverage, on stable Rust: one harness after the other.
# usage: tools/fuzz.sh SECONDS [HARNESS...]; all harnesses of fuzz/seeds by default
# What is found goes to fuzz/artifacts/HARNESS, what covers more to fuzz/corpus/HARNESS.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
	local seconds=${1:?usage: tools/fuzz.sh SECONDS [HARNESS...]} failed=() harness
	shift
	if [ $# -eq 0 ]; then
		local folders=(fuzz/seeds/*)
		set -- "${folders[@]##*/}"
	fi
	build
	for harness in "$@"; do
		fuzz "$harness" "$seconds" || failed+=("$harness")
	done
	if [ ${#failed[@]} -gt 0 ]; then
		echo "fuzz: found something in ${failed[*]}: see fuzz/artifacts" >&2
		return 1
	fi
	echo "fuzz: nothing found in $* ($seconds s each)"
}

# What cargo-fuzz passes with `--sanitizer none`: coverage of this workspace and its dependencies, checked arithmetic.
build() {
	local flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
	flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
	flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions"
	# With --target the flags are not those of build scripts and macros, which have no libFuzzer to link with.
	RUSTFLAGS=$flags cargo build --package leeway-fuzz --bin libfuzzer --features libfuzzer --locked \
		--target "$(host)" --target-dir target/fuzz
}

host() {
	rustc -vV | sed -n 's/^host: //p'
}

# fuzz HARNESS SECONDS
fuzz() {
	mkdir -p "fuzz/corpus/$1" "fuzz/artifacts/$1"
	echo "fuzz: $1"
	LEEWAY_FUZZ=$1 "target/fuzz/$(host)/debug/libfuzzer" -max_total_time="$2" -timeout=120 -rss_limit_mb=2048 \
		-max_len=4096 -print_final_stats=1 -verbosity=0 -artifact_prefix="fuzz/artifacts/$1/" \
		"fuzz/corpus/$1" "fuzz/seeds/$1"
}

main "$@"

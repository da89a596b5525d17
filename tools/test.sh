#!/usr/bin/env bash
# Every test: the control library's own checks, all test binaries, the scenarios in the documents, the Python package, the page
# on adding a law, the wheel where nothing of the checkout is; ends with their sum.
# With LEEWAY_REQUIRE_ALL=1 a test that is skipped is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
	local log failed=0
	mkdir -p "${CARGO_TARGET_DIR:=target}"
	log=$CARGO_TARGET_DIR/test.log
	if [ -x control/check.sh ]; then
		control/check.sh </dev/null || failed=1
	fi
	cargo test --workspace --locked --no-run </dev/null || return 1
	# The test binaries run one after the other and mostly wait for networks; the lab computes beside them, in a process group
	# that ends with this script.
	set -m
	rest >"$log.rest" 2>&1 </dev/null &
	beside=$!
	set +m
	trap 'kill -- "-$beside" 2>/dev/null' EXIT
	cargo test --workspace --locked --no-fail-fast </dev/null 2>&1 | tee "$log" || failed=1
	wait "$beside" || failed=1
	trap - EXIT
	tee -a "$log" <"$log.rest"
	tools/add_a_law.py </dev/null 2>&1 | tee -a "$log" || failed=1
	awk -v all="${LEEWAY_REQUIRE_ALL:-0}" -f tools/sum.awk "$log" || failed=1
	return $failed
}

# What needs no network of its own.
rest() {
	local failed=0
	snippets || failed=1
	lab || failed=1
	tools/check_wheel.sh || failed=1
	return $failed
}

# The scenarios that the documents show have to run, and their commands have to be there.
snippets() {
	python3 tools/check_snippets.py "$(tools/program.sh)" README.md CONTRIBUTING.md docs/*.md docs/*/*.md
}

# The Python package, and with it every published experiment in its quick form.
lab() {
	target/python/bin/python -m pytest python/tests -q -p no:cacheprovider --durations=10
}

main

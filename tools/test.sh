#!/usr/bin/env bash
# Every test: the control library's own checks, all test binaries, the scenarios in the documents, the Python package;
# ends with their sum.
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
	cargo test --workspace --locked --no-fail-fast </dev/null 2>&1 | tee "$log" || failed=1
	snippets 2>&1 | tee -a "$log" || failed=1
	lab </dev/null 2>&1 | tee -a "$log" || failed=1
	pip_install </dev/null || failed=1
	sum "$log" || failed=1
	return $failed
}

# The scenarios that the documents show have to run.
snippets() {
	cargo build --locked --quiet --package leeway-cli
	python3 tools/check_snippets.py "$CARGO_TARGET_DIR/debug/leeway" README.md docs/*.md
}

# The Python package, and with it every published experiment in its quick form.
lab() {
	target/python/bin/python -m pytest python/tests -q -p no:cacheprovider --durations=10
}

# Does `pip install .` work where nothing of the package is?
pip_install() {
	local venv=target/pip-install
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --constraint python/constraints.txt ./python
	(cd / && "$OLDPWD/$venv/bin/python" -c 'import leeway; print("pip install: leeway", leeway.ENGINE)')
	rm -rf "$venv"
}

# Adds up the closing lines of the test binaries: "test result: ok. 3 passed; 0 failed; 1 ignored; ...", and that of
# pytest: "3 passed, 1 skipped in 2.10s".
sum() {
	awk -v all="${LEEWAY_REQUIRE_ALL:-0}" '
		/^test result: / {
			binaries++
			passed += $4
			failed += $6
			ignored += $8
		}
		/^[0-9]+ (passed|failed|error|skipped).* in [0-9.]+s/ {
			binaries++
			for (i = 1; i < NF; i += 2) {
				if ($(i + 1) ~ /^passed/) passed += $i
				if ($(i + 1) ~ /^(failed|error)/) failed += $i
				if ($(i + 1) ~ /^skipped/) ignored += $i
			}
		}
		END {
			if (ignored)
				print ignored " ignored" (all == 1 ? ", which LEEWAY_REQUIRE_ALL=1 forbids" : "")
			print (passed + 0) " passed, " (failed + 0) " failed"
			exit failed > 0 || binaries == 0 || (ignored > 0 && all == 1)
		}' "$1"
}

main

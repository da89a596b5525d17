#!/usr/bin/env bash
# Simulates a small set of published experiments and compares them with what was published; results go to out/.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked --quiet --package leeway-cli
leeway=${CARGO_TARGET_DIR:-target}/release/leeway

for paper in rossi2010 trang2014; do
	"$leeway" sim examples/$paper/*.toml --out out/$paper --quiet
done
python3 tools/compare.py out/*/summary.json
printf '\nWindows, queues and rates over time:\n'
printf '  %s\n' "$PWD"/out/*/report.html

#!/usr/bin/env bash
# Simulates a small set of published experiments and compares them with what was published; results go to out/.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked --quiet --package leeway-cli
leeway=${CARGO_TARGET_DIR:-target}/release/leeway

papers=(rossi2010 trang2014)
for paper in "${papers[@]}"; do
	"$leeway" sim examples/"$paper"/*.toml --out "out/$paper" --quiet
done
python3 tools/compare.py "${papers[@]/#/out/}"
printf '\nWindows, queues and rates over time:\n'
printf "  $PWD/out/%s/report.html\n" "${papers[@]}"

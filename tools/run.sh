#!/usr/bin/env bash
# A backup beside a home's own traffic, then every published experiment in its quick form; results go to out/.
# A second run only simulates what has changed since.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked --quiet --package leeway-cli
"${CARGO_TARGET_DIR:-target}/release/leeway" sim examples/home-backup.toml --out out/home-backup

printf '\nThe experiments of the literature, quick form:\n'
target/python/bin/leeway-lab report --cache out/results.sqlite --out out/report

printf '\nA home that shares its line, with its page: sudo %s demo\n' "${CARGO_TARGET_DIR:-target}/release/leeway"

#!/usr/bin/env bash
# Simulates a small set of published experiments; the results go to out/.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked --package leeway-cli
exec target/release/leeway sim examples/rossi2010/*.toml --out out/rossi2010

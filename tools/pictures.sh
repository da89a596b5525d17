#!/usr/bin/env bash
# Draws the pictures of the documents: from a run of the scenario beside each, and the crates from their manifests.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked --quiet --package leeway-cli
for scenario in docs/pictures/*.toml; do
	name=$(basename "$scenario" .toml)
	"${CARGO_TARGET_DIR:-target}/release/leeway" sim "$scenario" --out "out/pictures/$name" --quiet
	python3 tools/picture.py "out/pictures/$name/report.html" "docs/pictures/$name.svg"
done
python3 tools/architecture.py docs/pictures/architecture.svg

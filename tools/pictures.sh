#!/usr/bin/env bash
# Draws the pictures of the documents: from a run of the scenario beside each, and the crates from their manifests.
# usage: tools/pictures.sh [map]
# map: instead of these, the scoreboard's map, from all laws on its 41 networks (a quarter of an
# hour on two idle cores).
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1-}" = map ]; then
	target/python/bin/leeway-lab run scoreboard:all --full --out out/pictures/scoreboard
	cp out/pictures/scoreboard/scoreboard/all/map.svg docs/pictures/scoreboard-map.svg
	exit
fi
cargo build --release --locked --quiet --package leeway-cli
for scenario in docs/pictures/*.toml; do
	name=$(basename "$scenario" .toml)
	"${CARGO_TARGET_DIR:-target}/release/leeway" sim "$scenario" --out "out/pictures/$name" --quiet
	python3 tools/picture.py "out/pictures/$name/report.html" "docs/pictures/$name.svg"
done
python3 tools/architecture.py docs/pictures/architecture.svg

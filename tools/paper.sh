#!/usr/bin/env bash
# Runs the boards of docs/ebb-paper.md (half an hour on two idle cores) and draws its figures into docs/pictures.
# usage: tools/paper.sh
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LAB=target/python/bin/leeway-lab OUT=out/paper

"$LAB" run scoreboard:all --full --law ebb --out "$OUT/literature"
"$LAB" run scoreboard:real --full --law ebb --out "$OUT/real"
"$LAB" run scoreboard:wide --half report --sample 100 --law ebb --out "$OUT/wide"
target/python/bin/python tools/paper_figures.py "$OUT" docs/pictures

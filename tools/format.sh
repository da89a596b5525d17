#!/usr/bin/env bash
# Formats Rust, C and Python in place.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/files.sh
. tools/files.sh

cargo fmt --all
c_files | xargs -0 -r clang-format-16 -i
target/tools/ruff format --quiet .
target/tools/ruff check --quiet --fix .

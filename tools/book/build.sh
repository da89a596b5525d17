#!/usr/bin/env bash
# Builds the book into target/book (or where $1 says): the pages of docs/, the reference that the program prints, and the
# notebooks, which run in the lab's Python.
set -euo pipefail
cd "$(dirname "$0")/../.."

# What MkDocs says of its own future is not about these pages.
export NO_MKDOCS_2_WARNING=1
if [ -z "${LEEWAY:-}" ]; then
	cargo build --locked --quiet --package leeway-cli
	export LEEWAY=${CARGO_TARGET_DIR:-target}/debug/leeway
fi
target/tools/book/bin/mkdocs --quiet build --site-dir "${1:-target/book}"
echo "docs: ${1:-target/book}/index.html"

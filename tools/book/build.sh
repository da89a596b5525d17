#!/usr/bin/env bash
# Builds the book into target/book (or where $1 says): the pages of docs/, the reference that the program prints, and the
# notebooks, which run in the lab's Python.
set -euo pipefail
cd "$(dirname "$0")/../.."

# What MkDocs says of its own future is not about these pages.
export NO_MKDOCS_2_WARNING=1
if [ -z "${LEEWAY:-}" ]; then
	LEEWAY=$(tools/program.sh)
	export LEEWAY
fi
target/tools/book/bin/mkdocs --quiet build --site-dir "${1:-target/book}"
echo "docs: ${1:-target/book}/index.html"

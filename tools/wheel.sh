#!/usr/bin/env bash
# Makes the Python package's wheel and source distribution, and prints their paths. A wheel of abi3
# serves Python 3.11 and newer; its tag, by auditwheel's rules, says from which glibc on it works.
# usage: tools/wheel.sh [FOLDER]; where they go: target/wheels by default.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
	local folder=${1:-target/wheels}
	mkdir -p "$folder"
	rm -f "$folder"/leeway-*.{whl,tar.gz}
	export VIRTUAL_ENV=$PWD/target/python
	"$VIRTUAL_ENV/bin/maturin" build --manifest-path python/Cargo.toml --release --locked --out "$folder" >&2
	"$VIRTUAL_ENV/bin/maturin" sdist --manifest-path python/Cargo.toml --out "$folder" >&2
	printf '%s\n' "$folder"/leeway-*.{whl,tar.gz}
}

main "$@"

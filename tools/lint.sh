#!/usr/bin/env bash
# Every formatter and linter; runs all of them before it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/files.sh
. tools/files.sh

main() {
	local failed=()
	check "rustfmt" cargo fmt --all --check
	check "clippy" clippy_clean
	check "rustdoc" rustdoc_clean
	check "licences, bans and sources of dependencies" dependencies_clean
	check "crates' packages" python3 tools/check_crates.py
	check "clang-format" clang_format
	check "ruff check" target/tools/ruff check --quiet .
	check "ruff format" target/tools/ruff format --quiet --check .
	check "shellcheck" shell_clean
	check "links" python3 tools/check_links.py
	check "lines of the documents" python3 tools/check_lines.py
	check "law pages" python3 tools/law_tables.py --check
	if [ ${#failed[@]} -gt 0 ]; then
		printf 'lint failed: %s\n' "${failed[@]}" >&2
		return 1
	fi
	echo "lint: clean"
}

check() {
	echo "lint: $1"
	"${@:2}" </dev/null || failed+=("$1")
}

# The fuzz target belongs to a feature that links libFuzzer, which is C++: a library that is never linked here saves its
# compilation.
clippy_clean() {
	CUSTOM_LIBFUZZER_PATH=$PWD/target/libfuzzer.a cargo clippy --workspace --all-targets --features leeway-fuzz/libfuzzer \
		--locked --quiet --keep-going -- -D warnings
}

dependencies_clean() {
	target/tools/cargo-deny --log-level error check --hide-inclusion-graph licenses bans sources
}

rustdoc_clean() {
	# With an example, cargo chooses the same features as for clippy, whose dependencies are then not checked again.
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --exclude leeway-utp-c --lib --bins --example toy \
		--no-deps --document-private-items --locked --quiet
}

clang_format() {
	c_files | xargs -0 -r clang-format-16 --dry-run -Werror
}

shell_clean() {
	shell_files | xargs -0 -r shellcheck --external-sources
}

main

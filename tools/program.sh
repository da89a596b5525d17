#!/usr/bin/env bash
# Compiles the program as `cargo test --workspace` does, without optimisation, and prints its path.
# Cargo chooses features for the packages it is given, and for tests adds those that tests need. Given
# the whole workspace and one test, it chooses those of `cargo test --workspace`, so what is compiled
# here is not compiled again there.
# usage: tools/program.sh [NAME]; `leeway` by default
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --locked --quiet --workspace --bin "${1:-leeway}" --test sum >&2
echo "${CARGO_TARGET_DIR:-target}/debug/${1:-leeway}"

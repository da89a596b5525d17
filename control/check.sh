#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Compiles and exercises the laws everywhere they have to work. LEEWAY_REQUIRE_ALL=1: a missing tool is an error.
set -eu
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skipped=0
warnings='-std=c11 -Wall -Wextra -Werror -pedantic'

# find NAME...: the first of these programs that exists.
find_tool() {
	for name in "$@"; do
		if command -v "$name" >/dev/null 2>&1; then
			echo "$name"
			return
		fi
	done
}

# missing STEP PACKAGE: say that a step is left out, and why.
missing() {
	echo "skip  $1: install $2 (apt-get install $2)"
	skipped=$((skipped + 1))
}

clang=$(find_tool clang clang-16 clang-17 clang-18 clang-19)
gcc=$(find_tool gcc)
clangpp=$(find_tool clang++ clang++-16 clang++-17 clang++-18 clang++-19)
gpp=$(find_tool g++)
objdump=$(find_tool llvm-objdump llvm-objdump-16 llvm-objdump-17 llvm-objdump-18 llvm-objdump-19)
format=$(find_tool clang-format-16 clang-format)

# The example of the README, as the reader would copy it.
awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' README.md >"$work/example.c"
[ -s "$work/example.c" ] || { echo "fail  README.md has no C example"; exit 1; }

# What a BPF program needs of the table: the headers of the laws, and their names.
{
	grep '^#include "leeway_' leeway_laws.h
	printf '#define LEEWAY_EVERY_LAW(LAW) %s\n' "\\"
	sed -nE 's/^[[:space:]]+LEEWAY_LAW_ROW[A-Z_]*\(([a-z0-9_]+),.*/\tLAW(\1) \\/p' leeway_laws.h
	echo
} >"$work/leeway_every_law.h"

for compiler in "$gcc" "$clang"; do
	[ -n "$compiler" ] || continue
	for source in tests/bpf.c tests/driver.c "$work/example.c"; do
		# shellcheck disable=SC2086 # a list of flags
		"$compiler" $warnings -Wno-missing-prototypes -O2 -I. -I"$work" -c "$source" -o "$work/object.o"
	done
	echo "ok    $compiler compiles the laws, the driver and the example without warnings"
done
# User space includes the table; a program in C++ may.
printf '#include "leeway_laws.h"\nint main() { return (int)LEEWAY_COUNT_OF(leeway_laws) > 99; }\n' >"$work/table.cpp"
for compiler in "$gpp" "$clangpp"; do
	[ -n "$compiler" ] || continue
	"$compiler" -std=c++17 -Wall -Wextra -Wpedantic -Werror -O2 -I. "$work/table.cpp" -o "$work/table"
	"$work/table"
	echo "ok    $compiler compiles the table of laws as C++17 without warnings"
done
[ -n "$gpp" ] || missing "compile as C++ with g++" g++
[ -n "$clangpp" ] || missing "compile as C++ with clang" clang-16
[ -n "$gcc" ] || missing "compile with gcc" gcc
[ -n "$clang" ] || missing "compile with clang, for BPF as well" clang-16

if [ -n "$clang" ] && "$clang" --print-targets | grep -q bpf; then
	"$clang" -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -I. -I"$work" -c tests/bpf.c -o "$work/bpf.o"
	echo "ok    BPF (cpu v3): every law in one object"
	# Floating point and 128-bit arithmetic would be calls into a run-time library; so would be anything not inlined.
	"$clang" -target bpf -mcpu=v3 -O2 -I. -I"$work" -S -emit-llvm tests/bpf.c -o "$work/bpf.ll"
	if grep -v '^target ' "$work/bpf.ll" | grep -nE '\b(float|double|i128|sdiv|srem|fp128)\b'; then
		echo "fail  floating point, 128-bit arithmetic or signed division in the laws"
		exit 1
	fi
	echo "ok    no floating point, no 128-bit arithmetic, no signed division"
	if [ -n "$objdump" ]; then
		if "$objdump" -d "$work/bpf.o" | grep -nE '\b(call|callx)\b|s/=|s%='; then
			echo "fail  calls or signed division in the BPF object"
			exit 1
		fi
		echo "ok    no calls in the BPF object: everything is inlined"
	else
		missing "look into the BPF object" llvm-16
	fi
elif [ -n "$clang" ]; then
	missing "compile for BPF ($clang has no BPF target)" clang-16
fi

for compiler in "$gcc" "$clang"; do
	[ -n "$compiler" ] || continue
	flags='-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all'
	# shellcheck disable=SC2086 # lists of flags
	"$compiler" $warnings $flags -I. tests/driver.c -o "$work/driver"
	printf 'ok    %s with sanitizers: ' "$compiler"
	"$work/driver" "${LEEWAY_DRIVER_RUNS:-300}"
done

cc=${gcc:-$clang}
if [ -n "$cc" ]; then
	# shellcheck disable=SC2086 # a list of flags
	"$cc" $warnings -O2 -I. tests/vectors.c -o "$work/vectors"
	"$work/vectors" <tests/ebb_vectors.txt >"$work/decided.txt" 2>"$work/count.txt" || {
		diff tests/ebb_vectors.txt "$work/decided.txt"
		exit 1
	}
	printf 'ok    test vectors of ebb: %s\n' "$(cat "$work/count.txt")"
fi
python3=$(find_tool python3)
if [ -n "$python3" ]; then
	"$python3" tests/ebb_spec.py <tests/ebb_vectors.txt >"$work/spec.txt" || { cat "$work/spec.txt"; exit 1; }
	printf 'ok    ebb by the text of its specification: %s\n' "$(cat "$work/spec.txt")"
else
	missing "ebb by the text of its specification" python3
fi

if [ -n "$format" ]; then
	"$format" --dry-run -Werror ./*.h tests/*.c
	echo "ok    format"
else
	missing "check the format" clang-format-16
fi

if [ "$skipped" -gt 0 ] && [ "${LEEWAY_REQUIRE_ALL:-0}" = 1 ]; then
	echo "fail  $skipped steps skipped, and LEEWAY_REQUIRE_ALL=1"
	exit 1
fi

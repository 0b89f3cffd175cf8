#!/bin/sh
# The code of the project's kernels, compiled for the host and run thread by thread, gives what
# plain C gives.
# Usage: check_kernels.sh SOURCE_DIR. Needs a C++ compiler (CXX, else c++); without one, skipped
# (77).
cd "$1" || exit 2
cxx=${CXX:-c++}
cc=${CC:-cc}
command -v "$cxx" >/dev/null 2>&1 || { echo "skipped: no $cxx"; exit 77; }
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT
"$cc" -std=c11 -D_GNU_SOURCE -I. -c iter/core/tensor.c -o "$made/tensor.o" || exit 1
"$cxx" -std=c++17 -D_GNU_SOURCE -O1 -Wall -Wextra -Wno-unknown-pragmas -ffp-contract=off -I. -pthread \
    -x c++ tests/fake/kernels_on_host.cc -x none "$made/tensor.o" -o "$made/kernels_on_host" || exit 1
"$made/kernels_on_host" 300

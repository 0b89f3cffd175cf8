#!/bin/sh
# Installs oneDNN 3.2 from its Python packages: library, headers and CMake package. On a processor that has AVX2 alone, it computes
# convolutions faster than Debian 12's version 2.6. The next `make` builds the trainer with it. Usage: onednn.sh [PREFIX]    (default: /usr/local)
set -eu
cd "$(dirname "$0")/.."
prefix=${1:-/usr/local}
fail() { echo "onednn.sh: $*" >&2; exit 1; }
[ "$(uname -m)" = x86_64 ] || fail "the packages are for x86_64; this machine is $(uname -m)"
if grep -qsw avx512f /proc/cpuinfo; then echo "note: this processor has AVX-512, with which oneDNN 2.6 is the faster one"; fi
venv=$(mktemp -d) # not in build/, which would then be root's
trap 'rm -rf "$venv"' EXIT
mkdir -p "$prefix/lib/cmake" "$prefix/include" 2>/dev/null && [ -w "$prefix/lib" ] && [ -w "$prefix/include" ] ||
    fail "cannot write to $prefix: please run make onednn as root, or with PREFIX=DIR"

echo "+ python3 -m venv $venv && $venv/bin/pip install -r scripts/onednn.txt"
{ python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q --retries 1 --timeout 15 --disable-pip-version-check \
    --no-deps --require-hashes -r scripts/onednn.txt; } >"$venv/log" 2>&1 || { tail -n 2 "$venv/log" >&2; exit 1; }

# A wheel has no links, so it holds the library three times.
cp "$venv/lib/libdnnl.so.3.2" "$prefix/lib/"
ln -sf libdnnl.so.3.2 "$prefix/lib/libdnnl.so.3"
ln -sf libdnnl.so.3 "$prefix/lib/libdnnl.so"
cp -R "$venv/include/oneapi" "$venv"/include/dnnl*.h* "$prefix/include/"
cp -R "$venv/lib/cmake/dnnl" "$prefix/lib/cmake/"
if [ "$(id -u)" = 0 ] && [ "$prefix" = /usr/local ]; then ldconfig; fi
rm -f build/release/CMakeCache.txt # it remembers the version that it found
echo "$prefix/lib/libdnnl.so.3.2"

#!/bin/sh
# Sees to it that what `make demo` (or `make test`) needs is installed; asks apt only for what is missing.
# Usage: need.sh demo|test|PACKAGE...
set -eu
demo="gcc libc6-dev make cmake ninja-build pkg-config zlib1g-dev liburing-dev libjpeg62-turbo-dev libpng-dev libjansson-dev libdnnl-dev"
# ocl-icd-opencl-dev: a program that links our static trainer asks for oneDNN by its package file, and that for OpenCL.
tests="$demo ocl-icd-opencl-dev g++ binutils libcriterion-dev clang libclang-rt-dev clang-format clang-tidy file git python3 python3-venv strace"
case ${1:-} in
demo) packages=$demo ;;
test) packages=$tests ;;
'') echo "usage: need.sh demo|test|PACKAGE..." >&2; exit 2 ;;
*) packages=$* ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "This is no Debian: if the build fails, install what these packages hold: $packages"
    exit 0
fi
missing=
for package in $packages; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

root=
if [ "$(id -u)" != 0 ]; then
    root=sudo
    command -v sudo >/dev/null 2>&1 || { echo "Please install as root: apt-get install$missing" >&2; exit 1; }
fi
echo "Missing:$missing"
echo "+ ${root:+$root }apt-get update && ${root:+$root }apt-get install -y --no-install-recommends$missing"
log=$(mktemp); trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # a list of package names
if ! { $root apt-get update && $root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    exit 1
fi

#!/bin/sh
# Installs what a step of the Makefile needs and this machine lacks. Usage: need.sh [-n] build|test|mpi|wheel|tidy|docs|onednn|fresh|make [must]
#   -n     installs nothing: fails if something that the step must have is missing, and says how to get it
#   must   only what the step must have, nothing optional
# The script tries the compiler and the shell, so it does not matter how a thing was installed. What is missing comes from apt, as root or
# with sudo. If apt cannot be used, need.sh fails if the step must have the thing, and goes on without it if the thing is optional.
set -eu
look_only=
if [ "${1:-}" = -n ]; then look_only=1; shift; fi
step=${1:-} must_only=${2:-}
log=$(mktemp -d)/log
trap 'rm -rf "${log%/log}"' EXIT

# Columns: step, must or may, what is looked for, the packages that have it. a|b: the first of these that apt knows.
# Debian 12 and 13 and Ubuntu 22.04 and 24.04 use these names. On Ubuntu 22.04 clang's runtime is part of clang's own packages.
# ocl-icd-opencl-dev: a program that links our static trainer looks for oneDNN by its CMake package, which looks for OpenCL.
rows() {
    cat <<'ROWS'
build must compiler                     gcc libc6-dev
build must cmake                        cmake
build must header:zlib.h                zlib1g-dev
build may  command:ninja                ninja-build
build may  command:pkg-config           pkg-config
build may  header:liburing.h            liburing-dev
build may  header:jpeglib.h             libjpeg-dev
build may  header:png.h                 libpng-dev
build may  header:webp/decode.h         libwebp-dev
build may  header:curl/curl.h           libcurl4-openssl-dev
build may  header:openssl/evp.h         libssl-dev
build may  header:expat.h               libexpat1-dev
build may  header:jansson.h             libjansson-dev
build may  header:oneapi/dnnl/dnnl.h    libdnnl-dev
test must command:clang                 clang
test must fuzzer                        libclang-rt-dev|libclang-common-14-dev
test must command:g++                   g++
test must command:nm                    binutils
test must command:python3               python3
test must header:criterion/criterion.h  libcriterion-dev
test may  header:CL/cl.h                ocl-icd-opencl-dev
test may  command:clang-format          clang-format
test may  command:ld.lld                lld
test may  command:strace                strace
test may  command:nginx                 nginx-light
test may  command:openssl               openssl
test may  command:mpicc                 libopenmpi-dev
test may  command:mpirun                openmpi-bin
test may  command:doxygen               doxygen
test may  command:zsh                   zsh
test may  python:venv,ensurepip         python3-venv
mpi   must command:mpicc                 libopenmpi-dev
mpi   must command:mpirun                openmpi-bin
wheel must command:gcc                  gcc libc6-dev
wheel must cmake                        cmake
wheel must header:zlib.h                zlib1g-dev
wheel must command:pkg-config           pkg-config
wheel must command:nm                   binutils
wheel must header:liburing.h            liburing-dev
wheel must header:jpeglib.h             libjpeg-dev
wheel must header:png.h                 libpng-dev
wheel must header:webp/decode.h         libwebp-dev
wheel must header:curl/curl.h           libcurl4-openssl-dev
wheel must header:openssl/evp.h         libssl-dev
wheel must header:expat.h               libexpat1-dev
wheel must command:python3              python3
wheel must python:venv,ensurepip        python3-venv
wheel may  command:ninja                ninja-build
tidy must command:clang                 clang
tidy must command:run-clang-tidy        clang-tidy
tidy must command:ninja                 ninja-build
docs must command:doxygen               doxygen
docs must command:python3               python3
docs must python:venv,ensurepip         python3-venv
onednn must command:python3             python3
onednn must python:venv,ensurepip       python3-venv
make must command:make                  make
fresh must command:debootstrap          debootstrap
ROWS
}

compiler() { # prints the name of one that can build a program, or nothing
    for name in ${CC:-} cc gcc clang; do
        if printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | "$name" -x c - -o "$log.out" 2>/dev/null; then
            echo "$name"
            return
        fi
    done
}

cmake_is_new() { # at least the version that CMakeLists.txt needs
    wanted=$(sed -nE 's/^cmake_minimum_required\(VERSION ([0-9.]+)\).*/\1/p' "$(dirname "$0")/../CMakeLists.txt")
    have=$(cmake --version 2>/dev/null | sed -n '1s/.* //p')
    [ -n "$have" ] && [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ]
}

is_there() {
    case $1 in
    compiler) [ -n "$cc" ] ;;
    cmake) cmake_is_new ;;
    command:*) command -v "${1#*:}" >/dev/null 2>&1 ;;
    header:*) [ -n "$cc" ] && printf '#include <stdio.h>\n#include <%s>\n' "${1#*:}" | "$cc" -E -x c - >/dev/null 2>&1 ;;
    fuzzer) printf 'int LLVMFuzzerTestOneInput(void) { return 0; }\n' | clang -fsanitize=fuzzer,address -x c - -o "$log.out" 2>/dev/null ;;
    python:*) python3 -c "import ${1#*:}" 2>/dev/null ;;
    esac
}

# look: sets must and may to the packages of the things that are missing.
look() {
    cc=$(compiler) must='' may=''
    while read -r of level what packages; do
        [ "$level" = must ] || [ -z "$must_only" ] || continue
        [ "$of" = "$step" ] || { [ "$step" = test ] && [ "$of" = build ]; } || continue
        is_there "$what" && continue
        if [ "$level" = must ]; then must="$must $packages"; else may="$may $packages"; fi
    done <<ROWS
$(rows)
ROWS
}

apt_has() { apt-cache policy "$1" 2>/dev/null | grep -q '^ *Candidate: [^(]'; }

# resolve PACKAGE...: sets known to the names that apt knows, unknown to the others.
resolve() {
    known='' unknown=''
    for choice; do
        name=''
        for one in $(echo "$choice" | tr '|' ' '); do
            if [ -z "$name" ] && apt_has "$one"; then name=$one; fi
        done
        if [ -n "$name" ]; then known="$known $name"; else unknown="$unknown $choice"; fi
    done
}

install() { # $run is sudo or empty
    # shellcheck disable=SC2086
    $run env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >"$log" 2>&1
}

case $step in
build | test | mpi | wheel | tidy | docs | onednn | fresh | make) ;;
*) echo "usage: need.sh [-n] build|test|mpi|wheel|tidy|docs|onednn|fresh|make [must]" >&2; exit 2 ;;
esac
look
[ -n "$must$may" ] || exit 0

# names PACKAGE...: those to install. Without apt's lists the first name of a|b is used.
names() {
    if command -v apt-cache >/dev/null 2>&1; then resolve "$@"; else known=" $*" unknown=''; fi
    for choice in $unknown; do known="$known ${choice%%|*}"; done
    echo "$known"
}
if [ -n "$look_only" ]; then
    [ -n "$must" ] || exit 0
    # shellcheck disable=SC2086
    echo "Missing:$(names $must). Please run \`make deps\`, which installs what a build needs by apt, as root or with sudo." >&2
    exit 1
fi

# sudo may ask for a password only if the step cannot go on without the installation.
run=none
if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then
        run=''
    elif sudo -n true 2>/dev/null || { [ -n "$must" ] && [ -t 0 ] && command -v sudo >/dev/null 2>&1; }; then
        run=sudo
    fi
fi
if [ "$run" = none ]; then
    # shellcheck disable=SC2086
    {
        if [ -n "$must" ]; then
            echo "Please install first, as root: apt-get install$(names $must)${may:+   (optional:$(names $may))}" >&2
            exit 1
        fi
        echo "Going on without what is optional. To install it, as root: apt-get install$(names $may)"
    }
    exit 0
fi

echo "+ ${run:+sudo }apt-get update"
$run apt-get update >"$log" 2>&1 || echo "  it failed, so the package lists may be old: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log")"
# shellcheck disable=SC2086
{
    resolve $must
    must_known=$known must_unknown=$unknown
    resolve $may
    may_known=$known may_unknown=$unknown
    [ -z "$may_unknown" ] || echo "  going on without what apt does not have:$may_unknown"
    if [ -n "$must_unknown" ]; then
        echo "apt does not have what is needed:$must_unknown" >&2
        exit 1
    fi
    if [ -n "$must_known$may_known" ]; then
        echo "+ ${run:+sudo }apt-get install -y --no-install-recommends$must_known$may_known"
        if ! install $must_known $may_known; then
            # One package that cannot be installed must not prevent the others.
            if [ -n "$must_known" ] && ! install $must_known; then tail -n 20 "$log" >&2; exit 1; fi
            for name in $may_known; do install "$name" || echo "  apt could not install $name: $(grep '^E:' "$log" | tail -n 1)"; done
        fi
    fi
}
look
[ -n "$must" ] || exit 0
if command -v cmake >/dev/null 2>&1 && ! cmake_is_new; then
    echo "CMake is too old: expected $wanted or newer, got $have. A newer one: python3 -m pip install cmake" >&2
else
    echo "Still missing after the installation:$must" >&2
fi
exit 1

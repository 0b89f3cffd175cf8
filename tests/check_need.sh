#!/bin/sh
# scripts/need.sh on made-up machines: each distribution's package names, with and without root,
# with apt failing.
# Usage: check_need.sh SOURCE_DIR
cd "$1" || exit 2
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_need: $case: $*"; cat "$dir/out" "$dir/err" "$dir/calls" 2>/dev/null; bad=1; }

# The relevant names in the archives of Debian 12, Debian 13, Ubuntu 22.04 and Ubuntu 24.04 (main,
# universe).
everywhere="gcc libc6-dev cmake ninja-build pkg-config zlib1g-dev liburing-dev libjpeg-dev libpng-dev libwebp-dev libcurl4-openssl-dev libssl-dev libexpat1-dev libjansson-dev libdnnl-dev
clang g++ binutils python3 libcriterion-dev ocl-icd-opencl-dev clang-format lld clang-tidy strace nginx-light openssl libopenmpi-dev openmpi-bin zsh python3-venv doxygen debootstrap"
bookworm="$everywhere libjpeg62-turbo-dev libclang-rt-dev libclang-common-14-dev"
trixie="$everywhere libjpeg62-turbo-dev libclang-rt-dev"
jammy="$everywhere libjpeg-turbo8-dev libclang-common-14-dev"
noble="$everywhere libjpeg-turbo8-dev libclang-rt-dev libclang-common-14-dev"

# tool NAME: makes a program of the made-up machine; its text comes from stdin.
tool() { { echo '#!/bin/sh'; cat; } >"$dir/bin/$1"; chmod +x "$dir/bin/$1"; }

# machine PACKAGES: makes a bare one whose archive has these. Programs of coreutils are the real
# ones.
machine() {
    rm -rf "$dir/bin" "$dir/calls" "$dir/there" "$dir/broken"
    mkdir "$dir/bin"
    for name in sh sed grep head tail mktemp rm cat chmod tr sort dirname env; do ln -s "$(command -v $name)" "$dir/bin/$name"; done
    echo "$1" >"$dir/archive"
    : >"$dir/calls"
    : >"$dir/there"
    echo 0 >"$dir/uid"
    tool id <<END
cat "$dir/uid"
END
    tool apt-cache <<END
if grep -qwF -- "\$2" "$dir/archive"; then echo "  Candidate: 1.0-1"; elif [ "\$2" = virtual ]; then echo "  Candidate: (none)"; fi
END
    # Installs all packages of the command, or nothing.
    tool apt-get <<END
echo "apt-get \$*" >>"$dir/calls"
case \$1 in
update) if [ -e "$dir/offline" ]; then echo "E: Failed to fetch"; exit 100; fi; exit 0 ;;
esac
shift
for name; do
    case \$name in -*) continue ;; esac
    if ! grep -qwF -- "\$name" "$dir/archive" || grep -qsxF -- "\$name" "$dir/broken"; then echo "E: Unable to correct problems, \$name"; exit 100; fi
done
for name; do case \$name in -*) ;; *) sh "$dir/install" "\$name" ;; esac; done
END
}
# The contents of a package: programs that only have to exist, the compiler, headers.
cat >"$dir/install" <<END
there() { printf '#!/bin/sh\n%s\n' "\$2" >"$dir/bin/\$1"; chmod +x "$dir/bin/\$1"; }
header() { echo "\$1" >>"$dir/there"; }
case \$1 in
gcc) there cc 'case \$* in
*-E*) for name in \$(sed -n "s/^#include <\(.*\)>\$/\1/p"); do [ \$name = stdio.h ] || grep -qxF "\$name" "$dir/there" || exit 1; done ;;
esac'; there gcc ;;
cmake) there cmake 'echo "cmake version \$(cat "$dir/cmake" 2>/dev/null || echo 3.25.1)"' ;;
ninja-build) there ninja ;; pkg-config) there pkg-config ;; g++) there g++ ;; binutils) there nm ;;
clang) there clang 'grep -qxF runtime "$dir/there"' ;; libclang-*) header runtime ;;
python3) there python3 'grep -qxF venv "$dir/there"' ;; python3-venv) header venv ;;
clang-format) there clang-format ;; lld) there ld.lld ;; strace) there strace ;; openssl) there openssl ;;
nginx-light) there nginx ;; libopenmpi-dev) there mpicc ;; openmpi-bin) there mpirun ;;
zlib1g-dev) header zlib.h ;; liburing-dev) header liburing.h ;; libjpeg-dev) header jpeglib.h ;; libpng-dev) header png.h ;;
libwebp-dev) header webp/decode.h ;; libjansson-dev) header jansson.h ;;
libcurl4-openssl-dev) header curl/curl.h ;; libssl-dev) header openssl/evp.h ;; libexpat1-dev) header expat.h ;; libdnnl-dev) header oneapi/dnnl/dnnl.h ;;
libcriterion-dev) header criterion/criterion.h ;; doxygen) there doxygen ;; zsh) there zsh ;; ocl-icd-opencl-dev) header CL/cl.h ;;
esac
END
have() { for name; do sh "$dir/install" "$name"; done; }
user() { echo 1000 >"$dir/uid"; }

# need STATUS ARGUMENTS: runs it there.
need() {
    want=$1; shift
    env -i PATH="$dir/bin" TMPDIR="$dir" sh scripts/need.sh "$@" >"$dir/out" 2>"$dir/err" </dev/null
    got=$?
    [ $got = "$want" ] || fault "status $got, not $want"
}
says() { grep -qF -- "$2" "$dir/$1" || fault "'$2' is not in $1"; }
installs() { says calls "apt-get install -y --no-install-recommends $*"; }
lines() { [ "$(cat "$dir/out" "$dir/err" | wc -l)" = "$1" ] || fault "not $1 lines"; }

must="gcc libc6-dev cmake zlib1g-dev"
may="ninja-build pkg-config liburing-dev libjpeg-dev libpng-dev libwebp-dev libcurl4-openssl-dev libssl-dev libexpat1-dev libjansson-dev libdnnl-dev"
for name in bookworm trixie jammy noble; do
    case="$name, root"
    eval "archive=\$$name"
    runtime=libclang-rt-dev
    [ $name != jammy ] || runtime=libclang-common-14-dev
    machine "$archive"
    need 0 build
    installs "$must $may"
    need 0 test
    installs "clang $runtime g++ binutils python3 libcriterion-dev ocl-icd-opencl-dev clang-format lld strace nginx-light openssl libopenmpi-dev openmpi-bin doxygen zsh python3-venv"
done
case="root, everything is there"
need 0 test
lines 0
case="root, what a wheel needs"
machine "$bookworm"
need 0 wheel
installs "gcc libc6-dev cmake zlib1g-dev pkg-config binutils liburing-dev libjpeg-dev libpng-dev libwebp-dev libcurl4-openssl-dev libssl-dev libexpat1-dev python3 python3-venv ninja-build"

case="root, only what a build needs"
machine "$bookworm"
need 0 build must
installs "$must"
[ -e "$dir/bin/cc" ] && [ ! -e "$dir/bin/ninja" ] || fault "must installs too little or too much"

case="make installs nothing, make deps does"
machine "$bookworm"
ln -s "$(command -v make)" "$dir/bin/make"
makes() { # makes STATUS TARGET...
    want=$1; shift
    env -i PATH="$dir/bin" TMPDIR="$dir" make --no-print-directory "$@" >"$dir/out" 2>"$dir/err" </dev/null
    got=$?
    [ $got = "$want" ] || fault "status $got, not $want"
}
for target in "" all install; do
    # shellcheck disable=SC2086
    makes 2 $target
    says err "Missing: $must. Please run \`make deps\`"
    [ ! -s "$dir/calls" ] || fault "apt-get was called"
done
makes 0 deps
installs "$must $may"
need 0 -n build
lines 0
need 1 -n test
says err "Missing: clang libclang-rt-dev g++"
makes 0 deps STEP=docs
installs "doxygen python3 python3-venv"

case="not root, nothing is there"
machine "$bookworm"
user
need 1 build
says err "apt-get install $must "
says err "$may)"
lines 1
[ ! -s "$dir/calls" ] || fault "apt-get was called"

case="not root, a build would work"
# shellcheck disable=SC2086
have $must
need 0 build
says out "apt-get install $may"
lines 1

case="sudo wants a password: not for what is optional"
tool sudo <<END
echo "sudo \$*" >>"$dir/calls"
exit 1
END
need 0 build
[ "$(cat "$dir/calls")" = "sudo -n true" ] || fault "sudo was asked for more"

case="sudo without a password"
tool sudo <<'END'
[ "$1" != -n ] || shift
[ "$1" = true ] || exec "$@"
END
need 0 build
installs "$may"
says out "+ sudo apt-get install"

case="an optional package that apt does not have"
machine "$(echo "$bookworm" | sed 's/libdnnl-dev//')"
need 0 build
says out "going on without what apt does not have: libdnnl-dev"
installs "$must $(echo "$may" | sed 's/ libdnnl-dev//')"

case="a package that a build needs and apt does not have"
machine "$(echo "$bookworm" | sed 's/zlib1g-dev//')"
need 1 build
says err "apt does not have what is needed: zlib1g-dev"

case="an optional package that cannot be installed"
machine "$bookworm"
echo libdnnl-dev >"$dir/broken"
need 0 build
says out "apt could not install libdnnl-dev: E: Unable to correct problems"
grep -qxF jansson.h "$dir/there" || fault "one broken package keeps the others away"

case="a package that a build needs and that cannot be installed"
machine "$bookworm"
echo zlib1g-dev >"$dir/broken"
need 1 build
says err "E: Unable to correct problems, zlib1g-dev"

case="apt-get update fails"
machine "$bookworm"
touch "$dir/offline"
need 0 build
says out "E: Failed to fetch"
installs "$must $may"
rm "$dir/offline"

case="an archive with an old CMake"
machine "$bookworm"
echo 3.18.4 >"$dir/cmake"
need 1 build
says err "CMake is too old: expected $(sed -nE 's/^cmake_minimum_required\(VERSION ([0-9.]+)\).*/\1/p' CMakeLists.txt) or newer, got 3.18.4"
rm "$dir/cmake"

case="no apt"
machine "$bookworm"
rm "$dir/bin/apt-get" "$dir/bin/apt-cache"
need 1 build
says err "$must"
lines 1
# shellcheck disable=SC2086
have $must
need 0 build
says out "$may"

case="usage"
need 2
need 2 other
exit $bad

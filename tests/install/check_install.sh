#!/bin/sh
# Installs into a scratch prefix, moves it (a package must be relocatable), then builds and runs a
# consumer by find_package and by pkg-config; the same for the library in its other form (static or
# shared). Also compiles every public header alone, as C11 and as C++17.
# Usage: check_install.sh SOURCE_DIR BINARY_DIR
set -e
source=$1; build=$2; here=$source/tests/install
: "${CC:=cc}"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

consume() { # consume BINARY_DIR NAME static|shared
    cmake --install "$1" --prefix "$work/$2.staged" >/dev/null
    mv "$work/$2.staged" "$work/$2.root"
    if [ -x "$work/$2.root/bin/iterbench" ]; then
        for file in man/man1/iterbench.1 man/man1/iterpack.1 bash-completion/completions/iterpack zsh/site-functions/_iterbench doc/iter/README.md doc/iter/docs/iterbench.md; do
            [ -s "$work/$2.root/share/$file" ] || { echo "$3: share/$file is not installed"; exit 1; }
        done
    fi
    pc=$(dirname "$(find "$work/$2.root" -name iter.pc)")
    lib=$(dirname "$pc")
    cmake -S "$here/consumer" -B "$work/$2.cmake" -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_PREFIX_PATH="$work/$2.root" >/dev/null
    cmake --build "$work/$2.cmake" >/dev/null
    "$work/$2.cmake/consumer" >/dev/null
    if [ -f "$work/$2.root/include/iter/engine.h" ]; then "$work/$2.cmake/engine"; fi
    [ "$3" = static ] && static=--static || static=
    # shellcheck disable=SC2046,SC2086
    PKG_CONFIG_PATH="$pc" "$CC" -std=c11 "$here/consumer/main.c" -o "$work/$2.pc" \
        $(PKG_CONFIG_PATH="$pc" pkg-config $static --cflags --libs iter)
    LD_LIBRARY_PATH="$lib" "$work/$2.pc"
    if [ -f "$pc/iter-engine.pc" ]; then
        # shellcheck disable=SC2046,SC2086
        PKG_CONFIG_PATH="$pc" "$CC" -std=c11 "$here/consumer/engine.c" -o "$work/$2.engine" \
            $(PKG_CONFIG_PATH="$pc" pkg-config $static --cflags --libs iter-engine)
        LD_LIBRARY_PATH="$lib" "$work/$2.engine"
    fi
    # iter::diagnose watches a program that does not call it.
    # shellcheck disable=SC2046,SC2086
    PKG_CONFIG_PATH="$pc" "$CC" -std=c11 "$here/consumer/watched.c" -o "$work/$2.watched" \
        $(PKG_CONFIG_PATH="$pc" pkg-config $static --cflags --libs iter-diagnose)
    for program in "$work/$2.watched" "$work/$2.cmake/watched"; do
        ITER_DIAGNOSE=1 LD_LIBRARY_PATH="$lib" "$program" 2>"$work/verdict"
        grep -q '^libiter: verdict on ' "$work/verdict" || { cat "$work/verdict"; echo "$3: no verdict"; exit 1; }
    done
    case $3 in # the form that was asked for is the form that was linked
    shared) LD_LIBRARY_PATH="$lib" ldd "$work/$2.pc" | grep -q "$lib/libiter" ;;
    static) ! ldd "$work/$2.pc" | grep -q libiter ;;
    esac
    # If the requested form is missing, the message names the one that is installed.
    mkdir -p "$work/$2.form"
    printf 'cmake_minimum_required(VERSION 3.22)\nproject(form C)\nfind_package(iter REQUIRED COMPONENTS ${form})\n' \
        >"$work/$2.form/CMakeLists.txt"
    [ "$3" = static ] && absent=shared || absent=static
    cmake -S "$work/$2.form" -B "$work/$2.form/$absent" -Dform=$absent -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$work/$2.root" >"$work/form.log" 2>&1 &&
        { echo "$3: component $absent was found"; exit 1; }
    tr -s '\n ' ' ' <"$work/form.log" | grep -q "has no component '$absent'" || { cat "$work/form.log"; exit 1; }
    cmake -S "$here/consumer" -B "$work/$2.form/cmake" -DCMAKE_C_COMPILER="$CC" -Dform="$3" \
        -DCMAKE_PREFIX_PATH="$work/$2.root" >/dev/null
    echo "  $3: find_package and pkg-config"
}

if [ "$ITER_SHARED" = 1 ]; then this=shared other=static flag=OFF; else this=static other=shared flag=ON; fi
consume "$build" this $this

cmake -S "$source" -B "$work/other" -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=$flag \
    -DITER_BUILD_TESTS=OFF -DITER_BUILD_BENCH=OFF -DITER_BUILD_EXAMPLES=OFF >/dev/null
cmake --build "$work/other" >/dev/null
consume "$work/other" other $other

case $CC in *clang*) cxx=clang++ ;; *) cxx=g++ ;; esac
command -v $cxx >/dev/null || { echo "no $cxx for the headers"; exit 1; }
for header in "$work"/this.root/include/iter/*.h; do
    name=iter/$(basename "$header")
    printf '#include <%s>\nint main(void) { return 0; }\n' "$name" >"$work/h.c"
    cp "$work/h.c" "$work/h.cc"
    "$CC" -std=c11 -Wall -Wextra -Wpedantic -Wundef -Werror -I"$work/this.root/include" -c "$work/h.c" -o "$work/h.o"
    "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Wundef -Werror -I"$work/this.root/include" -c "$work/h.cc" -o "$work/h.o"
done
echo "  headers alone: C11 and C++17"

#!/bin/bash
# Builds the Python wheel: the package in python/, the shared libraries, iterbench and iterpack. One wheel serves every Python from 3.9 on.
# zig compiles against the headers of glibc 2.28; the codecs, zlib, liburing, OpenSSL's SHA-256 and expat come from the system's static
# libraries, so that the wheel needs glibc alone. libcurl is the user's: it is opened when the first URL is read. auditwheel decides whether the tag is true. Exits with 77 if this machine lacks something that it needs.
# Usage: wheel.sh [-q] [FOLDER]    (default: dist; -q: no progress)
set -eu -o pipefail
cd "$(dirname "$0")/.."
quiet=
if [ "${1:-}" = -q ]; then quiet=-q; shift; fi
folder=${1:-dist}
glibc=2.28
platform=manylinux_${glibc/./_}_x86_64
tools=$PWD/build/wheel-tools static=$PWD/build/wheel-tools/static project=build/wheel-project stage=build/wheel-stage
mkdir -p build
fail() { echo "wheel.sh: $*" >&2; exit 1; }
lack() { echo "wheel.sh: $*" >&2; exit 77; } # this machine cannot build a wheel
[ "$(uname -m)" = x86_64 ] || lack "the wheel is for x86_64; this machine is $(uname -m)"

# ---- The tools, in a venv, with pinned versions
if ! cmp -s scripts/wheel_tools.txt "$tools/wheel_tools.txt"; then
    echo "+ python3 -m venv build/wheel-tools && build/wheel-tools/bin/pip install -r scripts/wheel_tools.txt"
    rm -rf "$tools"
    { python3 -m venv "$tools" && timeout 300 "$tools/bin/python" -m pip install -q --retries 1 --timeout 15 \
        --disable-pip-version-check -r scripts/wheel_tools.txt; } >build/wheel-tools.log 2>&1 ||
        { tail -n 2 build/wheel-tools.log >&2; lack "pip could not install the tools; the whole log: build/wheel-tools.log"; }
    cp scripts/wheel_tools.txt "$tools/wheel_tools.txt"
fi
zig=$("$tools/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')
# Unless it is told otherwise, zig keeps frame pointers, writes debug information, and sanitizes what is compiled without -O.
cat >"$tools/cc.new" <<END
#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR="\${ZIG_GLOBAL_CACHE_DIR:-$tools/cache}"
exec "$zig/zig" cc -target x86_64-linux-gnu.$glibc -g0 -fomit-frame-pointer -fno-sanitize=all "\$@"
END
chmod +x "$tools/cc.new"
cmp -s "$tools/cc.new" "$tools/cc" || { rm -rf build/wheel && mv "$tools/cc.new" "$tools/cc"; } # CMake does not look into the compiler

# ---- The static libraries, in a folder that has nothing else: /usr/include would bring the headers of this system's glibc
# Columns: name, archive (- = headers alone), headers (under /usr/include or its folder for the architecture, or both), the package
# with the licence.
libraries() {
    cat <<'ROWS'
libjpeg   libjpeg.a   jpeglib.h,jmorecfg.h,jerror.h,jconfig.h  libjpeg62-turbo-dev|libjpeg-turbo8-dev
libpng    libpng16.a  png.h,pngconf.h,pnglibconf.h             libpng-dev
libwebp   libwebp.a   webp                                     libwebp-dev
zlib      libz.a      zlib.h,zconf.h                           zlib1g-dev
liburing  liburing.a  liburing.h,liburing                      liburing-dev
libcrypto libcrypto.a openssl                                  libssl-dev
expat     libexpat.a  expat.h,expat_external.h                 libexpat1-dev
libcurl   -           curl                                     libcurl4-openssl-dev
ROWS
}
# A distribution compiles its static libraries for programs (-fPIE). In a shared library that works, except for the one variable of libc that
# they use: stderr. They get one that the library itself has. It also has what newer versions of glibc have: arc4random_buf(), from which expat
# takes a salt of its hash tables. (__isoc23_strtoul is what a compiler for glibc 2.38 makes of strtoul.)
cat >"$tools/glibc.c" <<'END'
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN FILE *wheel_stderr;
HIDDEN void wheel_random(void *out, size_t n);
__attribute__((constructor)) static void set_stderr(void) { wheel_stderr = stderr; }
void wheel_random(void *out, size_t n) {
    if (getrandom(out, n, 0) == (ssize_t)n) return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (size_t i = 0; i < n; i++) ((unsigned char *)out)[i] = (unsigned char)(now.tv_nsec >> i % 4 * 8);
}
END
"$tools/cc" -O2 -fPIC -c "$tools/glibc.c" -o "$tools/glibc.o"
multiarch=x86_64-linux-gnu
system_pc() { env -u PKG_CONFIG_LIBDIR -u PKG_CONFIG_PATH pkg-config --modversion "$1" || lack "pkg-config does not find $1 (make deps STEP=wheel)"; }
rm -rf "$static" "$project" "$stage"
mkdir -p "$static/include" "$static/lib/pkgconfig" "$project/licenses"
while read -r name archive headers packages; do
    version=$(system_pc "$name")
    for header in ${headers//,/ }; do # a folder may be in several places, each with a part of it
        for place in /usr/include/libpng16 /usr/include "/usr/include/$multiarch"; do
            if [ -e "$place/$header" ]; then cp -rsf "$place/$header" "$static/include/"; fi
        done
        [ -e "$static/include/$header" ] || lack "$header was not found (package ${packages%%|*}; make deps STEP=wheel)"
    done
    libs=
    if [ "$archive" != - ]; then
        found=
        for file in "/usr/lib/$multiarch/$archive" "/usr/lib/$archive"; do if [ -z "$found" ] && [ -f "$file" ]; then found=$file; fi; done
        [ -n "$found" ] || lack "$archive was not found (package ${packages%%|*}; make deps STEP=wheel)"
        objcopy --redefine-sym stderr=wheel_stderr --redefine-sym arc4random_buf=wheel_random --redefine-sym __isoc23_strtoul=strtoul \
            "$found" "$static/lib/$archive"
        ar rs "$static/lib/$archive" "$tools/glibc.o" 2>/dev/null
        libs=${archive#lib} libs="-L$static/lib -l${libs%.a}"
        for package in ${packages//|/ }; do
            if [ -f "/usr/share/doc/$package/copyright" ]; then cp "/usr/share/doc/$package/copyright" "$project/licenses/$name-$version.txt"; fi
        done
        [ -f "$project/licenses/$name-$version.txt" ] || lack "the licence of $name was not found (/usr/share/doc/${packages%%|*}/copyright)"
    fi
    printf 'Name: %s\nDescription: static\nVersion: %s\nCflags: -I%s\nLibs: %s\n' \
        "$name" "$version" "$static/include" "$libs" >"$static/lib/pkgconfig/$name.pc"
done < <(libraries)
# zig's own runtime library is one object: with a division of 128 bits come its memcpy(), slower than glibc's, and a list of the processor's
# features that stays empty. gcc's has an object for each function.
cp "$(gcc -print-libgcc-file-name)" "$static/lib/libgcc.a"

# ---- The libraries and programs
# shellcheck disable=SC2086
scripts/build.sh $quiet wheel
cmake --install build/wheel --prefix "$stage" --strip >build/wheel-install.log

# ---- The wheel: a copy of the package, with what was built
mkdir -p "$project/iter" "$project/python"
cp iter/version.h "$project/iter/"
cp -R python/. "$project/python/"
find "$project/python" -name __pycache__ -prune -exec rm -rf {} +
cp LICENSE "$project/python/"
mv "$project/licenses" "$project/python/licenses"
mkdir -p "$project/python/libiter/lib" "$project/python/libiter/bin"
cp "$stage"/lib/*.so "$project/python/libiter/lib/"
cp "$stage"/bin/* "$project/python/libiter/bin/"
(cd "$project/python" && LIBITER_PLATFORM=$platform "$tools/bin/hatchling" build -t wheel -d ../wheel) >build/wheel-package.log 2>&1 ||
    { tail -n 5 build/wheel-package.log >&2; fail "hatchling failed; the whole log: build/wheel-package.log"; }
wheel=$(ls "$project"/wheel/*.whl)

# ---- Is the tag true? auditwheel names the oldest systems that have every symbol which the files use.
"$tools/bin/auditwheel" show "$wheel" >build/wheel-audit.log 2>&1 || { cat build/wheel-audit.log >&2; fail "auditwheel failed"; }
tr -s '\n ' '  ' <build/wheel-audit.log | grep -qF "following platform tag: \"$platform\"" ||
    { cat build/wheel-audit.log >&2; fail "auditwheel does not say $platform"; }
mkdir -p "$folder"
cp "$wheel" "$folder/"
wheel=$folder/${wheel##*/}
echo "$wheel: $(($(stat -c %s "$wheel") / 1024)) KiB, $platform by auditwheel"

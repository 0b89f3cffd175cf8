#!/bin/sh
# scripts/build.sh over a made-up CMake: progress, the choice of a generator, the first error, what
# a build lacks.
# Usage: check_build.sh SOURCE_DIR
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/scripts" "$dir/bin" && cp "$1/scripts/build.sh" "$dir/scripts/" || exit 2
for name in bash sh sed grep awk tee rm cat mkdir dirname nproc; do ln -s "$(command -v $name)" "$dir/bin/$name"; done
tool() { { echo '#!/bin/sh'; cat; } >"$dir/bin/$1"; chmod +x "$dir/bin/$1"; }
bad=0
fault() { echo "check_build: $*"; cat "$dir/out" "$dir/err"; bad=1; }

# Configuring keeps the generator, as CMake's cache does, and refuses another one.
tool cmake <<END
echo "\$*" >>"$dir/calls"
[ "\$1" = --preset ] || { cat "$dir/steps"; exit "\$(cat "$dir/status")"; }
mkdir -p "$dir/build/\$2"
cache="$dir/build/\$2/CMakeCache.txt"
if [ -f "\$cache" ] && ! grep -qxF "CMAKE_GENERATOR:INTERNAL=\$4" "\$cache"; then echo "CMake Error: generator does not match"; exit 1; fi
echo "CMAKE_GENERATOR:INTERNAL=\$4" >"\$cache"
echo "-- iter: io_uring ON"
echo "-- iter: without PNG: such images cannot be read (libpng-dev)"
END
# build STATUS ARGUMENTS
build() {
    want=$1; shift
    : >"$dir/calls"
    env -i PATH="$dir/bin" MAKEFLAGS=-j8 JOBS=3 bash "$dir/scripts/build.sh" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    got=$?
    [ $got = "$want" ] || fault "status $got, not $want"
}
calls() { grep -qxF -- "$1" "$dir/calls" || fault "cmake was not called with '$1', but: $(cat "$dir/calls")"; }
shows() { sed 's/ in [0-9]* s$//' "$dir/out" >"$dir/shown"; printf "$1" | diff - "$dir/shown" >"$dir/diff" || fault "shown: $(cat "$dir/diff")"; }

# ---- If there is only make
echo 0 >"$dir/status"
for step in 3 24 26 49 50 74 88 100; do printf '[%3d%%] Building C object x.c.o\nx.c: In function f:\n' $step; done >"$dir/steps"
build 0 release -DX=1
calls "--preset release -G Unix Makefiles -DX=1"
calls "--build build/release -j 3"
without='without PNG: such images cannot be read (libpng-dev)\n'
shows "build/release: 26 %%\nbuild/release: 50 %%\nbuild/release: 88 %%\nbuild/release: built\n$without"
build 0 -q release
shows "$without"

# ---- With Ninja: a folder keeps its generator, as long as that exists
echo 'true' | tool ninja
build 0 release
calls "--preset release -G Unix Makefiles"
for step in 1 2 3 4 5 6 7 8; do echo "[$step/8] Building C object x.c.o"; done >"$dir/steps"
build 0 dev
calls "--preset dev -G Ninja"
shows "build/dev: 25 %%\nbuild/dev: 50 %%\nbuild/dev: 75 %%\nbuild/dev: built\n$without"
rm "$dir/bin/ninja"
build 0 dev
calls "--preset dev -G Unix Makefiles"

# ---- The first error with its lines, and nothing after the next step
cat >"$dir/steps" <<'END'
[1/3] Building C object a.c.o
a.c:1:1: warning: unused
[2/3] Building C object b.c.o
FAILED: b.c.o
/usr/bin/cc -c b.c
b.c:7:3: error: the first one
    7 |   f(;
[3/3] Building C object c.c.o
c.c:9:9: error: the second one
END
echo 1 >"$dir/status"
build 1 release
grep -q 'the first one' "$dir/err" && grep -q 'f(;' "$dir/err" && grep -q 'build/release.log' "$dir/err" || fault "the first error is not shown"
! grep -qE 'the second one|usr/bin|unused' "$dir/err" || fault "more than the first error"
! grep -q built "$dir/out" || fault "built in spite of the error"
exit $bad

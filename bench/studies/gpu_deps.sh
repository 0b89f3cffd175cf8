#!/bin/sh
# Collects the parts of gpu.sh that a machine with a GPU may lack, on a machine that has them: zlib and jansson as static
# libraries with their headers and relocated .pc files, a small replacement of pkg-config, and the ids of aclImdb if $ITER_DATA
# has that set.
#
#   [ITER_DATA=DIR ITERBENCH=build/release/bench/iterbench] bench/studies/gpu_deps.sh
#
# Writes to build/gpu-deps, which is not tracked: copy it to the machine with the GPU. About 1 MB, with the ids 12 MB.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/build/gpu-deps
rm -rf "$out"
mkdir -p "$out/include" "$out/lib/pkgconfig" "$out/bin"

package() { # NAME LIBRARY HEADERS...
    name=$1 library=$2; shift 2
    include=$(pkg-config --variable=includedir "$name")
    found=
    for folder in "$(pkg-config --variable=libdir "$name")" /usr/lib /usr/lib64; do
        [ -n "$found" ] || [ ! -f "$folder/$library" ] || found=$folder/$library
    done
    [ -n "$found" ] || { echo "gpu_deps: no static $library (package lib$name-dev or the like)" >&2; exit 1; }
    cp "$found" "$out/lib/"
    for header; do
        file=$include/$header
        [ -f "$file" ] || file=$(find "$include" -name "$header" | head -n 1)
        cp "$file" "$out/include/"
    done
    cat >"$out/lib/pkgconfig/$name.pc" <<END
prefix=\${pcfiledir}/../..
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: $name
Description: static, for a machine without the package
Version: $(pkg-config --modversion "$name")
Libs: -L\${libdir} -l${library#lib}
Cflags: -I\${includedir}
END
    sed -i 's/\.a$//' "$out/lib/pkgconfig/$name.pc"
}
package zlib libz.a zlib.h zconf.h
package jansson libjansson.a jansson.h jansson_config.h

# The part of pkg-config that CMake needs, for these packages only.
cat >"$out/bin/pkg-config" <<'END'
#!/bin/sh
deps=$(cd "$(dirname "$0")/.." && pwd)
print= package=
for word; do
    case $word in
    --version) echo 0.29.2; exit 0 ;;
    --modversion | --cflags* | --libs* | --variable=*) print=$word ;;
    -*) ;;
    *) package=${package:-${word%% *}} ;;
    esac
done
file=$deps/lib/pkgconfig/$package.pc
[ -n "$package" ] && [ -f "$file" ] || exit 1
case $print in
--modversion) sed -n 's/^Version: //p' "$file" ;;
--cflags-only-other | --libs-only-other) echo ;;
--libs-only-L) echo "-L$deps/lib" ;;
--libs-only-l) echo "-l$(sed -n 's/^Libs: .* -l//p' "$file")" ;;
--cflags*) echo "-I$deps/include" ;;
--libs*) echo "-L$deps/lib -l$(sed -n 's/^Libs: .* -l//p' "$file")" ;;
--variable=prefix) echo "$deps" ;;
--variable=includedir) echo "$deps/include" ;;
--variable=libdir) echo "$deps/lib" ;;
esac
exit 0
END
chmod +x "$out/bin/pkg-config"

# Reviews as the ids that the loader makes; as text they would be ten times as large.
iterbench=${ITERBENCH:-$root/build/release/bench/iterbench}
if [ -d "${ITER_DATA:-}/aclImdb" ] && [ -x "$iterbench" ]; then
    mkdir -p "$out/imdb"
    for split in train test; do
        rm -rf "$out/dump"
        "$iterbench" --data "imdb:$ITER_DATA/aclImdb?split=$split" --shuffle none --loader dataloader --workers 1 --dump "$out/dump" --batches 391
        xz -9e -c "$out/dump/data.npy" >"$out/imdb/ids-$split.npy.xz"
        xz -9e -c "$out/dump/label.npy" >"$out/imdb/labels-$split.npy.xz"
    done
    rm -rf "$out/dump"
else
    echo "gpu_deps: without aclImdb's ids: ITER_DATA lacks the set, or iterbench is missing"
fi
du -sh "$out"

#!/bin/sh
# Collects what gpu.sh needs and a machine with a GPU may lack, on a machine that has it: zlib and jansson as static libraries
# with their headers and relocated .pc files, a small stand-in for pkg-config, and, where $ITER_DATA has aclImdb, its ids.
#
#   [ITER_DATA=DIR ITERBENCH=build/release/bench/iterbench] bench/studies/gpu_deps.sh
#
# Goes to build/gpu-deps, which is not tracked: to be carried along. About 1 MB, with the ids 12 MB.
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

# As much of pkg-config as CMake asks of it, for these packages alone.
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

# Reviews as the ids that the loader makes of them; text would be ten times as much.
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
    echo "gpu_deps: without aclImdb's ids: ITER_DATA has none, or there is no iterbench"
fi
du -sh "$out"

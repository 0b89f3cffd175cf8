#!/bin/sh
# The Python wheel: auditwheel confirms its tag (scripts/wheel.sh), it holds what it should, it exports what the library exports, its
# programs run from a fresh venv, and it reads URLs through the machine's libcurl, or says that there is none. Another compiler made its library, so the hashes of epochs must equal those of this build's iterbench.
# Usage: ITER_PYTHON=venv/bin/python ITER_LIBRARY=... ITERBENCH=... ITERPACK=... check_wheel.sh SOURCE_DIR
cd "$1" || exit 2
if [ "$ITER_SHARED" != 1 ] || [ -z "$ITERBENCH" ] || [ -z "$ITERPACK" ]; then echo "skipped: needs a shared library and the programs"; exit 77; fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_wheel: $*"; bad=1; }
unset CFLAGS CPPFLAGS LDFLAGS PYTHONPATH LIBITER_LIBRARY ITER_CPU

env -u CC scripts/wheel.sh -q "$dir" >"$dir/out" 2>&1
case $? in
0) ;;
77) echo "skipped: $(tail -n 1 "$dir/out")"; exit 77 ;;
*) cat "$dir/out"; exit 1 ;;
esac
version=$(sed -nE 's/^#define ITER_VERSION_STRING "(.*)"$/\1/p' iter/version.h)
wheel=$dir/libiter-$version-py3-none-manylinux_2_28_x86_64.whl
[ -f "$wheel" ] || { fault "no $wheel, but: $(ls "$dir")"; exit 1; }

# ---- What it holds
python3 - "$wheel" "$version" <<'END' || bad=1
import email, sys, zipfile
wheel, version = sys.argv[1:]
bad = False
def expect(what, true):
    global bad
    if not true:
        print("check_wheel:", what)
        bad = True
files = {i.filename: i for i in zipfile.ZipFile(wheel).infolist()}
info = "libiter-%s.dist-info/" % version
for name in ("libiter/py.typed", "libiter/_commands.py", "libiter/lib/libiter.so", "libiter/lib/libiter_diagnose.so", "libiter/bin/iterbench", "libiter/bin/iterpack"):
    expect("no " + name, name in files)
for name in ("iterbench", "iterpack"):
    expect(name + " may not be executed", files["libiter/bin/" + name].external_attr >> 16 & 0o111)
meta = email.message_from_bytes(zipfile.ZipFile(wheel).read(info + "METADATA"))
expect("version: expected %s, got %s" % (version, meta["Version"]), meta["Version"] == version)
expect("no Python 3.9", meta["Requires-Python"] == ">=3.9")
# Each library that is linked in brings its licence, in a file and in the metadata.
named = meta.get_all("License-File")
for library in ("libjpeg", "libpng", "libwebp", "zlib", "liburing", "libcrypto", "expat"):
    expect("no licence of " + library, any(n.startswith("licenses/" + library) for n in named))
for name in named:
    expect("empty or missing: " + name, info + "licenses/" + name in files and files[info + "licenses/" + name].file_size > 500)
for term in ("Apache-2.0", "IJG", "BSD-3-Clause", "libpng-2.0", "Zlib", "MIT"):
    expect("the license expression lacks " + term, term in meta["License-Expression"].split())
strange = [n for n in files if not n.startswith(("libiter/", info)) or "__pycache__" in n]
expect("does not belong there: %s" % strange, not strange)
sys.exit(bad)
END

# ---- In a fresh venv
python3 -m venv --without-pip "$dir/venv" && build/wheel-tools/bin/python -m pip --python "$dir/venv/bin/python" install -q --no-deps --no-index \
    --disable-pip-version-check "$wheel" || { fault "the wheel does not install"; exit 1; }
bin=$dir/venv/bin package=$(echo "$dir"/venv/lib/python3*/site-packages/libiter)
exports() { nm -D --defined-only "$1" | awk '{print $3}' | sort; }
exports "$ITER_LIBRARY" >"$dir/wanted"
exports "$package/lib/libiter.so" >"$dir/exported"
diff "$dir/wanted" "$dir/exported" >"$dir/diff" || fault "the wheel's library exports (>) other symbols than this build's (<): $(cat "$dir/diff")"
for library in "$package"/lib/*.so; do
    leaked=$(exports "$library" | grep -v '^iter_[a-z]')
    [ -z "$leaked" ] || fault "$library exports $leaked"
done
for name in iterbench iterpack; do
    said=$("$bin/$name" --version 2>&1) && [ "$said" = "$name $version" ] || fault "$name --version: $said"
    "$bin/$name" --help >/dev/null || fault "$name --help fails"
done
# zig's runtime library would give "generic" on every machine.
levels() { "$1" doctor 2>/dev/null | grep -m 1 -o 'it has [a-z0-9]*'; }
[ "$(levels "$ITERBENCH")" = "$(levels "$bin/iterbench")" ] || fault "SIMD level: expected $(levels "$ITERBENCH"), got $(levels "$bin/iterbench")"

# ---- The same bits, from each SIMD level, each codec and io_uring
mkdir -p "$dir/set/a" "$dir/set/b"
cp tests/golden/images/*.jpg "$dir/set/a/"
cp tests/golden/images/*.png tests/golden/webp/*.webp "$dir/set/b/"
hash_of() { "$@" --loader dataloader --epochs 1 --hash 2>&1 | grep -E '^(hash|failed)|^iterbench:' | tr '\n' ' '; }
# same ARGUMENTS: this build's iterbench once, the wheel's with each level
same() {
    wanted=$(hash_of "$ITERBENCH" "$@")
    case $wanted in *hash*) ;; *) fault "no hash: $*: $wanted" ;; esac
    for level in generic avx2 avx512; do
        got=$(ITER_CPU=$level hash_of "$bin/iterbench" "$@")
        [ "$wanted" = "$got" ] || fault "$level: $*: expected $wanted, got $got"
    done
}
same --data 'synthetic:cifar10?n=2000' --workers 2 --chain 'random-crop:size=32,pad=4 | random-flip | normalize | to:f32,nchw'
same --data 'synthetic:cifar10?n=500' --chain 'to:layout=hwc | color-jitter:brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1 | to:f16'
images='random-resized-crop:size=64 | random-flip | normalize | to:f32,nchw'
same --data "folder:$dir/set" --on-error blank --chain "$images"
got=$(hash_of "$bin/iterbench" --data "folder:$dir/set" --on-error blank --chain "$images" --source ring --workers 1)
[ "$wanted" = "$got" ] || fault "--source ring: expected $wanted, got $got"
for program in "$ITERPACK" "$bin/iterpack"; do # through both codecs, and the encoder
    { "$program" list "$dir/set" "$dir/set.lst" && "$program" pack "$dir/set.lst" "$dir/set.rec" --root "$dir/set" --resize 40 --skip --restart; } >"$dir/out" 2>&1 ||
        fault "$program: $(tail -n 2 "$dir/out")"
    cmp -s "$dir/set.rec" "$dir/wanted.rec" || [ "$program" = "$ITERPACK" ] || fault "iterpack writes other records"
    mv "$dir/set.rec" "$dir/wanted.rec"
done
"$bin/iterbench" --loader ndarray --data 'synthetic:cifar10?n=512' --seconds 0.3 >"$dir/out" 2>&1 || fault "iterbench: $(cat "$dir/out")"
"$bin/iterbench" --data synthetic:cifar10 --model cnn --seconds 1 >"$dir/out" 2>&1 && fault "--model works, but was not built"
grep -q 'without the trainer' "$dir/out" || fault "--model: $(cat "$dir/out")"

# ---- URLs, through a libcurl that is opened at run time: http, https with a CA of the test's, s3
grep -qw libcurl "$package/lib/libiter.so" || fault "it opens no libcurl"
if ldd "$package/lib/libiter.so" "$package/bin/iterbench" "$package/bin/iterpack" 2>/dev/null | grep -E 'curl|ssl|crypto|expat'; then fault "it needs these"; fi
if env ITER_SOURCE="$PWD" ITERBENCH="$bin/iterbench" ITERPACK="$bin/iterpack" PYTHONDONTWRITEBYTECODE=1 "${ITER_PYTHON:-python3}" -m unittest discover \
    -v -s tests/remote -p 'test_*.py' -k test_https -k '*.test_s3' >"$dir/out" 2>&1; then
    sed -nE "s/^(.*) \.\.\. skipped ['\"](.*)['\"]\$/note: \1: \2/p" "$dir/out"
else
    fault "URLs: $(cat "$dir/out")"
fi
# A machine without libcurl: dlopen() does not find it.
cat >"$dir/absent.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
void *dlopen(const char *name, int flags) {
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return real(name && strncmp(name, "libcurl", 7) == 0 ? "libcurl-absent.so.4" : name, flags);
}
END
"${CC:-cc}" -shared -fPIC "$dir/absent.c" -o "$dir/absent.so" -ldl || fault "no library that hides libcurl"
for spec in recordio:http://127.0.0.1:1/x.rec 'tar:s3://bucket/x-*.tar' cifar10:https://127.0.0.1:1/x; do
    LD_PRELOAD=$dir/absent.so "$bin/iterbench" --loader dataloader --data "$spec" >"$dir/out" 2>&1 && fault "$spec is read without libcurl"
    grep -q 'there is no libcurl .*please install libcurl .*libcurl4' "$dir/out" || fault "without libcurl: $(cat "$dir/out")"
done
LD_PRELOAD=$dir/absent.so "$bin/iterbench" --loader dataloader --data 'synthetic:cifar10?n=512' --seconds 0.1 >"$dir/out" 2>&1 ||
    fault "without libcurl: $(cat "$dir/out")"

# ---- The package, and the library as it opens it
"$bin/python" -c 'import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).iter_version; f.restype = ctypes.c_char_p; sys.exit(f().decode() != sys.argv[2])' \
    "$package/lib/libiter.so" "$version" || fault "the library does not open, or has another version"
if [ -f python/libiter/__init__.py ]; then
    if timeout 120 build/wheel-tools/bin/python -m pip --python "$bin/python" install -q --retries 1 --timeout 15 --disable-pip-version-check numpy >"$dir/out" 2>&1; then
        (cd "$dir" && "$bin/python" -c 'import libiter; print("libiter", libiter.__version__)') >"$dir/out" 2>&1 || fault "import libiter: $(cat "$dir/out")"
        (cd "$dir" && ITER_DIAGNOSE=1 "$bin/python" -c 'import libiter; [batch.number for batch in libiter.Loader("synthetic:cifar10", epochs=1)]') >"$dir/out" 2>&1
        grep -q 'libiter: verdict on' "$dir/out" || fault "ITER_DIAGNOSE: $(cat "$dir/out")"
        (cd tests/python && PYTHONDONTWRITEBYTECODE=1 "$bin/python" -m unittest -v test_urls) >"$dir/out" 2>&1 && ! grep -q 'skipped' "$dir/out" ||
            fault "URLs in Python: $(cat "$dir/out")"
    else
        echo "note: pip has no numpy, so the package was not imported"
    fi
fi
exit $bad

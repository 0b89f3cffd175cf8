#!/bin/sh
# Follows the recipes of docs/extending.md in a copy of the source, builds it, and looks at what the new parts deliver: a
# batch of the format toy through the stages negate and threshold in the order of the sampler reverse, and a training step
# with the layer square. Usage: [CC=cc] check_recipes.sh SOURCE_DIR BINARY_DIR
cd "$1" || exit 2
source=$PWD binary=$(cd "$2" && pwd) || exit 2
cached() { sed -n "s/^$1:[A-Z]*=//p" "$binary/CMakeCache.txt"; }
if [ "$(cached CMAKE_BUILD_TYPE)" != Debug ] || [ -n "$(cached ITER_SANITIZE)" ]; then
    echo "skipped: the recipes are followed by the dev build alone"; exit 77
fi
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3"; exit 77; }
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
copy=$dir/source build=$dir/build
bad=0
fault() { echo "check_recipes: $*"; bad=1; }
die() { fault "$@"; exit 1; }

# ---- A copy of the source
mkdir "$copy"
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -zco --exclude-standard
else
    find . \( -path ./build -o -path ./data -o -path ./.git \) -prune -o -type f -print0
fi >"$dir/all"
# A file that was removed, but not yet from the index, is left out.
xargs -0 sh -c 'for f; do [ ! -f "$f" ] || printf "%s\0" "$f"; done' sh <"$dir/all" |
    tar -c --null -T - | tar -x -C "$copy" || die "no copy"

# ---- The recipes. "```c FILE" is a new file. "```diff FILE" has lines to add, and context that must be there once.
python3 - "$copy" >"$dir/changed" <<'PYTHON' || die "docs/extending.md cannot be followed"
import os, re, sys
os.chdir(sys.argv[1])
counts, section, blocks = {}, None, []
lines = open('docs/extending.md').read().split('\n')
at = 0
while at < len(lines):
    line, at = lines[at], at + 1
    if line.startswith(('## ', '### ')):
        section = line.lstrip('# ')
    if not line.startswith('```'):
        continue
    end = lines.index('```', at)
    kind, name = re.fullmatch(r'```(c|diff) (\S+)', line).groups()
    blocks.append((section, kind, name, lines[at:end]))
    at = end + 1
for section, kind, name, body in blocks:
    if kind == 'c':
        assert not os.path.exists(name), f'{name} is there already'
        open(name, 'w').write('\n'.join(body) + '\n')
        added = 0
    else:
        assert all(row[0] in ' +' for row in body), f'{name}: a line is neither context nor added: {body}'
        before = ''.join(row[1:] + '\n' for row in body if row[0] == ' ')
        after = ''.join(row[1:] + '\n' for row in body)
        text = open(name).read()
        assert before and text.count('\n' + before) == 1, f'{name}: {text.count(before)} times there: {before}'
        open(name, 'w').write(text.replace('\n' + before, '\n' + after))
        added = sum(row[0] == '+' for row in body)
    files, more = counts.get(section, (0, 0))
    counts[section] = (files + (kind == 'c'), more + added)
    print(name)
for section in 'A stage', 'A stage with a loop and an option', 'A format', 'A sampler': # one new file and one line each
    assert counts.get(section) == (1, 1), f'{section}: {counts.get(section)} new files and added lines'
assert len({name for section, kind, name, body in blocks if section == 'A layer'}) == 5, 'A layer is not in 5 files'
PYTHON
cd "$copy" || exit 2
sh tests/check_layers.sh "$copy" || fault "an include of the recipes is on the wrong side of a layer"
if [ "$(clang-format --version 2>/dev/null | sed 's/.*version \([0-9]*\).*/\1/')" = 14 ]; then
    xargs clang-format --dry-run -Werror <"$dir/changed" || fault "not as clang-format has it"
fi

# ---- Build
set -- -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 -DITER_BUILD_TESTS=OFF -DITER_BUILD_EXAMPLES=OFF
if command -v ninja >/dev/null 2>&1; then set -- "$@" -G Ninja; fi
if command -v ccache >/dev/null 2>&1; then
    set -- "$@" -DCMAKE_C_COMPILER_LAUNCHER=ccache
    export CCACHE_BASEDIR="$dir" CCACHE_NOHASHDIR=1
fi
targets=iterbench
[ -z "$ITER_ENGINE" ] || targets="iterbench iter_engine"
# shellcheck disable=SC2086
{ cmake -S "$copy" -B "$build" -DCMAKE_C_COMPILER="${CC:-cc}" "$@" &&
    cmake --build "$build" -j "$(nproc)" --target $targets; } >"$dir/log" 2>&1 ||
    { grep -E -m 5 -A 5 'error|Error' "$dir/log"; die "does not build"; }
bench=$build/bench/iterbench

# ---- Stage, format and sampler
python3 - "$dir" <<'PYTHON'
import sys
rows = [bytes([i, i, 3 * i, 255 - i, 7]) for i in range(7)]
open(sys.argv[1] + '/set.toy', 'wb').write(b'TOY1' + b''.join(rows))
open(sys.argv[1] + '/head.toy', 'wb').write(b'TOY2' + b''.join(rows))
open(sys.argv[1] + '/tail.toy', 'wb').write(b'TOY1' + b''.join(rows)[:-1])
PYTHON
# rows CHAIN WORKERS VALUE: checks a batch; VALUE is a python expression of x, a stored number.
rows() {
    "$bench" --data "toy:$dir/set.toy" --chain "$1" --sampler reverse --loader dataloader --workers "$2" --batch 4 --batches 1 \
        --dump "$dir/dump" >"$dir/out" 2>&1 || { fault "no dump of $1: $(cat "$dir/out")"; return; }
    python3 - "$dir/dump" "$3" <<'PYTHON' || fault "the batch of $1, with $2 workers"
import struct, sys
def load(name, kind, n):
    raw = open(f'{sys.argv[1]}/{name}.npy', 'rb').read()
    return struct.unpack(f'<{n}{kind}', raw[10 + struct.unpack('<H', raw[8:10])[0]:])
order = [6, 5, 4, 3]
assert load('index', 'Q', 4) == tuple(order), load('index', 'Q', 4)
assert load('label', 'B', 4) == tuple(order), load('label', 'B', 4)
want = tuple(eval(sys.argv[2]) for i in order for x in (i, 3 * i, 255 - i, 7))
assert load('data', 'f', 16) == want, load('data', 'f', 16)
PYTHON
    rm -rf "$dir/dump"
}
for workers in 0 2; do
    rows negate $workers "-x"
    rows "to:f32 | threshold:limit=7" $workers "x if x >= 7 else 0"
    rows "scale:0.0625 | threshold" $workers "x / 16 if x >= 8 else 0" # by default 0.5
done
"$bench" --data "toy:$dir/set.toy" --chain threshold --epochs 1 >/dev/null 2>"$dir/err" && fault "threshold takes u8"
grep -q "threshold.*expected f32, got u8; put to:f32 before it" "$dir/err" || fault "threshold over u8: $(cat "$dir/err")"
for broken in head tail none; do
    "$bench" --data "toy:$dir/$broken.toy" --epochs 1 >/dev/null 2>"$dir/err" && fault "$broken.toy is read"
    grep -qF "$dir/$broken.toy: " "$dir/err" || fault "$broken.toy: $(cat "$dir/err")"
done

# ---- Layer: one step of w in loss = mean(1/2 (w . x^2 - y)^2)
if [ -z "$ITER_ENGINE" ]; then
    echo "skipped: the layer, since this build has no trainer (libjansson-dev)"
    exit $bad
fi
cat >"$dir/step.c" <<'C'
#include <iter/engine.h>
#include <iter/iter.h>
#include <stdio.h>
#include <stdlib.h>

static iter_error err;
static void must(iter_status s) {
    if (s == ITER_OK) return;
    printf("%d %s\n", s == ITER_EUNSUPPORTED, err.message);
    exit(1);
}
int main(int argc, char **argv) {
    static float x[4][3] = {{1, -2, 0.5}, {0, 3, -1}, {2, 0.25, -0.75}, {-1.5, 1, 0}}, y[4] = {1, -1, 2, 0.5};
    float w[3] = {0.5, -0.25, 1}, dx[4][3];
    const iter_array arrays[] = {
        {.role = ITER_DATA, .desc = {.dtype = ITER_F32, .n_dims = 2, .dims = {4, 3}}, .data = x},
        {.role = ITER_LABEL, .desc = {.dtype = ITER_F32, .n_dims = 1, .dims = {4}}, .data = y},
    };
    iter_loader_options loading = ITER_LOADER_OPTIONS_INIT;
    iter_trainer_options training = ITER_TRAINER_OPTIONS_INIT;
    iter_loader *loader;
    iter_model *model;
    iter_trainer *trainer;
    iter_batch *batch;
    iter_result result;
    loading.batch_size = 4;
    training.backend = argc > 1 ? argv[1] : NULL;
    training.optimizer = "sgd:lr=0.1";
    training.keep_input_gradient = 1;
    must(iter_ndarray_create(arrays, 2, NULL, &loading, &loader, &err));
    must(iter_model_parse("square | dense:1,bias=0 | l2", &model, &err));
    must(iter_trainer_create(model, loader, &training, &trainer, &err));
    must(iter_trainer_set(trainer, 0, ITER_VALUE_WEIGHT, w, sizeof(w), &err));
    must(iter_loader_next(loader, &batch, &err));
    must(iter_trainer_step(trainer, batch, &result, &err));
    must(iter_trainer_get(trainer, 0, ITER_VALUE_WEIGHT, w, sizeof(w), &err));
    must(iter_trainer_get(trainer, 0, ITER_VALUE_INPUT_GRADIENT, dx, sizeof(dx), &err));
    printf("%.9g", result.loss);
    for (int i = 0; i < 3; i++) printf(" %.9g", (double)w[i]);
    for (int i = 0; i < 12; i++) printf(" %.9g", (double)dx[i / 3][i % 3]);
    iter_batch_unref(batch);
    iter_trainer_destroy(trainer);
    iter_model_unref(model);
    iter_loader_unref(loader);
    return 0;
}
C
engine=$(find "$build" -name 'libiter_engine.*' | head -n 1)
"${CC:-cc}" -I "$copy" "$dir/step.c" -o "$dir/step" -L "$build" -L "$(dirname "$engine")" -liter_engine -liter \
    -Wl,-rpath,"$build:$(dirname "$engine")" || die "the program with the layer does not build"
"$dir/step" reference >"$dir/step.out" || fault "no step: $(cat "$dir/step.out")"
python3 - "$dir/step.out" <<'PYTHON' || fault "the step with the layer square: $(cat "$dir/step.out")"
import sys
got = [float(word) for word in open(sys.argv[1]).read().split()]
x, y = [(1, -2, 0.5), (0, 3, -1), (2, 0.25, -0.75), (-1.5, 1, 0)], [1, -1, 2, 0.5]
w, n = [0.5, -0.25, 1], 4
apart = [sum(w[i] * v[i] ** 2 for i in range(3)) - t for v, t in zip(x, y)]
want = [sum(d * d / 2 for d in apart) / n]
want += [w[i] - 0.1 * sum(d * v[i] ** 2 for d, v in zip(apart, x)) / n for i in range(3)]
want += [d * w[i] * 2 * v[i] / n for d, v in zip(apart, x) for i in range(3)]
assert len(got) == len(want) and all(abs(a - b) < 1e-6 for a, b in zip(got, want)), (got, want)
PYTHON

# A backend that lacks the layer refuses it and names it: cpu if it is built, cuda on the tests' fake of a GPU.
refuses() {
    LD_LIBRARY_PATH=$binary/tests/fake:$LD_LIBRARY_PATH timeout 60 "$dir/step" "$1" >"$dir/refused"
    grep -q "^1 .*square0: the backend $1 lacks this layer" "$dir/refused" || fault "backend $1: $(cat "$dir/refused")"
}
[ "$(sed -n 's/^-- iter: oneDNN \([0-9A-Z]*\).*/\1/p' "$dir/log")" = OFF ] || refuses cpu
[ ! -f "$binary/tests/fake/libcuda.so.1" ] || refuses cuda
exit $bad

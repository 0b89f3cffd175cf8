#!/bin/sh
# A loop in Python against the same loop in C, in turns on one core: CIFAR-10, shuffled, normalised to f32 NCHW by no worker. Also a C
# loop that holds the previous batch, and a Python loop that does not: what holding costs, and what Python costs beside it.
# LOOP_CLOCK=cpu counts CPU time instead of wall time, for a machine on which other programs run.
# Usage: [PYTHON=python3] [PAIRS=15] [SLICE=0.25] [CORE=0] python_pairs.sh BUILD_DIR CIFAR_DIR [BATCH...]
set -eu
build=$(cd "$1" && pwd) spec=cifar10:$2 chain="normalize | to:f32,nchw"
shift 2
[ $# -gt 0 ] || set -- 64 256
source=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
${CC:-cc} -O2 -D_POSIX_C_SOURCE=200809L -I "$source" "$source/bench/studies/loops/c_loop.c" -L "$build" -liter -Wl,-rpath,"$build" -o "$dir/c_loop"
export LIBITER_LIBRARY="$build/libiter.so" PYTHONPATH="$source/python"
pin="exec taskset -c ${CORE:-0}"
python="$pin ${PYTHON:-python3} $source/bench/studies/python_serve.py $spec '$chain'"
bench="$pin $build/bench/iterbench serve --loader dataloader --consumer none --data $spec --chain '$chain' --workers 0"
c="$pin $dir/c_loop $spec '$chain'"
pair() { # NAME A B
    echo "== $1"
    "$build/bench/iterbench" versus --pairs "${PAIRS:-15}" --slice "${SLICE:-0.25}" --a "$2" --b "$3" || true
}
for batch; do
    pair "batch $batch: Python for / C" "$c $batch plain" "$python $batch for"
    pair "batch $batch: C holding the previous batch / C" "$c $batch plain" "$c $batch hold"
    pair "batch $batch: Python for / C holding the previous batch" "$c $batch hold" "$python $batch for"
    pair "batch $batch: Python with del / C" "$c $batch plain" "$python $batch del"
    [ "${LOOP_CLOCK:-wall}" = cpu ] || pair "batch $batch: C / iterbench serve" "$bench --batch $batch" "$c $batch plain"
done

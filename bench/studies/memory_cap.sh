#!/bin/sh
# Whether a memory limit holds, and its cost: 2 GiB of raw images in RecordIO, 64 per batch, under --memory 256MiB.
#
#   ITERBENCH=build/release/bench/iterbench bench/studies/memory_cap.sh [FOLDER [PART]]
#
# The records (make_raw_records.py) are kept in FOLDER ($TMPDIR or /tmp). They are read once before the measurement, so that they
# come from the page cache. PART is one of:
#
#   resident              the peak memory of a process over one pass
#   rates-u8, rates-f32   bounded against unbounded, in turns: unbounded once with the ring, as the bounded run reads, and once
#                         with the whole set in memory, as a loader without a limit does if the set fits
#   runs                  the time of whole runs of one and of four epochs, from the start of the process to its end: bounded,
#                         and without a limit, which begins by loading the set into memory
#
# Without PART: all.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
bench=${ITERBENCH:-$root/build/release/bench/iterbench}
folder=${1:-${TMPDIR:-/tmp}}
part=${2:-all}
rec=$folder/iter-raw-records.rec
limit=256MiB
chain='normalize | to:f32,nchw'
[ -f "$rec" ] || python3 "$root/bench/studies/make_raw_records.py" "$rec" 224x224x3 2147483648
cat "$rec" >/dev/null
data="recordio:$rec?raw=224x224x3"

resident() { # TITLE ARGUMENTS...
    title=$1; shift
    "$bench" --loader dataloader --data "$data" --batch 64 --memory $limit --epochs 1 --json "$folder/iter-memory.json" "$@" \
        >/dev/null || { echo "$title: failed"; return 1; }
    python3 - "$title" "$folder/iter-memory.json" <<'P'
import json, sys
result = json.load(open(sys.argv[2]))
arm = result["arms"][0]
print(f"{sys.argv[1]:40} {result['peak_rss_bytes'] / 2**20:6.1f} MiB at most, {arm['samples']} samples, source {arm['source']}")
P
    rm -f "$folder/iter-memory.json"
}

rates() { # TITLE ARGUMENTS: bounded (b) against unbounded (a)
    for unbounded in "--source ring" "--source memory"; do
        echo "## $1: b = --memory $limit, a = no limit, $unbounded"
        "$bench" versus --pairs 9 --a "'$bench' serve --loader dataloader --data '$data' --batch 64 $unbounded $2" \
            --b "'$bench' serve --loader dataloader --data '$data' --batch 64 --memory $limit $2" |
            sed -e "s|$folder/||g" -e "s|$bench|iterbench|g"
    done
}

runs() { # TITLE PAIRS ARGUMENTS...: seconds without a limit / seconds with, per pair
    title=$1; pairs=$2; shift 2
    python3 - "$title" "$pairs" "$limit" "$bench" --loader dataloader --data "$data" --batch 64 "$@" <<'P'
import math, statistics, subprocess, sys, time
title, pairs, limit, *command = sys.argv[1:]
def seconds(*more):
    start = time.monotonic()
    subprocess.run([*command, *more], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start
for epochs in 1, 4:
    each = [(seconds("--epochs", str(epochs)), seconds("--epochs", str(epochs), "--memory", limit)) for _ in range(int(pairs))]
    ratios = sorted(a / b for a, b in each)
    n = len(ratios)
    k = max(0, math.floor((n - 1.96 * math.sqrt(n)) / 2))
    free, bounded = (statistics.median(column) for column in zip(*each))
    print(f"{title}, epochs {epochs}: without a limit {free:.2f} s, bounded {bounded:.2f} s, rate bounded / unbounded "
          f"{statistics.median(ratios):.3f} [{ratios[k]:.3f}, {ratios[n - 1 - k]:.3f}] of {n} pairs", flush=True)
P
}

if [ "$part" = all ] || [ "$part" = runs ]; then
    for workers in 0 2; do
        runs "u8, workers $workers, shuffle full" 7 --workers $workers --shuffle full
    done
    runs "f32 NCHW, workers 2, shuffle full" 5 --workers 2 --shuffle full --chain "$chain"
fi
if [ "$part" = all ] || [ "$part" = resident ]; then
    for workers in 0 2; do
        for order in none full block; do
            resident "u8, workers $workers, shuffle $order" --workers $workers --shuffle $order
            resident "f32 NCHW, workers $workers, shuffle $order" --workers $workers --shuffle $order --chain "$chain"
        done
    done
fi
for order in none full; do
    for workers in 0 2; do
        [ "$part" = all ] || [ "$part" = rates-u8 ] || continue
        rates "u8, workers $workers, shuffle $order" "--workers $workers --shuffle $order"
    done
done
for order in none full; do
    for workers in 0 2; do
        [ "$part" = all ] || [ "$part" = rates-f32 ] || continue
        rates "f32 NCHW, workers $workers, shuffle $order" "--workers $workers --shuffle $order --chain '$chain'"
    done
done

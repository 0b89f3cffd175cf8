#!/bin/sh
# ITER_PROFILE makes a trace of a program that does not know the profiler. It is consistent JSON,
# even if the program is killed.
# Usage: ITERBENCH=path check_profile.sh SOURCE_DIR
if [ -z "${ITERBENCH:-}" ]; then echo "skipped: no iterbench in this build"; exit 77; fi
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3"; exit 77; }
cd "$1" || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
bad=0
trace=$folder/trace.json
"$ITERBENCH" generate cifar10 "$folder/data" --n 2000 --seed 1 >/dev/null || exit 1
for source in memory ring pread; do
    for workers in 0 2; do
        rm -f "$trace"
        # 40 batches, and those read ahead.
        printf 'run 40\nquit\n' | ITER_PROFILE=$trace "$ITERBENCH" serve --loader dataloader --data "cifar10:$folder/data" \
            --batch 50 --source $source --workers $workers --chain "random-flip | to:f32,nchw" >/dev/null || bad=1
        python3 tests/check_profile.py "$trace" 40 || { echo "  ^ $source, $workers workers"; bad=1; }
    done
done
[ ! -e "$trace.next" ] || { echo "the second file was left"; bad=1; }
ITER_PROFILE=$folder/none/trace.json "$ITERBENCH" --loader dataloader --data "cifar10:$folder/data" --epochs 1 >/dev/null || {
    echo "a trace that cannot be written stops the program"; bad=1; }
for i in 1 2 3; do
    rm -f "$trace"
    ITER_PROFILE=$trace "$ITERBENCH" --loader dataloader --data "cifar10:$folder/data" --seconds 20 >/dev/null &
    sleep "$i.$i"
    kill -9 $! && wait $! 2>/dev/null
    python3 -m json.tool "$trace" >/dev/null || { echo "not JSON after SIGKILL"; bad=1; }
done
exit $bad

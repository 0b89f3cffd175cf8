#!/bin/sh
# The training programs under mpirun: the same checkpoint for any number of ranks, also after a
# resume with another number, or after a kill. A rank that differs, fails or hangs is named.
# Usage: ITERBENCH=build/bench/iterbench [ITER_KILLS=N] check_ranks.sh SOURCE_DIR BINARY_DIR
source=$(cd "$1" && pwd) || exit 2
cd "$2" || exit 2
programs=$PWD/examples
module=$PWD/engine/libiter_mpi.so
fakes=$PWD/tests/fake
if [ ! -x "$programs/train_mnist" ]; then echo "skipped: the training programs are not built"; exit 77; fi
if [ ! -f "$module" ]; then echo "skipped: there is no module for MPI (libopenmpi-dev)"; exit 77; fi
if ! command -v mpirun >/dev/null; then echo "skipped: no mpirun (openmpi-bin)"; exit 77; fi
if [ ! -x "$ITERBENCH" ]; then echo "skipped: no iterbench, which generates a set"; exit 77; fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/cwd"
cd "$dir/cwd" || exit 2
ITER_MPI_MODULE=$module; export ITER_MPI_MODULE # a static build does not know where it is
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
unset ITER_DATA
NO_COLOR=1; export NO_COLOR # mpirun's children write to terminals
bad=0
fault() { echo "check_ranks: $*"; bad=1; }

# On 2 cores 4 ranks wait for each other most politely if they are not bound to cores.
ranks() { n=$1; shift; timeout 120 mpirun --oversubscribe --bind-to none -n "$n" "$@" >"$dir/out" 2>"$dir/err"; }
same() { cmp -s "$1" "$2" || fault "$3: $1 and $2 differ"; }
says() { grep -qF -- "$1" "$dir/err" || fault "$2: '$1' is not in: $(head -c 600 "$dir/err")"; }

# children PID: on one line. A job is a subshell, in it timeout, then mpirun, then the ranks.
children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }
ranks_of() {
    pid=$1
    for level in timeout mpirun; do pid=$(children "${pid:-0}" | cut -d ' ' -f 1); done
    children "${pid:-0}"
}

python3 - "$dir/mnist" <<'END' || fault "no generated set"
import os, random, struct, sys
os.makedirs(sys.argv[1])
for split, n in ("train", 600), ("t10k", 100):
    labels = bytes(random.Random(n).choices(range(10), k=n))
    draw = random.Random(n + 1)
    rows = [bytes(min(255, 9 * label + draw.randrange(99)) * (i % 11 == label) for i in range(784)) for label in labels]
    with open("%s/%s-images-idx3-ubyte" % (sys.argv[1], split), "wb") as file:
        file.write(struct.pack(">IIII", 2051, n, 28, 28) + b"".join(rows))
    with open("%s/%s-labels-idx1-ubyte" % (sys.argv[1], split), "wb") as file:
        file.write(struct.pack(">II", 2049, n) + labels)
END
mnist="--data mnist:$dir/mnist?split=train --threads 1 --micro-batches 4 --batch 50"
for split in train test; do mkdir -p "$dir/imdb/$split/pos" "$dir/imdb/$split/neg"; done
echo '{"good": 1, "bad": 2, "film": 3, "so": 4}' >"$dir/imdb/imdb_word_index.json"
for i in 1 2 3 4 5 6 7; do
    for split in train test; do
        echo "a film so good, good $i" >"$dir/imdb/$split/pos/${i}_9.txt"
        echo "bad film! bad" >"$dir/imdb/$split/neg/${i}_1.txt"
    done
done
imdb="--data imdb:$dir/imdb?split=train --threads 1 --micro-batches 4 --batch 6 --epochs 3"

# ---- The same bits for any number of ranks
# shellcheck disable=SC2086 # these are lists of arguments
for n in 1 2 3 4; do
    ranks $n "$programs/train_mnist" $mnist --epochs 2 --checkpoint "$dir/m$n" --json "$dir/m$n.json" || fault "$n ranks: $(cat "$dir/err")"
    ranks $n "$programs/train_imdb" $imdb --checkpoint "$dir/i$n" || fault "$n ranks, imdb: $(cat "$dir/err")"
    same "$dir/m1/train_mnist.safetensors" "$dir/m$n/train_mnist.safetensors" "$n ranks"
    same "$dir/i1/train_imdb.safetensors" "$dir/i$n/train_imdb.safetensors" "$n ranks"
    python3 -c "import json, sys
one, several = (json.load(open('$dir/m%s.json' % n)) for n in (1, $n))
assert several['ranks'] == $n and several['micro_batches'] == 4 and several['batch'] == 50, several
keys = 'rows', 'loss', 'train_accuracy', 'test_loss', 'test_accuracy'
assert all(a[k] == b[k] for a, b in zip(one['epochs'], several['epochs']) for k in keys), several" || fault "JSON of $n ranks"
    [ "$(grep -c '^epoch   seconds' "$dir/out")" = 1 ] || fault "$n ranks: not one table: $(cat "$dir/out")"
done

# ---- The same on a GPU that the ranks share, which is a fake one
if [ -f "$fakes/libcuda.so.1" ] && [ -f "$fakes/libpack_kernels.so" ]; then
    for n in 1 2; do
        # shellcheck disable=SC2086
        ranks $n env "LD_LIBRARY_PATH=$fakes" "LD_PRELOAD=$fakes/libpack_kernels.so" "$programs/train_mnist" $mnist --device cuda:0 --epochs 1 --limit-steps 4 --checkpoint "$dir/g$n" --json "$dir/g$n.json" ||
            fault "$n ranks, a GPU: $(cat "$dir/err")"
        same "$dir/g1/train_mnist.safetensors" "$dir/g$n/train_mnist.safetensors" "$n ranks, a GPU"
    done
    python3 -c "import json
j = json.load(open('$dir/g2.json'))
assert j['ranks'] == 2 and j['device'] == 'cuda:0' and j['backend'].startswith('cuda'), j" || fault "JSON of 2 ranks on a GPU"
    ranks 2 env "LD_LIBRARY_PATH=$fakes" "LD_PRELOAD=$fakes/libpack_kernels.so" "$ITERBENCH" --data synthetic:cs224 --model mlp --batch 32 --device cuda:0 --seconds 1 --json - || fault "iterbench, a GPU: $(cat "$dir/err")"
    python3 -c "import json
j = json.load(open('$dir/out'))
assert len(j['ranks']) == 2 and j['steps'] > 0 and j['config']['backend'].startswith('cuda'), j" || fault "iterbench's JSON of 2 ranks on a GPU: $(cat "$dir/out")"
    # shellcheck disable=SC2086
    ranks 2 env FAKE_CUDA_DEVICES=2 "LD_LIBRARY_PATH=$fakes" "LD_PRELOAD=$fakes/libpack_kernels.so" "$programs/train_mnist" $mnist --device cuda --epochs 1 --limit-steps 4 --checkpoint "$dir/n2" --json "$dir/n2.json" ||
        fault "2 ranks, two GPUs: $(cat "$dir/err")"
    same "$dir/g1/train_mnist.safetensors" "$dir/n2/train_mnist.safetensors" "2 ranks with a GPU each"
    grep -q '"backend": "cuda: .*NCCL' "$dir/n2.json" || fault "2 ranks with a GPU each did not use NCCL: $(cat "$dir/n2.json")"
    grep -q NCCL "$dir/g2.json" && fault "2 ranks that share a GPU say that they used NCCL"
    ranks 2 env "LD_LIBRARY_PATH=$fakes" "$ITERBENCH" --data synthetic:cs224 --model mlp --batch 32 --device cuda --seconds 1 && fault "the second rank found a second GPU"
    grep -q 'rank 1: .*cuda:1\|rank 1: .*GPU 1' "$dir/err" || fault "no GPU of the local rank: $(cat "$dir/err")"
else
    echo "not checked: ranks on a GPU; the fake driver is not built"
fi

# ---- Resumed with other ranks, whose micro-batches are then the checkpoint's
long="--data mnist:$dir/mnist?split=train --threads 1 --batch 50 --epochs 150"
# shellcheck disable=SC2086
ranks 4 "$programs/train_mnist" $long --checkpoint "$dir/whole" || fault "4 ranks: $(cat "$dir/err")"
# shellcheck disable=SC2086
ranks 4 "$programs/train_mnist" $long --checkpoint "$dir/parts" --limit-steps 1000 || fault "4 ranks: $(cat "$dir/err")"
for n in 3 2 1; do
    # shellcheck disable=SC2086
    ranks $n "$programs/train_mnist" $long --checkpoint "$dir/parts" --resume --limit-steps $((n * 100 + 1)) || fault "resume: $(cat "$dir/err")"
done
# shellcheck disable=SC2086
ranks 2 "$programs/train_mnist" $long --checkpoint "$dir/parts" --resume || fault "resume: $(cat "$dir/err")"
same "$dir/whole/train_mnist.safetensors" "$dir/parts/train_mnist.safetensors" "resumed"

# ---- A rank is killed: the others end, and any number of ranks goes on
kills=0
while [ $kills -lt "${ITER_KILLS:-3}" ]; do
    rm -rf "$dir/killed"
    # shellcheck disable=SC2086
    ranks 4 "$programs/train_mnist" $long --checkpoint "$dir/killed" &
    job=$!
    while [ ! -f "$dir/killed/train_mnist.safetensors" ] && kill -0 $job 2>/dev/null; do sleep 0.05; done
    sleep 0.$((kills * 37 % 100 / 10))$((kills % 10))
    victim=$(ranks_of $job | cut -d ' ' -f $((kills % 4 + 1)))
    [ -z "$victim" ] || kill -9 "$victim"
    if wait $job && [ -n "$victim" ]; then fault "the job did not notice that a rank was killed"; fi
    # shellcheck disable=SC2086
    ranks $((kills % 3 + 1)) "$programs/train_mnist" $long --checkpoint "$dir/killed" --resume || fault "after a kill: $(cat "$dir/err")"
    same "$dir/whole/train_mnist.safetensors" "$dir/killed/train_mnist.safetensors" "kill $kills"
    kills=$((kills + 1))
done

# ---- A rank differs, fails, hangs: every rank says why
differ() { # differ ARGUMENTS OTHERS WORDS: rank 1 runs with OTHERS
    # shellcheck disable=SC2086
    if timeout 60 mpirun --oversubscribe --bind-to none -n 1 "$programs/train_mnist" $mnist --epochs 1 $1 : \
        -n 1 "$programs/train_mnist" $mnist --epochs 1 $2 >"$dir/out" 2>"$dir/err"; then fault "$2: status 0"; fi
    [ "$(grep -cF -- "$3" "$dir/err")" -ge 2 ] || fault "'$3' is not there twice: $(cat "$dir/err")"
}
differ "--seed 1" "--seed 2" "rank 1 has another seed than rank 0: 2 there, 1 on rank 0"
differ "--threads 1" "--threads 2" "rank 1 has another number of threads"
differ "" "--network flatten|dense:9|dense:10|softmax-cross-entropy" "rank 1 has another model"
differ "" "--batch 60" "rank 1 has another number of micro-batches than rank 0: 4, global batch 60 there"
differ "" "--data mnist:$dir/nowhere" "rank 1: $dir/nowhere"

# Another build: the shared library with a byte more, or the program.
mkdir "$dir/other"
case $ITER_SHARED in
1)  cp "$programs"/../engine/libiter_engine.so* "$dir/other/" 2>/dev/null; cp "$programs/train_mnist" "$dir/other/" ;;
*)  cp "$programs/train_mnist" "$dir/other/" ;;
esac
for file in "$dir"/other/*; do [ -L "$file" ] || echo >>"$file"; done
if timeout 60 mpirun --oversubscribe --bind-to none -n 1 "$programs/train_mnist" $mnist : \
    -n 1 env LD_LIBRARY_PATH="$dir/other" "$dir/other/train_mnist" $mnist >"$dir/out" 2>"$dir/err"; then fault "another build: status 0"; fi
says "rank 1 has another build of the trainer than rank 0" "another build"

# shellcheck disable=SC2086
ranks 3 "$programs/train_mnist" $mnist --epochs 90000 --timeout 3 &
job=$!
sleep 2
victim=$(ranks_of $job | cut -d ' ' -f 2)
if [ -z "$victim" ]; then fault "no rank to stop"; else kill -STOP "$victim"; fi
if wait $job; then fault "the job did not notice that a rank hangs"; fi
says "waited 3 s for the other ranks; nothing comes from rank" "a rank that hangs"
grep -q "nothing comes from rank [0-9]*, " "$dir/err" && fault "more than one rank hangs: $(cat "$dir/err")"

# ---- Signals and steps: all ranks end at the same one
# shellcheck disable=SC2086
ranks 3 "$programs/train_mnist" $mnist --epochs 90000 --checkpoint "$dir/signal" --json "$dir/signal.json" &
job=$!
sleep 2
victim=$(ranks_of $job | cut -d ' ' -f 2)
[ -z "$victim" ] || kill -INT "$victim"
wait $job
python3 -c "import json
j = json.load(open('$dir/signal.json'))
assert j['stopped'] == 'SIGINT' and j['ranks'] == 3, j" || fault "a signal for one rank did not end all: $(cat "$dir/err")"

# ---- iterbench: one report for all ranks; a slow one is found, with its stage
report="--data synthetic:cifar10 --model cnn --batch 8 --threads 1 --seconds 3 --json -"
# shellcheck disable=SC2086
for seed in 0 1; do
    ranks 3 "$ITERBENCH" $report --seed $seed --plant slow-rank:4 || fault "iterbench: $(cat "$dir/err")"
    python3 -c "import json
j = json.load(open('$dir/out'))
v = j['verdict']
assert len(j['ranks']) == 3 and j['config']['batch'] == 8 and j['steps'] > 0, j
assert v['limit'] == 'straggler' and v['rank'] == $seed + 1 and v['of'] == 'loading' and v['gain'] > 0.5, v
assert j['ranks'][v['rank']]['stage'] == 'takes-time', j['ranks']
for r in j['ranks']: assert abs(r['load_s'] + r['compute_s'] + r['wait_s'] - j['slowest_s']) < 1e-6, (r, j['slowest_s'])" ||
        fault "iterbench: slow rank $((seed + 1)): $(cat "$dir/out")"
    python3 "$source/tests/check_json.py" "$source/docs/json.md" Ranks <"$dir/out" || fault "JSON keys of ranks"
done
ranks 2 "$ITERBENCH" --data synthetic:cifar10 --chain "normalize | to:f32,nchw" --seconds 0.5 || fault "iterbench without a model: $(cat "$dir/err")"
[ "$(grep -c '^rate' "$dir/out")" = 1 ] || fault "iterbench: not one report: $(cat "$dir/out")"
ranks 2 "$ITERBENCH" --data synthetic:cifar10 --ranks 1 --seconds 0.5 || fault "iterbench --ranks 1: $(cat "$dir/err")"
[ "$(grep -c '^rate' "$dir/out")" = 2 ] || fault "--ranks 1: not a report of each process: $(cat "$dir/out")"
ranks 2 "$ITERBENCH" --data synthetic:cifar10 --hash && fault "--hash with ranks: status 0"
says "--hash is for one process" "an option that ranks do not have"
ranks 2 "$ITERBENCH" --data "mnist:$dir/nowhere" && fault "no data: status 0"
says "rank 0: $dir/nowhere" "no data"
exit $bad

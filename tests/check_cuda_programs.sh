#!/bin/sh
# iterbench and the training programs with --device cuda, as built, against the fakes of a driver,
# cuDNN and cuBLAS; and their messages if there is no driver.
# Usage: ITERBENCH=build/bench/iterbench check_cuda_programs.sh SOURCE_DIR BINARY_DIR
cd "$1" || exit 2
programs=$2/examples fakes=$2/tests/fake
if [ ! -x "$ITERBENCH" ]; then echo "skipped: no iterbench"; exit 77; fi
if [ ! -f "$fakes/libcuda.so.1" ] || [ ! -f "$fakes/libpack_kernels.so" ]; then echo "skipped: the fake driver is not built"; exit 77; fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_cuda_programs: $*"; bad=1; }
OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
export OMP_NUM_THREADS OMP_WAIT_POLICY
unset ITER_DATA

fake() { LD_LIBRARY_PATH=$fakes:${LD_LIBRARY_PATH:-} LD_PRELOAD=$fakes/libpack_kernels.so "$@"; }
# status WANTED COMMAND...: checks its exit status, with the fakes.
status() {
    want=$1; shift
    fake "$@" >"$dir/out" 2>"$dir/err"; got=$?
    [ $got = "$want" ] || fault "status $got, not $want: $*: $(head -c 300 "$dir/err")"
}
json() { # SECTION COMMAND...
    section=$1; shift
    status 0 "$@" --json -
    python3 tests/check_json.py docs/json.md "$section" <"$dir/out" || fault "JSON of: $*"
}
is() { # EXPRESSION: of the JSON just written, as `j`
    python3 -c "import json, sys; j = json.load(open(sys.argv[1])); assert $1, j" "$dir/out" 2>"$dir/why" || fault "not so: $1: $(tail -n 1 "$dir/why" | cut -c 1-600)"
}

"$ITERBENCH" generate cifar10 "$dir/cifar" --n 20 >/dev/null || fault "no generated set"
set="cifar10:$dir/cifar?split=train"
chain='random-crop:size=32,pad=4 | random-flip | normalize:mean=0.5,std=0.25 | to:f16,nhwc'

# ---- No driver: one line, status 1. A file that is not a library hides a real driver.
mkdir "$dir/none"
: >"$dir/none/libcuda.so.1"
without() { # COMMAND...
    LD_LIBRARY_PATH=$dir/none "$@" >"$dir/out" 2>"$dir/err"; got=$?
    [ $got = 1 ] || fault "status $got without a driver: $*"
    [ "$(wc -l <"$dir/err")" = 1 ] || fault "more than a line: $(cat "$dir/err")"
    grep -q 'there is no CUDA driver' "$dir/err" || fault "no driver: $(cat "$dir/err")"
}
without "$ITERBENCH" --data "$set" --loader dataloader --device cuda --seconds 0.1
[ ! -s "$dir/out" ] || fault "an error wrote to stdout"
without "$ITERBENCH" --data "$set" --device cuda --compute-ms 1 --seconds 0.1
without "$ITERBENCH" limits --data "$set" --device cuda
LD_LIBRARY_PATH=$dir/none "$ITERBENCH" --data "$set" --loader dataloader --seconds 0.1 >/dev/null 2>"$dir/err" || fault "the cpu needs a driver: $(cat "$dir/err")"

# ---- Usage
for arguments in "--device gpu" "--device cuda:" "--device cuda:x" "--device cuda:64" "--finish host" "--resident yes" "--precision f16" "--device cuda --precision tf32" \
    "--device cuda --resident maybe" "--device cuda --dump d --batches 1" "--device cuda --wants nchw --compute-ms 1"; do
    # shellcheck disable=SC2086
    status 2 "$ITERBENCH" --data "$set" $arguments
    [ "$(wc -l <"$dir/err")" = 1 ] || fault "usage of $arguments: $(cat "$dir/err")"
done
status 1 "$ITERBENCH" --data "$set" --loader dataloader --device cuda:7 --seconds 0.1
grep -qi 'cuda:7\|number 7\|GPU 7\|device 7' "$dir/err" || fault "no GPU of that number: $(cat "$dir/err")"

# ---- However batches reach the device, its memory ends up the same
hash_of() { fake "$ITERBENCH" --data "$set" --chain "$chain" --hash --json - "$@" 2>"$dir/err" | sed -n 's/^  "hash": "\([0-9a-f]*\)"$/\1/p'; }
base=$(hash_of --loader dataloader)
[ ${#base} = 16 ] || fault "no hash: $(cat "$dir/err")"
for arguments in "--finish host" "--finish device" "--finish device --workers 2 --batch 7" "--resident yes" "--resident yes --workers 1 --batch 17" "--finish auto --workers 1"; do
    for loader in dataloader ndarray; do
        # shellcheck disable=SC2086
        other=$(hash_of --loader $loader --device cuda $arguments)
        [ "$other" = "$base" ] || fault "hash $other, not $base: $loader $arguments: $(cat "$dir/err")"
    done
done

# ---- Reports
json "A run" "$ITERBENCH" --data "$set" --chain "normalize | to:f32,nchw" --loader dataloader --device cuda --finish host --workers 1 --seconds 0.2
is "j['arms'][0]['device']['copied_bytes'] > 0 and j['config']['device'] == 'cuda:0' and j['limits']['gpu_copy_bytes_per_s'] > 0 and j['limits']['gpu_slots_by_copy'] > 0"
json "A run" "$ITERBENCH" --data "$set" --chain "normalize | to:f32,nchw" --device cuda --finish device --seconds 0.2
is "len(j['arms']) == 2 and j['limits']['gpu_slots_bytes_per_s'] is None and not [f for f in j['fallbacks'] if not f.startswith('ring: ')]"
# If an epoch ends short, more is copied than the set has: rows as bytes, plus their places in the
# batch, must still stay below 1.2 times the set's bytes.
is "all(a['device']['copied_bytes'] < 1.2 * 3073 * (a['samples'] + 640) for a in j['arms'])"
json limits "$ITERBENCH" limits --data "$set" --device cuda
json "A diagnosis" "$ITERBENCH" --data "$set" --chain "normalize | to:f32,nchw" --loader dataloader --device cuda --workers 1 --compute-ms 2 --seconds 0.3
is "[a['name'] for a in j['arms']] == ['decode', 'loader', 'consumer', 'both', 'resident'] and 0 < j['utilisation'] <= 1 and j['device']['plain_bytes_per_s'] > 0"
is "any(b['term'] == 'copy' and b['samples_per_s'] > 0 for b in j['bounds'])"
json doctor "$ITERBENCH" doctor
is "j['rates']['gpu_copy_bytes_per_s'] > 0"

# ---- Training
if [ -x "$programs/train_cifar" ] && [ -f "$fakes/libcudnn.so.9" ] && [ -f "$fakes/libcublas.so.13" ]; then
    small="synthetic:cs224?n=64"
    json "A diagnosis" "$ITERBENCH" --data "$small" --model mlp --batch 8 --loader dataloader --device cuda --workers 1 --seconds 0.2
    is "j['device']['both_by_resident']['median'] > 0 and j['model']['backend'].startswith('cuda') and j['config']['precision'] == 'f32'"
    "$ITERBENCH" generate cifar10 "$dir/tiny" --n 4 >/dev/null || fault "no generated set"
    tiny="cifar10:$dir/tiny?split=train"
    json "A training program" "$programs/train_cifar" --data "$tiny" --device cuda --limit-steps 2 --batch 2
    is "j['device'] == 'cuda:0' and j['device_name'] != '' and j['backend'].startswith('cuda') and j['steps'] == 2 and j['copied_bytes'] > 0"
    cp "$dir/out" "$dir/loader.json"
    json "A training program" "$programs/train_cifar" --data "$tiny" --device cuda:0 --resident yes --workers 1 --limit-steps 2 --batch 2
    is "j['epochs'][0]['loss'] == json.load(open('$dir/loader.json'))['epochs'][0]['loss'] and j['resident'] == 'yes'"
    status 0 "$programs/train_imdb" --data "synthetic:imdb?n=4" --device cuda --limit-steps 1 --batch 2
    grep -q '^cuda:0: .*f32' "$dir/out" || fault "the table does not name the GPU: $(tail -n 6 "$dir/out")"
    grep -q '^utilisation: ' "$dir/out" || fault "no utilisation: $(tail -n 6 "$dir/out")"
    status 0 "$programs/train_mnist" --data "synthetic:mnist?n=8" --device cuda --precision tf32 --limit-steps 1 --batch 4
    status 2 "$programs/train_mnist" --precision tf32
    without "$programs/train_mnist" --data "synthetic:mnist?n=8" --device cuda --batch 4 --limit-steps 1
else
    echo "without the training programs: they, or the fakes of cuDNN and cuBLAS, are not built"
fi
exit $bad

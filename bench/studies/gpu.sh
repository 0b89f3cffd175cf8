#!/bin/sh
# Measures everything on a GPU, in at most nine minutes: builds, runs the GPU tests, then the rows, the most important ones first.
# Each row is written as soon as it is measured.
#
#   bench/studies/gpu.sh                           to build/gpu, or to the folder $OUT if that is set
#   GPU_DRY=1 GPU_BUILD=DIR bench/studies/gpu.sh   the same with the fakes of DIR/tests/fake and tiny sizes: gives NO NUMBERS
#
# Needs an NVIDIA driver for CUDA 12 or newer, cuDNN 9 and cuBLAS (those of a pip-installed torch will do), CMake, a C compiler,
# and python3 with torch for the peers. No network. If the machine has no zlib or jansson, they come from build/gpu-deps
# (gpu_deps.sh).
#
#   ITER_DATA     a folder with cifar-10-batches-bin; without it a set of that format is generated, and no accuracy is reported
#   GPU_SECONDS   for everything (540)     GPU_WORKERS   threads of the loader (half the cores, at most 8)
#   GPU_ONLY      rows to run, a pattern of grep -E          PYTHON   python3
#   GPU_BUILD     a build folder, used as it is
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 1
begin=$(date +%s)
dry=${GPU_DRY:-}
out=${OUT:-$root/build/gpu}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
rows=$out/rows.jsonl
: >"$rows"
python=${PYTHON:-python3}
cores=$(nproc)
workers=${GPU_WORKERS:-$((cores / 2 < 8 ? (cores / 2 > 0 ? cores / 2 : 1) : 8))}
total=${GPU_SECONDS:-540}
deps=$root/build/gpu-deps
[ -z "$dry" ] || printf '\n*** DRY RUN: against fakes, with tiny sizes. NO NUMBERS. ***\n\n'

left() { echo $((begin + total - $(date +%s))); }
say() { printf '%4d s  %s\n' $(($(date +%s) - begin)) "$*"; }
if ! "$python" -c '' 2>/dev/null; then echo "gpu.sh: $python is missing, which keeps the rows (PYTHON=...)"; exit 1; fi

# ---- Building
build=${GPU_BUILD:-}
if [ -z "$build" ]; then
    build=$root/build/gpu-build
    generator=
    command -v ninja >/dev/null && generator='-G Ninja'
    pkg_config=
    command -v pkg-config >/dev/null || pkg_config=-DPKG_CONFIG_EXECUTABLE=$deps/bin/pkg-config
    # shellcheck disable=SC2086
    if ! cmake -S "$root" -B "$build" $generator $pkg_config -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$deps" -DBUILD_SHARED_LIBS=OFF \
        -DITER_BUILD_ENGINE=ON -DITER_WERROR=OFF >"$out/build.log" 2>&1; then
        tail -n 20 "$out/build.log"; echo "gpu.sh: cmake failed; if zlib or jansson is missing, run bench/studies/gpu_deps.sh on a machine that has them"; exit 1
    fi
    keep_going=-k
    [ -z "$generator" ] || keep_going='-k 0'
    # If a program does not build, only its own rows fail.
    # shellcheck disable=SC2086
    if ! cmake --build "$build" -j "$cores" --target iterbench example_train_cifar example_train_imdb backend_cuda_kernels backend_layers backend_cuda_steps \
        backend_cuda_trainer -- $keep_going >>"$out/build.log" 2>&1; then
        tail -n 30 "$out/build.log"; echo "gpu.sh: some programs do not build"
    fi
fi
iterbench=$build/bench/iterbench
if [ ! -x "$iterbench" ]; then echo "gpu.sh: $iterbench is missing"; exit 1; fi
say "built in $build"

# ---- The machine
if [ -n "$dry" ]; then
    LD_LIBRARY_PATH=$build/tests/fake:${LD_LIBRARY_PATH:-}
    LD_PRELOAD=$build/tests/fake/libpack_kernels.so
    export LD_PRELOAD
    gpu=fake driver=fake
else
    # cuDNN and cuBLAS as pip installs them, and the libraries that they open.
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}$("$python" - <<'END'
import glob, importlib.util, os, site, sys, sysconfig
folders = [sysconfig.get_paths()['purelib'], sysconfig.get_paths()['platlib'], *site.getsitepackages(), site.getusersitepackages(), *sys.path]
torch = importlib.util.find_spec('torch')
if torch and torch.origin:
    folders.insert(0, os.path.dirname(os.path.dirname(torch.origin)))
found = []
for name in ('libcudnn.so.9', 'libcublas.so.13', 'libcublas.so.12', 'libnvrtc.so.13', 'libnvrtc.so.12'):
    for folder in filter(os.path.isdir, folders):
        files = glob.glob(os.path.join(folder, 'nvidia', '**', name), recursive=True) + glob.glob(os.path.join(folder, 'torch', 'lib', name))
        if files:
            found.append(os.path.dirname(files[0]))
            break
print(''.join(':' + folder for folder in dict.fromkeys(found)), end='')
END
)
    gpu=$(timeout 20 nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
    driver=$(timeout 20 nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
    # The driver compiles our kernels once, not for every row.
    export CUDA_CACHE_PATH="${CUDA_CACHE_PATH:-$build/cuda-cache}"
fi
export LD_LIBRARY_PATH
"$python" bench/studies/gpu_rows.py head "$rows" "date=$(date -u +%Y-%m-%dT%H:%MZ)" "gpu=${gpu:-unknown}" "driver=${driver:-unknown}" \
    "cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $cores cores" "workers=$workers" \
    "torch=$("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null || echo none)" \
    "git=$(git describe --always --dirty 2>/dev/null || echo unknown)" "libraries=${LD_LIBRARY_PATH:-}" "command=bench/studies/gpu.sh" ${dry:+dry=1}

# ---- Rows
# row NAME SECONDS COMMAND...: limited to SECONDS and to the remaining time; the command may write a result to $work/result.json.
row() {
    name=$1 limit=$2; shift 2
    if [ -n "${GPU_ONLY:-}" ] && ! echo "$name" | grep -qE "$GPU_ONLY"; then return; fi
    rest=$(left)
    if [ "$rest" -lt 5 ]; then say "$name: no time left"; return; fi
    [ "$limit" -le "$rest" ] || limit=$rest
    rm -f "$work/result.json"
    start=$(date +%s.%N)
    timeout -k 5 "$limit" "$@" >"$work/log" 2>&1
    status=$?
    took=$(awk "BEGIN { print $(date +%s.%N) - $start }")
    "$python" bench/studies/gpu_rows.py add "$rows" "$name" $status "$took" "$work/result.json" "$work/log" "$@"
    if "$python" bench/studies/gpu_rows.py table "$rows" >"$work/table.md"; then cp "$work/table.md" "$out/table.md"; fi
    if [ $status = 0 ]; then say "$name"; else say "$name: status $status: $(tail -n 1 "$work/log" | cut -c 1-200)"; fi
}

# Tests on the real driver.
row test-kernels 30 "$build/tests/backend_cuda_kernels"
row test-layers 45 "$build/tests/backend_layers" --backend cuda
row test-steps 15 "$build/tests/backend_cuda_steps"
row test-trainer 25 "$build/tests/backend_cuda_trainer"

# Data: the real set, or a generated one. Ids are stored compressed.
cifar=${ITER_DATA:-}/cifar-10-batches-bin cifar_real=true imdb="" imdb_real=true generated=''
if [ ! -d "$cifar" ] || [ -n "$dry" ]; then
    cifar=$work/cifar cifar_real=false generated=--generated
    images=10000
    [ -z "$dry" ] || images=4
    "$iterbench" generate cifar10 "$cifar" --n $images || say "no generated set: rows that need it will fail"
fi
if [ -d "$deps/imdb" ] && "$python" - "$deps/imdb" "$work" <<'END'
import glob, lzma, os, shutil, sys
for name in glob.glob(os.path.join(sys.argv[1], '*.npy.xz')):
    with lzma.open(name) as packed, open(os.path.join(sys.argv[2], os.path.basename(name)[:-3]), 'wb') as file:
        shutil.copyfileobj(packed, file)
END
then
    imdb="npy:$work/ids-train.npy?label=$work/labels-train.npy"
else
    imdb="synthetic:imdb?n=25000" imdb_real=false
fi
set="cifar10:$cifar?split=train"

# Sizes: real ones, or tiny ones for the fakes.
epochs=10 gru_epochs=3 short=3 long=8 large=256 torch='--device cuda' ours='' fed="--model cnn --data $set"
if [ -n "$dry" ]; then
    epochs=1 gru_epochs=1 short=0.3 long=0.3 large=2 workers=1 ours='--limit-steps 2 --batch 2' fed='--model mlp --batch 8 --data synthetic:cs224?n=64'
    imdb="synthetic:imdb?n=8" imdb_real=false torch='--device cpu --n 128 --limit-steps 2 --workers 0'
    export OMP_NUM_THREADS=1
else
    torch="$torch --workers $workers"
fi
echo "{\"cnn\": $cifar_real, \"gru\": $imdb_real}" >"$work/data.json"
: >"$work/log"
"$python" bench/studies/gpu_rows.py add "$rows" data 0 0 "$work/data.json" "$work/log"
json=$work/result.json

# Copies of rows of zeros, which cost nothing to make.
row copies-64 40 "$iterbench" --loader dataloader --data "$set" --source null --chain 'normalize | to:f32,nchw' --device cuda --finish host \
    --workers "$workers" --prefetch 8 --consumer none --seconds $short --json "$json"
row copies-large 40 "$iterbench" --loader dataloader --data "synthetic:?shape=3x224x224&dtype=u8&n=4096" --source null --device cuda --finish host --batch $large \
    --workers "$workers" --prefetch 4 --consumer none --seconds $short --json "$json"

# Feeding the CNN.
feed() { # NAME ARGUMENTS...
    name=$1; shift
    # shellcheck disable=SC2086
    row "$name" 60 "$iterbench" --loader dataloader $fed --device cuda --workers "$workers" --prefetch 4 --seconds $long --json "$json" "$@"
}
feed cnn-f32 --precision f32
feed cnn-tf32 --precision tf32
# The kernel over the whole set.
row pack 30 "$build/tests/backend_cuda_kernels" --perf
# If the host finishes the rows, four times the bytes travel.
feed cnn-tf32-host --precision tf32 --finish host

# Whole trainings beside torch, the same precision on both sides.
train() { # NETWORK PRECISION MODE ARGUMENTS...
    program=train_cifar data=$set n=$epochs
    [ "$1" = cnn ] || { program=train_imdb data=$imdb n=$gru_epochs; }
    name=$1-$2-$3 precision=$2; shift 3
    # shellcheck disable=SC2086
    row "$name" 60 "$build/examples/$program" --data "$data" --device cuda --precision $precision --workers "$workers" --epochs $n $ours --json "$json" "$@"
}
peer() { # NETWORK PRECISION MODE SECONDS ARGUMENTS...
    name=$1-$2-torch-$3 network=$1 precision=$2 budget=$4; shift 4
    data="--data $cifar $generated"
    [ "$network" = cnn ] || { data=; [ $imdb_real = false ] || data="--data $work"; }
    [ -z "$dry" ] || data=
    # shellcheck disable=SC2086
    row "$name" $((budget + 70)) "$python" bench/peers/gpu_torch.py $network $data --precision $precision --seconds $budget $torch --json "$json" "$@"
}
for precision in f32 tf32; do
    train cnn "$precision" loader
    peer cnn "$precision" eager-loader 25 --feed loader
    train cnn "$precision" resident --resident yes
    peer cnn "$precision" compiled-resident 15 --feed resident --compile
done
train gru f32 loader
peer gru f32 eager-loader 20 --feed loader
train gru f32 resident --resident yes
peer gru f32 compiled-resident 15 --feed resident --compile

# With the remaining time.
train gru tf32 loader
peer gru tf32 eager-loader 15 --feed loader
train cnn f16 loader
peer cnn f16 compiled-resident 15 --feed resident --compile
train cnn f16 resident --resident yes
train cnn bf16 loader
train cnn bf16 resident --resident yes
peer cnn bf16 compiled-resident 15 --feed resident --compile
peer cnn tf32 eager-batched 15 --feed loader-batched

say "done: $rows, $out/table.md"
[ ! -f "$out/table.md" ] || cat "$out/table.md"
[ -z "$dry" ] || printf '\n*** This was a dry run: NO NUMBERS. ***\n'

#!/bin/sh
# The demonstration: CIFAR-10 through both loaders in turns, then into a trainer; then photos. `make demo` builds first, then runs this.
# If find_data.sh finds no real data, a set of the same size and format is generated.
set -eu
cd "$(dirname "$0")/.."
bench=build/release/bench/iterbench

if data=$(scripts/find_data.sh cifar-10-batches-bin); then
    echo "CIFAR-10, the real files: $data"
else
    data=build/demo-data/cifar-10-batches-bin
    if [ ! -f "$data/.complete" ]; then
        mkdir -p "$data"
        $bench generate cifar10 "$data" >/dev/null
        touch "$data/.complete"
    fi
    echo "CIFAR-10, generated in the same binary format (docs/datasets.md says where to get the real set): $data"
fi

chain='normalize:mean=0.4914;0.4822;0.4465,std=0.2470;0.2435;0.2616 | to:f32,nchw'
echo "+ iterbench --data cifar10:$data --batch 64 --chain \"$chain\" --seconds 4"
$bench --data "cifar10:$data" --batch 64 --chain "$chain" --seconds 4

# What it costs to feed a trainer. A build without the trainer prints one line instead.
echo
echo "+ iterbench --loader dataloader --data cifar10:$data --model cnn --seconds 4"
$bench --loader dataloader --data "cifar10:$data" --model cnn --seconds 4 || true

# Photos have any size, so only the DataLoader takes them: first one core beside its limit, then two workers. A build without JPEG prints
# one line instead.
echo
if photos=$(scripts/find_data.sh clothing/test photos); then
    echo "Photos, real ones: $photos"
elif [ -f build/demo-data/photos.complete ] ||
    { rm -rf build/demo-data/photos && mkdir -p build/demo-data && $bench generate photos build/demo-data/photos >/dev/null; }; then
    photos=build/demo-data/photos
    touch $photos.complete
    echo "Photos, generated: $photos"
fi
if [ -n "$photos" ]; then
    chain='random-resized-crop:size=224 | random-flip | normalize | to:f32,nchw'
    echo "+ iterbench limits --decode --data folder:$photos --chain \"$chain\" --seconds 6"
    if $bench limits --decode --data "folder:$photos" --chain "$chain" --seconds 6; then
        echo
        echo "+ iterbench --loader dataloader --data folder:$photos --chain \"$chain\" --workers 2 --seconds 3"
        $bench --loader dataloader --data "folder:$photos" --chain "$chain" --workers 2 --seconds 3
    fi
fi

train=
[ ! -x build/release/examples/train_mnist ] || train="
  build/release/examples/train_mnist    trains end to end; train_cifar, train_imdb: the published networks"
cat <<TEXT

Next, with PATH=$PWD/build/release/bench:$PWD/build/release/tools/iterpack:\$PATH
  iterbench --data cifar10:$data --workers 2 --chain "random-crop:size=32,pad=4 | random-flip | to:f32,nchw" --seconds 4
  iterbench plan --data cifar10:$data --chain "normalize | to:f32,nchw"    what will run, and where memory goes
  iterbench --data cifar10:$data --loader dataloader --epochs 1 --hash     the same hash for any --workers and --source$train
  iterbench list    formats, samplers and stages with their options
  --verbose in any run: every figure; docs/iterbench.md explains them
  examples/01_first_batch.c    the smallest program; make test runs everything
TEXT

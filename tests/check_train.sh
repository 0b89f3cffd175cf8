#!/bin/sh
# The training programs from outside: a few steps each on small sets, resumed runs that equal
# uninterrupted ones, bad flags, JSON, signals.
# Usage: ITERBENCH=build/bench/iterbench check_train.sh SOURCE_DIR BINARY_DIR
cd "$1" || exit 2
source=$PWD programs=$(cd "$2" && pwd)/examples
if [ ! -x "$programs/train_mnist" ]; then echo "skipped: the training programs are not built"; exit 77; fi
if [ ! -x "$ITERBENCH" ]; then echo "skipped: no iterbench, which generates a set"; exit 77; fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/tmp" "$dir/cwd"
TMPDIR=$dir/tmp; export TMPDIR
unset ITER_DATA
cd "$dir/cwd" || exit 2 # no ./data here
bad=0
fault() { echo "check_train: $*"; bad=1; }

# status WANTED PROGRAM ARGUMENTS
status() {
    want=$1 name=$2; shift 2
    "$programs/$name" "$@" >"$dir/out" 2>"$dir/err"; got=$?
    [ $got = "$want" ] || fault "status $got, not $want: $name $*: $(head -c 400 "$dir/err")"
}
# json FILE EXPRESSION: a Python expression over the JSON, as `j`, must hold.
json() {
    python3 -c "import json, math, sys
j = json.load(open(sys.argv[1]))
keys = {'program', 'model', 'data', 'loader', 'backend', 'layout', 'stopped', 'checkpoint_error', 'batch', 'workers', 'threads', 'seed', 'steps',
        'ranks', 'micro_batches', 'communicate_seconds', 'sum_seconds', 'buckets', 'converted_batches', 'convert_seconds', 'seconds', 'wait_share',
        'epochs', 'test_accuracy', 'device', 'device_name', 'precision', 'algorithms', 'resident', 'finish', 'utilisation', 'copied_bytes'}
assert set(j) == keys, set(j) ^ keys
for i, e in enumerate(j['epochs']):
    assert set(e) == {'epoch', 'rows', 'seconds', 'loss', 'train_accuracy', 'test_accuracy', 'test_loss', 'wait_share'}, e
    assert e['seconds'] > 0 and math.isfinite(e['loss']) and 0 <= e['wait_share'] <= 1 and 0 <= e['train_accuracy'] <= 1, e
assert $2, j" "$1" 2>"$dir/json" || fault "JSON of $name: $(tail -n 1 "$dir/json")"
}

# ---- Small sets
"$ITERBENCH" generate cifar10 "$dir/cifar" --n 8 >/dev/null || fault "no generated set"
cifar="cifar10:$dir/cifar?split=train"
mkdir -p "$dir/imdb/train/pos" "$dir/imdb/train/neg" "$dir/imdb/test/pos" "$dir/imdb/test/neg"
echo '{"good": 1, "bad": 2, "film": 3}' >"$dir/imdb/imdb_word_index.json"
for i in 0 1 2 3 4 5; do
    for split in train test; do
        echo "a film so good, good $i" >"$dir/imdb/$split/pos/${i}_9.txt"
        echo "bad film! bad" >"$dir/imdb/$split/neg/${i}_1.txt"
    done
done
imdb="imdb:$dir/imdb?split=train"

# ---- Each program runs, and prints its result
status 0 train_mnist --epochs 3 --json "$dir/a.json" --threads 1
python3 "$source/tests/check_json.py" "$source/docs/json.md" "A training program" <"$dir/a.json" || fault "JSON keys of train_mnist"
grep -q '^epoch   seconds' "$dir/out" || fault "no table: $(cat "$dir/out")"
grep -q '^cost of feeding: ' "$dir/out" || fault "no cost of feeding"
[ ! -s "$dir/err" ] || fault "train_mnist on stderr: $(cat "$dir/err")"
json "$dir/a.json" "len(j['epochs']) == 3 and [e['epoch'] for e in j['epochs']] == [1, 2, 3] and j['steps'] == 93 and j['workers'] == 0 and j['threads'] == 1"
json "$dir/a.json" "j['test_accuracy'] == j['epochs'][2]['test_accuracy'] > 0.4 and j['epochs'][2]['loss'] < j['epochs'][0]['loss'] and j['stopped'] == ''"
[ -z "$(ls "$dir/tmp")" ] || fault "the generated set is still there: $(ls "$dir/tmp")"
# The other loader, workers, arguments with '=': the same batches, so the same losses to the last
# digit.
status 0 train_mnist --loader=ndarray --epochs=3 --json="$dir/b.json" --threads=1
json "$dir/b.json" "j['epochs'][2]['loss'] == json.load(open('$dir/a.json'))['epochs'][2]['loss'] and j['loader'] == 'ndarray'"
status 0 train_mnist --workers 2 --epochs 3 --json "$dir/b.json" --threads 1
json "$dir/b.json" "j['epochs'][2]['loss'] == json.load(open('$dir/a.json'))['epochs'][2]['loss'] and j['workers'] == 2"
status 0 train_mnist --seed 1 --epochs 1 --json "$dir/b.json" --threads 1
json "$dir/b.json" "j['epochs'][0]['loss'] != json.load(open('$dir/a.json'))['epochs'][0]['loss']"
status 0 train_mnist --model cnn --batch 4 --limit-steps 2 --json -
cp "$dir/out" "$dir/b.json" # nothing else is there
json "$dir/b.json" "j['model'] == 'cnn' and j['steps'] == 2 and j['stopped'] == '--limit-steps'"
for layout in nchw nhwc; do
    status 0 train_cifar --data "$cifar" --batch 4 --limit-steps 2 --layout $layout --json "$dir/$layout.json"
    json "$dir/$layout.json" "j['layout'] == '$layout' and j['program'] == 'train_cifar' and len(j['epochs']) == 1"
done
json "$dir/nhwc.json" "abs(j['epochs'][0]['loss'] - json.load(open('$dir/nchw.json'))['epochs'][0]['loss']) < 1e-3"
for layout in nt tn; do
    status 0 train_imdb --data "$imdb" --batch 4 --limit-steps 2 --layout $layout --json "$dir/$layout.json"
    json "$dir/$layout.json" "j['layout'] == '$layout' and j['program'] == 'train_imdb'"
done
json "$dir/tn.json" "abs(j['epochs'][0]['loss'] - json.load(open('$dir/nt.json'))['epochs'][0]['loss']) < 1e-3"
status 0 train_imdb --limit-steps 1 --batch 1 --data "synthetic:imdb?n=8" # no splits: another seed is the test

# ---- A language model: generated documents, in which each word is one of four that may follow
small="embedding:256,32 | gru:32,segments=yes | tied-softmax"
status 0 train_lm --network "$small" --epochs 5 --batch 4 --threads 1 --json "$dir/lm.json"
json "$dir/lm.json" "j['program'] == 'train_lm' and j['model'] == '$small' and j['batch'] == 4 and j['epochs'][4]['rows'] > 110000"
json "$dir/lm.json" "math.log(4) < j['epochs'][4]['test_loss'] < 2 and j['epochs'][0]['test_loss'] > j['epochs'][4]['test_loss']"
json "$dir/lm.json" "0.23 < j['test_accuracy'] < 0.27"
grep -q 'tokens/s' "$dir/out" || fault "no tokens/s: $(cat "$dir/out")"
[ -z "$(ls "$dir/tmp")" ] || fault "the generated documents are still there: $(ls "$dir/tmp")"
for i in 1 2 3 4; do # texts to documents, and a mix of two sets of rows
    mkdir -p "$dir/texts/train/a" "$dir/texts/test/a"
    echo "A film so good, good $i. It's a film<br />" >"$dir/texts/train/a/$i.txt"
    echo "a film that it's not" >"$dir/texts/test/a/$i.txt"
done
python3 "$source/examples/python/tokenize_words.py" "$dir/words" "$dir/texts" --words 12 >"$dir/out" || fault "tokenize_words.py"
grep -q '^train: 4 documents, 48 tokens, the longest has 12$' "$dir/out" || fault "tokenize_words.py: $(cat "$dir/out")"
[ "$(sed -n 4,5p "$dir/words/words.txt" | tr '\n' ' ')" = "a film " ] || fault "words: $(cat "$dir/words/words.txt")"
pack="pack:{tokens:$dir/words/train.idx?documents=whole}?length=16"
status 0 train_lm --data "mix:{$pack; $pack&group=1}" --test "pack:{tokens:$dir/words/test.idx?documents=whole}?length=16" --batch 2 --json "$dir/mix.json"
json "$dir/mix.json" "j['epochs'][0]['rows'] > 0 and j['test_accuracy'] is not None"
status 0 train_lm --data "tokens:$dir/words/train.bin?length=4&header=no" --model stream --batch 2 --limit-steps 2 --json "$dir/stream.json"
json "$dir/stream.json" "j['epochs'][0]['rows'] == 16 and j['test_accuracy'] is None"

# ---- The folders where a set is searched: $ITER_DATA, then ./data; find_data.sh finds the same
found() { # FOLDER
    status 0 train_cifar --batch 4 --limit-steps 1
    grep -qxF "cifar10:\"$1\"?split=train" "$dir/out" || fault "$1 is not what is trained on: $(head -n 1 "$dir/out")"
    sh "$source/scripts/find_data.sh" none cifar-10-batches-bin >"$dir/out"
    [ "$(cat "$dir/out")" = "$1" ] || fault "find_data.sh finds $(cat "$dir/out"), not $1"
}
status 0 train_cifar --batch 4 --limit-steps 1
grep -qF ": generated, neither \$ITER_DATA nor ./data has cifar-10-batches-bin" "$dir/out" || fault "where it looked is not said: $(head -n 1 "$dir/out")"
mkdir data "$dir/env"
cp -r "$dir/cifar" data/cifar-10-batches-bin
found data/cifar-10-batches-bin
ITER_DATA=$dir/env; export ITER_DATA
found data/cifar-10-batches-bin # not in ITER_DATA
cp -r "$dir/cifar" "$dir/env/cifar-10-batches-bin"
found "$dir/env/cifar-10-batches-bin"
unset ITER_DATA
rm -r data "$dir/env"
if sh "$source/scripts/find_data.sh" cifar-10-batches-bin; then fault "find_data.sh finds what is not there"; fi

status 0 train_mnist --help
grep -q -- '--limit-steps' "$dir/out" || fault "--help is no help"

# ---- Resumed equals uninterrupted: the files are the same, byte by byte
status 0 train_mnist --epochs 2 --threads 1 --checkpoint "$dir/whole"
status 0 train_mnist --epochs 2 --threads 1 --checkpoint "$dir/parts" --resume --limit-steps 20
grep -q 'starts from the beginning' "$dir/out" || fault "resuming without a file does not say so"
status 0 train_mnist --epochs 2 --threads 1 --checkpoint "$dir/parts" --resume --limit-steps 11 --workers 2 # to the very end of an epoch
grep -q 'resumed from .* epoch 1, sample 1280, after 20 steps' "$dir/out" || fault "resume says: $(head -n 30 "$dir/out")"
status 0 train_mnist --epochs 2 --threads 1 --checkpoint "$dir/parts" --resume
cmp "$dir/whole/train_mnist.safetensors" "$dir/parts/train_mnist.safetensors" || fault "train_mnist: resumed is not uninterrupted"
status 0 train_mnist --epochs 2 --threads 1 --checkpoint "$dir/parts" --resume
grep -q '^all 2 epochs are done' "$dir/out" || fault "nothing left to do: $(tail -n 20 "$dir/out")"
resume() { # PROGRAM DATA
    status 0 "$1" --data "$2" --batch 4 --threads 1 --checkpoint "$dir/whole" --limit-steps 4
    status 0 "$1" --data "$2" --batch 4 --threads 1 --checkpoint "$dir/parts" --limit-steps 2
    status 0 "$1" --data "$2" --batch 4 --threads 1 --checkpoint "$dir/parts" --limit-steps 2 --resume
    cmp "$dir/whole/$1.safetensors" "$dir/parts/$1.safetensors" || fault "$1: resumed is not uninterrupted"
}
resume train_cifar "$cifar"
resume train_imdb "$imdb"
resume train_lm "$pack&group=1"

# ---- Errors: one line on stderr, nothing on stdout
for arguments in "--wrong" "word" "-x" "--epochs" "--epochs 0" "--epochs x" "--epochs=1x" "--epochs -1" "--batch 0" "--loader torch" "--model gru" \
    "--layout nt" "--layout" "--resume" "--resume=1 --checkpoint d" "--threads 0" "--threads 1025" "--workers -2" "--workers 65" "--seed 99999999999999999999" "--data=" "--help=1"; do
    # shellcheck disable=SC2086
    status 2 train_mnist $arguments
    [ "$(wc -l <"$dir/err")" = 1 ] && [ ! -s "$dir/out" ] || fault "usage of $arguments: $(cat "$dir/err" "$dir/out")"
done
status 2 train_mnist --threads 1025
grep -q "expected a number from 1 to 1024, got '1025'" "$dir/err" || fault "bounds are not said: $(cat "$dir/err")"
fails() { # PART PROGRAM ARGUMENTS
    part=$1; shift
    status 1 "$@"
    grep -q -- "$part" "$dir/err" || fault "'$part' is not said: $*: $(cat "$dir/err")"
    [ "$(wc -l <"$dir/err")" = 1 ] || fault "more than a line: $*: $(cat "$dir/err")"
}
fails missing train_cifar --data "cifar10:$dir/missing"
fails "no-such" train_mnist --backend no-such
fails "segments=yes, but the loader has no field 'segments'" train_lm --data "tokens:$dir/words/train.bin?length=4&header=no" --batch 2
fails "label [0-9]* of row [01] (sample [0-9]*) is [0-9]*, the embedding has the rows 0 to 5; -100 is not predicted\|the embedding has the rows 0 to 5" \
    train_lm --data "$pack" --batch 2 --network "embedding:6,3 | gru:3 | tied-softmax"
fails "expects a sequence .T, 3., as wide as embedding0" train_lm --data "$pack" --batch 2 --network "embedding:12,3 | gru:5 | tied-softmax"
fails "an id for each step, i32 or i64 .N, 150., as label, got u8" train_imdb --data "$imdb" --batch 4 --network "embedding:30000,3 | gru:3 | tied-softmax"
fails "a batch needs 64" train_cifar --data "$cifar" --batch 64
fails "another model" train_mnist --model cnn --threads 1 --checkpoint "$dir/whole" --resume
fails "saved with" train_cifar --data "$cifar" --batch 4 --seed 9 --checkpoint "$dir/whole" --resume --limit-steps 1
fails "/file/" train_mnist --checkpoint "$dir/a.json/file/x" --limit-steps 1
head -c 5000 "$dir/whole/train_mnist.safetensors" >"$dir/parts/train_mnist.safetensors"
fails "outside the file\|truncated" train_mnist --checkpoint "$dir/parts" --resume
cp "$dir/whole/train_cifar.safetensors" "$dir/parts/train_cifar.safetensors"
fails "parts/train_cifar.safetensors: .*another dataset" train_cifar --data "synthetic:cifar10?n=64" --batch 4 --checkpoint "$dir/parts" --resume
fails "expects token ids, i32 or i64 .T., got u8" train_imdb --data "$cifar" --batch 4
# A label that is not a class of the model, and one that the format itself refuses.
fails "label of row 0 (sample [0-9]*) is [0-9]*, the model has the classes 0 to 9" train_cifar --data "synthetic:cifar100?n=64" --batch 8
printf '\071' | dd of="$dir/cifar/data_batch_2.bin" bs=1 conv=notrunc 2>/dev/null
fails "data_batch_2.bin:0): label 57 is not in 0..9" train_cifar --data "$cifar" --batch 4 --epochs 1
[ -z "$(sed -n '/^epoch  /p' "$dir/out")" ] || fault "a table of nothing: $(tail -n 5 "$dir/out")"
# If a file cannot be written, that is reported before any training.
echo 'the last result' >"$dir/kept.json"
fails missing train_cifar --data "cifar10:$dir/missing" --json "$dir/kept.json"
[ "$(cat "$dir/kept.json")" = 'the last result' ] || fault "the last result is gone"
for arguments in "--json $dir/missing/x.json" "--checkpoint $dir/kept.json" "--checkpoint $dir/missing/x"; do
    # shellcheck disable=SC2086
    fails "missing/x\|kept.json" train_mnist --epochs 1 $arguments
    [ ! -s "$dir/out" ] || fault "$arguments is found out late: $(head -n 3 "$dir/out")"
done

# ---- If there is no room to save, it trains to its end, and reports that
(ulimit -f 8; "$programs/train_mnist" --data "synthetic:mnist?n=200" --epochs 2 --checkpoint "$dir/full" >"$dir/out" 2>"$dir/err"); got=$?
[ $got = 1 ] || fault "no room: status $got"
[ "$(grep -c 'File too large; training goes on' "$dir/err")" = 2 ] || fault "no room: $(cat "$dir/err")"
grep -q 'the last checkpoint was NOT saved' "$dir/out" || fault "no room: $(tail -n 5 "$dir/out")"
[ -z "$(ls "$dir/full")" ] || fault "no room: something is left: $(ls "$dir/full")"

# ---- Ctrl-C: the step is finished, the file saved, the table printed
interrupt() { # SIGNAL STATUS WORDS
    rm -rf "$dir/stop"
    # A job in the background ignores SIGINT unless it resets the handler.
    python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$programs/train_mnist" --epochs 100000 --threads 1 --checkpoint "$dir/stop" >"$dir/out" 2>"$dir/err" &
    pid=$!
    n=0
    while [ ! -f "$dir/stop/train_mnist.safetensors" ] && [ $n -lt 600 ]; do sleep 0.1; n=$((n + 1)); done
    kill -"$1" $pid
    wait $pid; got=$?
    [ $got = "$2" ] || fault "SIG$1: status $got: $(cat "$dir/err")"
    grep -q "^stopped early: $3" "$dir/out" || fault "SIG$1: $(tail -n 5 "$dir/out")"
    status 0 train_mnist --epochs 100000 --threads 1 --checkpoint "$dir/stop" --resume --limit-steps 1
}
interrupt INT 130 SIGINT
interrupt TERM 130 SIGTERM
[ -z "$(ls "$dir/tmp")" ] || fault "a generated set is still there: $(ls "$dir/tmp")"
exit $bad

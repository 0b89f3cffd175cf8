#!/bin/sh
# Packed rows against padded rows, and a mix of two sources, on film reviews.
# Usage: run.sh PROGRAMS ACLIMDB OUT    PROGRAMS: folder of train_lm; OUT: an empty folder
set -e
source=$(cd "$(dirname "$0")/../../.." && pwd)
programs=$1 reviews=$2 out=$3
words() { python3 "$source/examples/python/tokenize_words.py" "$@"; }
mkdir -p "$out"
words "$out/words" "$reviews" --documents 4000 --test-documents 500
words "$out/pos" "$reviews" --documents 2000 --test-documents 250 --only pos --list "$out/words/words.txt"
words "$out/neg" "$reviews" --documents 2000 --test-documents 250 --only neg --list "$out/words/words.txt"
words "$out/few" "$reviews" --documents 4000 --test-documents 500 --words 512
pack() { echo "pack:{tokens:$out/$1/$2.idx?documents=whole}?length=256"; }
run() { # NAME BATCH EPOCHS SEED WORDS SPEC [OPTION...]
    name=$1-$4 batch=$2 rounds=$3 seed=$4 list=$5 spec=$6
    shift 6
    echo "== $name"
    # CPU time is taken, too: other programs may share the machine.
    python3 - "$out/$name.cpu" "$programs/train_lm" --data "$spec" --test "$(pack "$list" test)" \
        --batch "$batch" --epochs "$rounds" --threads 1 --seed "$seed" --json "$out/$name.json" "$@" <<'P'
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write("%.1f\n" % (used.ru_utime + used.ru_stime))
sys.exit(code)
P
}
small="embedding:512,128 | gru:128,segments=yes | tied-softmax"
for seed in 1 2 3; do
    run packed 16 2 $seed words "$(pack words train)"
    run padded-22 22 2 $seed words "$(pack words train)&group=1"
    run mix 16 2 $seed words "mix:{pos=0.5 $(pack pos train); neg=0.5 $(pack neg train)}"
    run few-packed 16 1 $seed few "$(pack few train)" --network "$small"
    run few-padded-22 22 1 $seed few "$(pack few train)&group=1" --network "$small"
done
run padded 16 2 1 words "$(pack words train)&group=1"
run mix-80 16 2 1 words "mix:{pos=0.8 $(pack pos train); neg=0.2 $(pack neg train)}"

#!/bin/sh
# The C in README.md is consecutive lines of the first example, character by character; likewise its
# Python. The numbered examples are shorter than 80 lines, run without arguments and, if real data exist, over those, and
# print what they should. The C of the documents compiles without warnings, and their shell commands
# and Python parse.
# Usage: [CC=cc] check_example.sh SOURCE_DIR BINARY_DIR
cd "$1" || exit 2
programs=$2/examples
example=$(ls examples/01_*.c 2>/dev/null | head -n 1)
if [ -z "$example" ] || [ ! -f README.md ]; then echo "skipped: no README.md or no examples/01_*.c"; exit 77; fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_example: $*"; bad=1; }

awk '/^```c$/ && !done { inside = 1; next } /^```$/ && inside { inside = 0; done = 1 } inside' README.md >"$dir/shown"
[ -s "$dir/shown" ] || fault "README.md shows no C program"
# The README leaves out the four blanks before each line of main().
awk '{ sub(/^    /, ""); print }' "$example" >"$dir/stripped"
first=$(head -n 1 "$dir/shown")
from=$(grep -nxF -- "$first" "$dir/stripped" | head -n 1 | cut -d: -f1)
tail -n "+${from:-1}" "$dir/stripped" | head -n "$(wc -l <"$dir/shown")" | diff -u - "$dir/shown" || fault "README.md differs from $example"
python=examples/python/first_batch.py
awk '/^```python$/ && !done { inside = 1; next } /^```$/ && inside { inside = 0; done = 1 } inside' README.md >"$dir/shown"
[ -s "$dir/shown" ] || fault "README.md shows no Python program"
[ "$(wc -l <"$dir/shown")" -le 15 ] || fault "README.md shows more than 15 lines of Python"
from=$(grep -nxF -- "$(head -n 1 "$dir/shown")" "$python" | head -n 1 | cut -d: -f1)
tail -n "+${from:-1}" "$python" | head -n "$(wc -l <"$dir/shown")" | diff -u - "$dir/shown" || fault "README.md differs from $python"
for file in examples/[0-9]*.c; do
    [ "$(wc -l <"$file")" -lt 80 ] || fault "$file has 80 lines or more"
done

# blocks LANGUAGE FILE: writes each fenced block to a file $dir/block.N
blocks() {
    rm -f "$dir"/block.*
    awk -v fence="^\`\`\`$1\$" -v out="$dir/block." '$0 ~ fence { inside = 1; n++; next } /^```$/ { inside = 0 } inside { print >(out n) }' "$2"
}
# If a block has an #include, it is a whole file. Other blocks are put into a function, which
# declares what they may use:
cat >"$dir/before.c" <<'END'
#include <iter/diagnose.h>
#include <iter/iter.h>
#include <iter/profile.h>
#include <stdio.h>
extern iter_status s;
extern iter_error err;
extern iter_dataset *data;
extern iter_chain *chain;
extern iter_loader *loader;
extern int argc;
extern char **argv;
extern iter_loader_options opt;
extern iter_batch *batch;
extern void *stream;
void train(const iter_tensor *tensor, void *stream);
void block(void);
void block(void) {
END
for file in README.md docs/*.md; do
    blocks c "$file"
    for block in "$dir"/block.*; do
        [ -e "$block" ] || continue
        if grep -q '^#include' "$block"; then cp "$block" "$dir/block.c"; else { cat "$dir/before.c" "$block" && ! grep -q 'goto out;' "$block" || echo 'out:;'; echo '}'; } >"$dir/block.c"; fi
        "${CC:-cc}" -std=c11 -O2 -Wall -Wextra -Wpedantic -Werror -I. -c "$dir/block.c" -o "$dir/block.o" 2>"$dir/err" ||
            fault "$file: C block ${block##*.}: $(grep -m 3 'error' "$dir/err")"
        rm "$block"
    done
    blocks sh "$file"
    for block in "$dir"/block.*; do
        [ ! -e "$block" ] || sh -n "$block" || fault "$file: shell block ${block##*.}"
    done
    blocks python "$file"
    for block in "$dir"/block.*; do
        [ ! -e "$block" ] || ! command -v python3 >/dev/null || python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$block" ||
            fault "$file: Python block ${block##*.}"
    done
done

if [ ! -x "$programs/01_first_batch" ]; then
    [ $bad = 0 ] || exit 1
    echo "skipped: the examples are not built"; exit 77
fi

# run NAME ARGUMENTS: writes its output to $dir/out. expect LINE: the output must have this whole
# line.
run() {
    name=$1; shift
    "$programs/$name" "$@" >"$dir/out" 2>"$dir/err" || fault "$name $*: $(cat "$dir/err")"
    [ -s "$dir/out" ] || fault "$name $* prints nothing"
}
expect() { grep -qxF -- "$1" "$dir/out" || fault "$name does not print '$1', but: $(cat "$dir/out")"; }

run 01_first_batch
run 02_arrays # the rules of MXNet's NDArrayIter
expect "keep       [0 1 2 3] [4 5 6 7] [8 9]  | [0 1 2 3] [4 5 6 7] [8 9]"
expect "pad        [0 1 2 3] [4 5 6 7] [8 9 0 1; pad 2]  | [0 1 2 3] [4 5 6 7] [8 9 0 1; pad 2]"
expect "discard    [0 1 2 3] [4 5 6 7]  | [0 1 2 3] [4 5 6 7]"
expect "roll_over  [0 1 2 3] [4 5 6 7]  | [8 9 0 1; pad 2] [2 3 4 5] [6 7 8 9]"
run 03_chain
expect "the two are the same: yes"
expect 'f32 [32, 3, 32, 32] "NCHW"'
run 04_workers # the same batches for any number of workers
[ "$(sed 's/^workers [0-9]: //' "$dir/out" | sort -u | wc -l)" = 1 ] && [ "$(wc -l <"$dir/out")" = 3 ] || fault "04_workers: $(cat "$dir/out")"
run 05_own_dataset # sample i is i + noise in 0 .. 1, of 1000 samples
[ "$(sed -n 's/^epoch [01]: 1000 samples, mean \(499\|500\)\..*/x/p' "$dir/out" | wc -l)" = 2 ] || fault "05_own_dataset: $(cat "$dir/out")"
run 06_own_transform
expect "25088 numbers, the largest 0.500"
run 07_save_resume # what the first run would have had next is what the second one begins with
[ "$(sed -n 2p "$dir/out")" = "$(sed -n 3p "$dir/out")" ] && [ "$(wc -l <"$dir/out")" = 4 ] || fault "07_save_resume: $(cat "$dir/out")"
run 08_ranks
expect "1001 of 1001 samples were seen once"

# If a set is missing: one line that reports it.
for name in 01_first_batch 03_chain 04_workers 06_own_transform 07_save_resume 08_ranks; do
    if "$programs/$name" "cifar10:$dir/missing" >"$dir/out" 2>"$dir/err"; then fault "$name takes a set that is not there"; fi
    grep -q missing "$dir/err" || fault "$name does not say what is missing: $(cat "$dir/err")"
done
if real=$(sh scripts/find_data.sh cifar-10-batches-bin); then
    for name in 01_first_batch 03_chain 04_workers 06_own_transform 07_save_resume 08_ranks; do run "$name" "cifar10:$real"; done
    expect "50000 of 50000 samples were seen once"
else
    echo "note: no CIFAR-10 in ITER_DATA or ./data, the examples ran on synthetic samples alone"
fi
exit $bad

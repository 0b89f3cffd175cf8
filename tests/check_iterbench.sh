#!/bin/sh
# iterbench from outside: exit codes, one line of error, clean stdout, JSON as documented, hashes,
# dumps.
# Usage: ITERBENCH=build/bench/iterbench check_iterbench.sh SOURCE_DIR
cd "$1" || exit 2
if [ -z "$ITERBENCH" ]; then echo "skipped: no iterbench"; exit 77; fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_iterbench: $*"; bad=1; }

# status WANTED ARGUMENTS: checks the exit status; an error is one line on stderr and nothing on
# stdout.
status() {
    want=$1; shift
    "$ITERBENCH" "$@" >"$dir/out" 2>"$dir/err"; got=$?
    [ $got = "$want" ] || fault "status $got, not $want: $*: $(head -c 200 "$dir/err")"
    if [ "$want" != 0 ]; then
        [ "$(wc -l <"$dir/err")" = 1 ] || fault "stderr is not one line: $*: $(cat "$dir/err")"
        [ ! -s "$dir/out" ] || fault "an error wrote to stdout: $*"
    else
        [ ! -s "$dir/err" ] || fault "stderr is not empty: $*: $(head -c 300 "$dir/err")"
    fi
}
# Joins wrapped text, one line per row.
flat() { awk '/^          / && NR > 1 { sub(/^ +/, ""); printf " %s", $0; next } NR > 1 { print "" } { printf "%s", $0 } END { print "" }' "$1"; }
hash_of() { "$ITERBENCH" "$@" --hash --json - | sed -n 's/^  "hash": "\([0-9a-f]*\)"$/\1/p'; }

status 0 --help
grep -q '^exit status: .* 130 ' "$dir/out" || fault "--help does not name the exit status of ^C"
grep -q '^  --prove ' "$dir/out" || fault "--help has no --prove"
[ -z "$(awk 'length > 100' "$dir/out")" ] || fault "--help is wider than 100 columns"
for command in list plan limits compare report doctor generate serve verify versus; do # the options of one command are its own
    status 0 $command --help
    sed -nE 's/^  (--[a-z-]+).*/\1/p' "$dir/out" >"$dir/known"
    for option in --prove --batch --data --seed --a --n --plugin; do
        "$ITERBENCH" $command $option 2>&1 | grep -q "unknown argument '$option'" && unknown=1 || unknown=0
        grep -qx -- "$option" "$dir/known" && known=1 || known=0
        [ $((known + unknown)) = 1 ] || fault "$command --help and $command differ about $option"
    done
done
status 0 limits --help
grep -q -- '--prove' "$dir/out" && fault "limits --help has options of a run"
status 0 --version
status 0 list
[ -z "$(awk 'length > 100' "$dir/out")" ] || fault "list is wider than 100 columns"
grep -q '^  cifar10 ' "$dir/out" || fault "list has no cifar10"
for word in auto memory ring pread null; do
    grep -q "^  $word  *[a-z]" "$dir/out" || fault "list has no source $word"
done
status 0 list random-crop # one entry, with its options
grep -q '^  random-crop ' "$dir/out" && grep -q '^    pad ' "$dir/out" && [ "$(grep -c '^  [a-z]' "$dir/out")" = 1 ] || fault "list random-crop: $(cat "$dir/out")"
status 0 list ring
if "$ITERBENCH" list s3 | grep -q 'reads no URLs'; then
    status 2 list cache
else
    status 0 list cache # a key of URLs alone, with type, help and default
    grep -q '^  cache  *text; .* (none)$' "$dir/out" && [ "$(grep -c '^  [a-z]' "$dir/out")" = 1 ] || fault "list cache: $(cat "$dir/out")"
    for word in s3 https remote; do
        status 0 list $word
        grep -q '^  connections  *integer 1\.\.1024; .* (256)$' "$dir/out" && [ "$(grep -c '^  [a-z]' "$dir/out")" = 9 ] || fault "list $word: $(cat "$dir/out")"
    done
    status 2 list conections
    grep -qF "did you mean 'connections'?" "$dir/err" || fault "list conections: $(cat "$dir/err")"
fi
status 0 list
[ "$(grep -c '^keys of URLs ' "$dir/out")" = 1 ] || fault "list has no section for URLs"

# Similar names: commands, options, words of options.
while read -r arguments; do
    read -r wanted
    # shellcheck disable=SC2086
    status 2 $arguments
    grep -qF -e "did you mean '$wanted'?" "$dir/err" || fault "$arguments: $(cat "$dir/err")"
done <<'NEAR'
dctor
doctor
compair a.json b.json
compare
list random-corp
random-crop
--data x: --worker 2
--workers
doctor --dat x:
--data
--data x: --loader dataloder
dataloader
--data x: --source mmemory
memory
--data x: --shuffle blok
block
--data x: --on-error replac
replace
--data x: --compute-ms 1 --plant slow-dsk
slow-disk
generate photo d
photos
NEAR

# A full device as stdout makes every command fail: a result that cannot be read is worse than none.
if [ -c /dev/full ] && ! echo x 2>/dev/null >/dev/full; then
    for arguments in --help --version list "list random-crop" "plan --data synthetic:cifar10?n=99" "limits --data synthetic:cifar10?n=99" doctor \
        "--data synthetic:cifar10?n=99 --seconds 0.1" "--data synthetic:cifar10?n=99 --seconds 0.1 --json -" "--data synthetic:cifar10?n=99 --compute-ms 1 --seconds 0.1" \
        "generate cifar10 $dir/full --n 1" "serve --help" "compare $dir/one.json $dir/one.json"; do
        echo '{"arms": [{"name": "loader", "samples_per_s": 1}]}' >"$dir/one.json"
        # shellcheck disable=SC2086
        "$ITERBENCH" $arguments >/dev/full 2>"$dir/err"; got=$?
        [ $got = 1 ] && [ "$(wc -l <"$dir/err")" = 1 ] || fault "status $got with a full stdout: $arguments: $(cat "$dir/err")"
    done
    echo 'run 2' | "$ITERBENCH" serve --data "synthetic:cifar10?n=99" --loader dataloader >/dev/full 2>"$dir/err" && fault "serve with a full stdout"
fi
set=$dir/set
status 0 generate cifar10 "$set" --n 200
[ "$(wc -c <"$set/data_batch_3.bin")" = $((200 * 3073)) ] || fault "size of a generated file"
status 1 generate cifar10 "$set" --n 200 # never over files that exist
status 0 generate cifar10 "$dir/again" --n 200
cmp -s "$set/test_batch.bin" "$dir/again/test_batch.bin" || fault "generate is not deterministic"

# Usage.
for arguments in "" "--data" "--wrong 1" "--data x: --batch 0" "--data x: --batch 1x" "--data x: --batch -1" "--data x: --loader torch" \
    "--data x: --epochs 1 --seconds 1" "--data x: --hash --seconds 1" "--data x: --start 1" "--data x: --start 1:" "--data x: --start 99999999999:0" \
    "--data x: --memory 1KB" "--data x: --max-sample-bytes 1KB" "--data x: --max-sample-bytes 0" "--data x: --memory 99999999999GiB" "--data x: --seconds 0" "--data x: --seconds nan" "--data x: --hash=1" \
    "--data x: --dump d" "--data x: --batches 1" "--data x: word" "wrong" "compare a.json" "generate mnist d" "limits --data x: --seconds 1" "limits --data x: --decode --workers 1" "--data x: --decode" \
    "versus --a true" "plan" "limits" "verify" "verify --data x: --promise maybe" "verify --data x: --on-error fail" \
    "list word" "serve --data x:" "--data x: --pairs 1" "-x" \
    "versus --a true --b true --slice 0" "versus --a true --b true --pairs 6 --starts 7" "--data x: --ragged"; do
    # shellcheck disable=SC2086
    status 2 $arguments
done

# The same option twice is refused, also in its other form, and also if both values are equal.
while read -r name arguments; do
    # shellcheck disable=SC2086
    status 2 $arguments
    grep -q "^iterbench: --$name is given twice" "$dir/err" || fault "twice --$name: $(cat "$dir/err")"
done <<'TWICE'
batch --data x: --batch 64 --batch 32
batch --batch=64 --data x: --batch 64
data --data x: --data x:
hash --data x: --hash --epochs 1 --hash
start serve --loader ndarray --data x: --start 0:0 --start 0:0
a versus --a true --a true --b true
n generate cifar10 d --n 1 --n 2
TWICE

# If a value is refused, the message lists valid ones.
while read -r arguments; do
    read -r wanted
    # shellcheck disable=SC2086
    status 2 $arguments
    grep -qF -e "$wanted" "$dir/err" || fault "$arguments: $(cat "$dir/err")"
done <<'WANTED'
versus --a true --b true --pairs 5
--pairs wants N from 6 to 1000, not '5'
--data x: --memory 24MB
--memory wants BYTES above 0 (k, M, G, KiB, MiB or GiB may follow), not '24MB'
--data x: --workers 2000
--workers wants N from 0 to 64 or auto, not '2000'
--data x: --batch 0
--batch wants N of at least 1, not '0'
WANTED
status 0 --data "cifar10:$set" --memory 1G --seconds 0.1
status 0 plan --data "cifar10:$set" --memory 24M
grep -q '24000000' "$dir/out" || fault "24M is not what a spec means by it: $(cat "$dir/out")"

# Runs that fail.
status 1 --data nothing:here --seconds 0.1
status 1 --data "cifar10:$dir/missing" --seconds 0.1
status 1 --data "cifar10:$set" --chain no-such-stage --seconds 0.1
status 1 --data "cifar10:$set" --chain "normalise | to:f32" --seconds 0.1
grep -q "did you mean 'normalize'?" "$dir/err" || fault "no suggestion for normalise: $(cat "$dir/err")"
status 1 --data "cifar10:$set" --chain "random-flip | center-crop:99" --seconds 0.1
grep -q "column 15: center-crop" "$dir/err" || fault "no column for a stage that cannot be: $(cat "$dir/err")"
status 1 --data "cifar10:$set" --loader dataloader --sampler bucket --seconds 0.1
grep -q "^iterbench: sampler bucket: this dataset" "$dir/err" || fault "a sampler's message: $(cat "$dir/err")"
status 1 --data "cifar10:$set" --memory 1KiB --seconds 0.1
status 1 --data "cifar10:$set" --last-batch discard --batch 5000 --seconds 0.1
status 1 --data "synthetic:imdb?variable=1&n=100" --loader ndarray --seconds 0.1
status 1 --data "cifar10:$set" --start 0:7 --loader dataloader --seconds 0.1
status 1 --data "synthetic:cifar10?n=100" --cache cold --seconds 0.1
status 1 compare "$dir/no.json" "$dir/no.json"
# If an output cannot be written, that is reported at once: a run of an hour would hit the test's
# time limit.
for option in "--json $dir/no/x.json" "--html $dir/no/x.html" "--json $dir" "--compute-ms 1 --trace $dir/no/x.trace"; do
    # shellcheck disable=SC2086
    status 1 --data "cifar10:$set" --seconds 3600 $option
done
status 1 limits --data "cifar10:$set" --json "$dir/no/x.json"
printf '{"arms": [1, ' >"$dir/broken.json"
status 1 compare "$dir/broken.json" "$dir/broken.json"
head -c 4000 "$set/data_batch_1.bin" >"$dir/short.bin"
status 1 --data "cifar10:$dir/short.bin" --seconds 0.1
if [ -d /dev/shm ] && cp "$set/data_batch_1.bin" "/dev/shm/iterbench-$$.bin" 2>/dev/null; then
    status 1 --data "cifar10:/dev/shm/iterbench-$$.bin" --cache cold --seconds 0.1
    rm -f "/dev/shm/iterbench-$$.bin"
fi

# JSON as documented.
normalize="normalize:mean=0.5,std=0.25 | to:f32,nchw"
json() {
    section=$1; shift
    status 0 "$@" --json -
    python3 tests/check_json.py docs/json.md "$section" <"$dir/out" || fault "JSON of: $*"
}
json "A run" --data "cifar10:$set" --chain "$normalize" --seconds 0.3
cp "$dir/out" "$dir/a.json"
json "A run" --data "cifar10:$set" --loader dataloader --seconds 0.2 --workers 1 --cache hot
cp "$dir/out" "$dir/b.json"
json "A run" --data "cifar10:$set" --loader ndarray --hash --ranks 2 --start 3:128
grep -q '"copy_bytes_per_s": null' "$dir/out" || fault "limits beside a hash: $(cat "$dir/out")"
status 0 --data "cifar10:$set" --loader ndarray --hash
grep -q '^limit  *not measured: the rate includes the hashing$' "$dir/out" || fault "the limit beside a hash: $(cat "$dir/out")"
json "A run" --data "mix:{a=2 cifar10:$set; 1 synthetic:cifar10?n=99}" --epochs 1
json "A run" --data "synthetic:imdb?variable=1&n=300" --chain "pad-batch" --loader dataloader --epochs 2
json verify verify --data "cifar10:$set" --ranks 2 --epochs 2 --workers 1
grep -q '"kept": true' "$dir/out" || fault "verify: $(cat "$dir/out")"
[ "$(grep -c '"hash": ' "$dir/out")" = 3 ] && [ "$(grep '"hash": ' "$dir/out" | sort -u | wc -l)" = 1 ] || fault "verify: hashes differ: $(grep '"hash": ' "$dir/out")"
for sampler in balanced repeat:3=4,7=0 stride:7 replacement block:block=32,buffer=2; do # of 1000 samples, in batches of 48
    for last in keep pad discard roll_over; do
        status 0 verify --data "cifar10:$set" --sampler "$sampler" --ranks 3 --batch 16 --epochs 2 --last-batch $last
        grep -q '^kept: ' "$dir/out" || fault "verify $sampler $last: $(cat "$dir/out")"
    done
done
status 0 verify --data "synthetic:imdb?variable=1&n=300" --sampler bucket --ranks 2
for fault in repeat lose change; do # planted faults are found, and the status says so
    "$ITERBENCH" verify --data "cifar10:$set" --ranks 2 --restart 3:4 --plant $fault >"$dir/out" 2>"$dir/err"
    [ $? = 1 ] && grep -q '^iterbench: verify: broken promises: ' "$dir/err" && grep -q '^broken .*restarted: ' "$dir/out" || fault "verify --plant $fault: $(cat "$dir/out")"
done
grep -q 'rows have other contents' "$dir/out" || fault "verify --plant change: $(cat "$dir/out")"
cp "$set/data_batch_2.bin" "$dir/bad.bin"
printf '\377' | dd of="$dir/bad.bin" bs=1 seek=$((17 * 3073)) conv=notrunc 2>/dev/null # a label out of range: a failed sample, which still comes
status 0 verify --data "cifar10:$dir/bad.bin" --ranks 2 --failures "$dir/failed.txt"
grep -q '; 1 failed$' "$dir/out" && flat "$dir/out" | grep -q '^failed .*sample 17 .*label 255 is not in 0..9' || fault "verify: a failed sample: $(cat "$dir/out")"
grep -q 'sample 17 ' "$dir/failed.txt" || fault "verify --failures: $(cat "$dir/failed.txt")"
json verify verify --data "cifar10:$dir/bad.bin" --ranks 2
head -c 6002 /dev/zero >"$dir/t.bin"; head -c 60 /dev/zero >"$dir/u.bin" # 3001 and 30 tokens: 30 rows of 100, and one token as the last target
json verify verify --data "tokens:$dir/{t,u}.bin?length=100"
status 0 verify --data "tokens:$dir/{t,u}.bin?length=100" --ranks 2
grep -q '^left out  *30 of 3031 tokens are in no row; 1 of 2 files have no row$' "$dir/out" || fault "verify: tokens left out: $(cat "$dir/out")"
status 0 plan --loader dataloader --data "mix:{a=1 tokens:$dir/t.bin?length=96; b=1 tokens:$dir/{t,u}.bin?length=96}"
grep -q '^left out: a: 24 of 3001 tokens are in no row; b: 54 of 3031 tokens are in no row; 1 of 2 files have no row$' "$dir/out" || fault "plan: tokens left out: $(cat "$dir/out")"
json limits limits --data "cifar10:$set" --chain "$normalize"
status 0 --data "cifar10:$set" --loader dataloader --seconds 0.2 --json "$dir/c.json"
grep -q samples/s "$dir/out" || fault "a table goes to stdout where the JSON goes to a file"
status 0 compare "$dir/b.json" "$dir/c.json"
status 1 compare "$dir/a.json" "$dir/c.json" # no arm in common
status 0 plan --data "cifar10:$set" --chain "$normalize"
[ -s "$dir/out" ] || fault "plan is empty"

# Photos: generated, run, and compared with libjpeg-turbo itself.
crop="random-resized-crop:size=64 | to:f32,nchw"
if "$ITERBENCH" generate photos "$dir/photos" --n 70 >"$dir/out" 2>"$dir/err"; then
    [ "$(find "$dir/photos" -name '*.jpg' | wc -l)" = 70 ] || fault "70 photos: $(cat "$dir/out")"
    status 1 generate photos "$dir/photos" --n 70
    json "A run" --data "folder:$dir/photos" --loader dataloader --chain "$crop" --seconds 0.3
    grep -q '"decode_samples_per_s": [0-9]' "$dir/out" || fault "no limit of decoding in a run"
    # Two photos that cannot be decoded, one without read permission and a missing one are failed
    # samples: the loops go on.
    mkdir "$dir/broken" && cp -r "$dir/photos/." "$dir/broken" && find "$dir/broken" -name '*.jpg' | sort | tail -n 3 >"$dir/names"
    { read -r locked; read -r tables; read -r text; } <"$dir/names"
    echo "no photo" >"$text"
    lost=$(find "$dir/broken" -name '*.jpg' | sort | head -n 1) && ln -sf nowhere "$lost"
    python3 -c "import sys
b = bytearray(open(sys.argv[1], 'rb').read()); i = b.find(b'\xff\xc4')
b[i + 5:i + 21] = b'\xff' * 16 # a table of more codes than there are
open(sys.argv[1], 'wb').write(b)" "$tables"
    chmod 755 "$dir" && chmod 000 "$locked"
    user=""
    [ "$(id -u)" != 0 ] || user="setpriv --reuid 65534 --regid 65534 --clear-groups" # root may read everything
    $user "$ITERBENCH" --version >"$dir/out" 2>&1 || user=""
    for cache in asis hot; do
        $user "$ITERBENCH" --data "folder:$dir/broken" --loader dataloader --chain "$crop" --on-error replace --max-failures 10 --epochs 1 --cache $cache --json - >"$dir/out" 2>"$dir/err" || fault "beside broken photos, $cache: $(cat "$dir/err")"
        grep -q '"decode_samples_per_s": [0-9]' "$dir/out" || fault "no limit of decoding beside broken photos: $(cat "$dir/out")"
    done
    chmod 644 "$locked"
    status 1 --data "folder:$dir/broken" --loader dataloader --chain "$crop" --shuffle none --epochs 1
    grep -q "read: sample 0 ($lost:0): No such file or directory" "$dir/err" || fault "a photo that is not there: $(cat "$dir/err")"
    # Compared with the straight loops: how many failed, why, and which. By default the first
    # failure ends it.
    status 1 limits --decode --data "folder:$dir/broken" --chain "$crop" --seconds 0.3 --pairs 6 --failures "$dir/left.tsv"
    [ "$(wc -l <"$dir/left.tsv")" -ge 2 ] || fault "limits that failed list nothing: $(cat "$dir/left.tsv")"
    status 0 limits --decode --data "folder:$dir/broken" --chain "$crop" --seconds 0.5 --pairs 6 --on-error blank --failures "$dir/left.tsv" --json "$dir/left.json"
    flat "$dir/out" | grep -q "^left out  *3 photos that failed, first: .*: sample [0-9]* ($dir/broken/" || fault "limits: what is left out: $(cat "$dir/out")"
    grep -q "^0	[0-9]*	0	input/output error	read: sample 0 ($lost:0): No such file or directory$" "$dir/left.tsv" || fault "limits --failures: $(cat "$dir/left.tsv")"
    grep -q '"source": "pread"' "$dir/left.json" || fault "limits: read ahead where a photo is not there"
    grep -q '"left_out": 3' "$dir/left.json" || fault "limits: no count of what is left out"
    status 0 doctor --data "folder:$dir/broken"
    ! grep -q '^costs  *reading .*fails' "$dir/out" || fault "doctor ends at a photo that is not there: $(cat "$dir/out")"
    json limits limits --decode --data "folder:$dir/photos" --seconds 0.5 --pairs 6
    python3 -c "import json, sys
d = json.load(open(sys.argv[1]))['decode']
assert d['photos'] >= 70 and 0 < d['part_share'] < 1 and d['rounds'] > 0, d
assert d['part_per_s']['median'] > d['limit_per_s']['median'] > 0 and d['ratio']['median'] > 0, d" "$dir/out" || fault "figures of limits --decode"
    status 0 limits --decode --data "folder:$dir/photos" --chain "$crop" --seconds 0.3 --pairs 6
    grep -q 'loader / limit' "$dir/out" || fault "no ratio: $(cat "$dir/out")"
    status 0 limits --decode --data "folder:$dir/photos" --chain "random-resized-crop:size=64,jpeg-scale=fast | to:f32,nchw" --seconds 0.3 --pairs 6
    status 1 limits --decode --data "folder:$dir/photos?orient=1" --chain "$crop"
    grep -q 'turned as EXIF says' "$dir/err" || fault "--decode over turned photos: $(cat "$dir/err")"
    mkdir -p "$dir/pngs/a" && cp tests/golden/images/rgb8.png "$dir/pngs/a/1.png" && cp tests/golden/images/rgb16.png "$dir/pngs/a/2.png"
    if "$ITERBENCH" limits --decode --data "folder:$dir/pngs" --chain "random-crop:32 | to:f32,nchw" --batch 2 --seconds 0.3 --pairs 6 --json "$dir/png.json" >"$dir/out" 2>"$dir/err"; then
        grep -q '^libpng, parts wanted' "$dir/out" || fault "the loops over PNGs: $(cat "$dir/out")"
        python3 -c "import json, sys
d = json.load(open(sys.argv[1]))['decode']
assert d['pngs'] == d['photos'] > 0 and 0 < d['part_share'] < 1 and d['ratio']['median'] > 0, d" "$dir/png.json" || fault "figures of PNGs"
    else
        grep -q 'without libpng' "$dir/err" || fault "limits --decode over PNGs: $(cat "$dir/err")"
    fi
    status 0 doctor --data "folder:$dir/photos"
    ! grep -q '^costs  *reading .*fails' "$dir/out" || fault "doctor cannot read photos: $(cat "$dir/out")"
    status 1 --data "folder:$dir/photos" --loader ndarray --chain "$crop" --seconds 0.1
    if [ -n "$ITERPACK" ]; then # the same parts out of a container
        "$ITERPACK" list "$dir/photos" "$dir/photos.lst" >/dev/null && "$ITERPACK" pack "$dir/photos.lst" "$dir/photos.rec" --root "$dir/photos" >/dev/null
        status 0 limits --decode --data "recordio:$dir/photos.rec" --chain "$crop" --seconds 0.3 --pairs 6
        status 0 doctor --data "recordio:$dir/photos.rec?decode=none"
        ! grep -q '^costs  *reading .*fails' "$dir/out" || fault "doctor cannot read records: $(cat "$dir/out")"
    fi
else
    grep -q 'no libjpeg' "$dir/err" || fault "generate photos: $(cat "$dir/err")"
fi
status 1 limits --decode --data "cifar10:$set"
grep -q 'no images of any size' "$dir/err" || fault "--decode over CIFAR: $(cat "$dir/err")"

# A broken record: the label 200 in sample 5.
cp "$set/data_batch_1.bin" "$dir/label.bin"
printf '\310' | dd of="$dir/label.bin" bs=1 seek=$((5 * 3073)) conv=notrunc 2>/dev/null
status 1 --data "cifar10:$dir/label.bin" --loader dataloader --epochs 1
grep -q 'label.bin' "$dir/err" || fault "the message names no file: $(cat "$dir/err")"
json "A run" --data "cifar10:$dir/label.bin" --loader dataloader --epochs 1 --on-error blank
grep -q '"count": 1,' "$dir/out" || fault "one failed sample is not counted"
status 1 --data "cifar10:$dir/label.bin" --loader ndarray --epochs 1

# 5 of 60 photos are damaged: replaced, with the same hash for any number of workers, counted by
# reason, listed.
mkdir -p "$dir/photos/a" "$dir/photos/b"
i=10
while [ $i -lt 40 ]; do cp tests/golden/images/rgb420.jpg "$dir/photos/a/$i.jpg"; cp tests/golden/images/rgb444.jpg "$dir/photos/b/$i.jpg"; i=$((i + 1)); done
head -c 700 tests/golden/images/rgb420.jpg >"$dir/photos/a/15.jpg"
head -c 650 tests/golden/images/rgb420.jpg >"$dir/photos/a/31.jpg"
printf '<html>404</html>' >"$dir/photos/b/12.jpg"
: >"$dir/photos/b/13.jpg"
: >"$dir/photos/b/14.jpg"
resized="resize:16 | to:f32,nchw"
if "$ITERBENCH" --data "folder:$dir/photos" --chain "$resized" --loader dataloader --on-error replace --epochs 1 2>&1 | grep -q 'without libjpeg'; then
    echo "skipped: damaged photos: no libjpeg-turbo"
else
    replaced=
    for workers in 0 1 2 8; do
        json "A run" --data "folder:$dir/photos" --chain "$resized" --loader dataloader --on-error replace --hash --batch 7 --workers $workers --failures "$dir/failed.tsv"
        replaced="$replaced$(sed -n 's/^  "hash": "\([0-9a-f]*\)"$/\1/p' "$dir/out") "
        python3 - "$dir" <<'PYTHON' || fault "damaged photos, $workers workers"
import json, sys
failures = json.load(open(sys.argv[1] + '/out'))['failures']
assert failures['count'] == 5 == len(failures['list']), failures
assert failures['reasons'] == [{'reason': 'image: the data end early, after # bytes', 'count': 2}, {'reason': 'image: the file is empty', 'count': 2},
                               {'reason': 'image: not a JPEG, PNG or WebP: it begins as a text (HTML?)', 'count': 1}], failures['reasons']
lines = [line.split('\t') for line in open(sys.argv[1] + '/failed.tsv').read().splitlines()]
assert lines[0] == ['epoch', 'position', 'sample', 'status', 'message'] and len(lines) == 6, lines
assert sorted(int(line[2]) for line in lines[1:]) == [5, 21, 32, 33, 34], lines
assert [line[4] for line in lines[1:]] == [f['message'] for f in failures['list']]
PYTHON
    done
    # shellcheck disable=SC2086
    [ "$(printf '%s\n' $replaced | sort -u | wc -l)" = 1 ] || fault "damaged photos: hashes $replaced"
    status 0 --data "folder:$dir/photos" --chain "$resized" --loader dataloader --on-error blank --epochs 3
    flat "$dir/out" | grep -q '^failed  *15 samples, first: image: sample' && grep -q '^next  *--failures FILE' "$dir/out" || fault "failed samples of three epochs: $(cat "$dir/out")"
    status 0 --data "folder:$dir/photos" --chain "$resized" --loader dataloader --on-error blank --epochs 3 --failures "$dir/failed.tsv" --verbose
    flat "$dir/out" | grep -q '^failed samples  *15, first: image: sample .*6 image: the file is empty' || fault "reasons of three epochs: $(cat "$dir/out")"
    [ "$(wc -l <"$dir/failed.tsv")" = 6 ] || fault "a sample is in the list twice: $(cat "$dir/failed.tsv")"
    # A photo of 53 x 45 x 3 = 7155 bytes of pixels is larger than --max-sample-bytes.
    status 1 --data "folder:$dir/photos" --chain "$resized" --loader dataloader --shuffle none --epochs 1 --max-sample-bytes 7000
    grep -q 'sample 0 .*7155 bytes, more than max_sample_bytes (7000)' "$dir/err" || fault "--max-sample-bytes: $(cat "$dir/err")"
    json "A run" --data "folder:$dir/photos" --chain "$resized" --loader dataloader --on-error replace --epochs 1 --max-sample-bytes 1MiB
    grep -q '"max_sample_bytes": 1048576' "$dir/out" || fault "--max-sample-bytes 1MiB: $(cat "$dir/out")"
    # The ceiling, and the list of failures until then.
    rm "$dir/failed.tsv"
    status 1 --data "folder:$dir/photos" --chain "$resized" --loader dataloader --on-error replace --max-failures 2 --epochs 1 --batch 1 --failures "$dir/failed.tsv"
    grep -q '3 samples failed on this rank, more than max_failures = 2' "$dir/err" || fault "the ceiling: $(cat "$dir/err")"
    [ "$(wc -l <"$dir/failed.tsv")" = 4 ] || fault "the list of a run that failed: $(cat "$dir/failed.tsv")"
    status 1 --data "folder:$dir/photos" --chain "$resized" --loader dataloader --shuffle none --epochs 1
    grep -q 'image: sample 5 (.*/a/15.jpg:0): the data end early, after 700 bytes' "$dir/err" || fault "the message of a cut photo: $(cat "$dir/err")"
    status 1 --data "folder:$dir/photos" --chain "$resized" --loader dataloader --on-error blank --epochs 1 --failures "$dir/none/failed.tsv"
    # If a decoder warns about a photo, it is counted, and listed if a list is requested.
    mkdir -p "$dir/warned/a"
    { head -c 20 tests/golden/images/rgb420.jpg; printf '\0\0\0\0'; tail -c +21 tests/golden/images/rgb420.jpg; } >"$dir/warned/a/1.jpg"
    cp tests/golden/images/rgb420.jpg "$dir/warned/a/2.jpg"
    status 0 --data "folder:$dir/warned" --chain "$resized" --loader dataloader --on-error replace --epochs 1
    flat "$dir/out" | grep -q '^warned  *decoders warned about 1 sample, first: .*1.jpg.*on-warning=reject .* --failures' || fault "a warning: $(cat "$dir/out")"
    status 0 --data "folder:$dir/warned?on-warning=reject" --chain "$resized" --loader dataloader --on-error replace --epochs 1 --failures "$dir/failed.tsv"
    grep -q '/a/1.jpg' "$dir/failed.tsv" || fault "on-warning=reject lists nothing: $(cat "$dir/failed.tsv")"
fi
status 2 --data "folder:$dir/photos" --compute-ms 1 --failures "$dir/failed.tsv"
status 2 limits --data "folder:$dir/photos" --failures "$dir/failed.tsv"
grep -q -- "limits: --failures belongs to --decode" "$dir/err" || fault "a list of no photos: $(cat "$dir/err")"
status 2 limits --data "folder:$dir/photos" --prove
grep -q -- "unknown argument '--prove' here: it belongs to a run" "$dir/err" || fault "an option of another command: $(cat "$dir/err")"

# Hashes are equal if options do not change the data, and differ if they do.
base=$(hash_of --data "cifar10:$set" --loader dataloader)
[ ${#base} = 16 ] || fault "no hash"
for arguments in "--workers 1" "--workers 2 --prefetch 5" "--batch 17" "--batch 17 --last-batch pad --ranks 3" "--source pread" "--source ring --workers 1" \
    "--loader ndarray" "--ranks 4"; do
    # shellcheck disable=SC2086
    other=$(hash_of --data "cifar10:$set" $(case "$arguments" in *--loader*) ;; *) echo --loader dataloader ;; esac) $arguments)
    [ "$other" = "$base" ] || fault "hash $other, not $base: $arguments"
done
text=$(hash_of --data "synthetic:imdb?variable=1&n=300" --chain pad-batch --loader dataloader)
for chain in "pad-batch:multiple=8" "pad-batch:to=400" "pad-batch | tnc"; do # a row counts with its own length, as it was before batch stages
    other=$(hash_of --data "synthetic:imdb?variable=1&n=300" --chain "$chain" --loader dataloader --batch 9 --workers 1)
    [ "$other" = "$text" ] || fault "hash $other, not $text: $chain"
done
[ "$(hash_of --data "cifar10:$set" --loader dataloader --seed 1)" != "$base" ] || fault "another seed, the same hash"
first=$(hash_of --data "cifar10:$set" --loader dataloader --epochs 1)
second=$(hash_of --data "cifar10:$set" --loader dataloader --epochs 1 --start 1:0)
both=$(hash_of --data "cifar10:$set" --loader dataloader --epochs 2)
python3 -c "import sys; a, b, c = (int(x, 16) for x in sys.argv[1:]); sys.exit((a + b) % 2**64 != c)" "$first" "$second" "$both" \
    || fault "hashes of two epochs do not add up: $first + $second, $both"

# The plan: passes, memory, and the source of the bytes.
status 0 plan --data "cifar10:$set" --chain "$normalize"
grep -q '^  pack  .*normalize + to' "$dir/out" || fault "plan names no pass: $(cat "$dir/out")"
grep -qE '^memory slots 5 x 79[0-9]{4}, arena 0, files 3073[0-9]*, scratch 1 x [1-9][0-9]*, books [1-9][0-9]*, source 0, order [0-9]+, index [0-9]+ bytes; no limit' "$dir/out" || fault "plan's memory: $(cat "$dir/out")"
grep -qE "^work .*; batches are made in the caller's thread" "$dir/out" || fault "plan without workers: $(cat "$dir/out")"
grep -q '^source memory, 0 workers$' "$dir/out" || fault "plan's source: $(cat "$dir/out")"
status 0 plan --data "cifar10:$set" --source ring --workers 3
grep -qE '^work +prefetch 6, .*row by row while cached.*; 3 of 3 workers can be busy' "$dir/out" || fault "plan of reads: $(cat "$dir/out")"

# The protocol, and pairs over it.
serve="$ITERBENCH serve --loader dataloader --data cifar10:$set"
printf 'run 3\nrun 2\nquit\n' | $serve >"$dir/out" 2>"$dir/err" || fault "serve: $(cat "$dir/err")"
[ "$(cut -d' ' -f1 "$dir/out" | tr '\n' ' ')" = "192 128 " ] || fault "serve answered: $(cat "$dir/out")"
ragged="serve --loader dataloader --shuffle none --batch 4 --data recordio:tests/golden/recordio/one.rec?decode=none"
# shellcheck disable=SC2086
{
    printf 'run 2\nquit\n' | "$ITERBENCH" $ragged --ragged >"$dir/out" 2>"$dir/err" || fault "serve --ragged: $(cat "$dir/err")"
    grep -qE '^8 0\.[0-9]+$' "$dir/out" || fault "serve --ragged answered: $(cat "$dir/out")"
    status 1 $ragged
}
grep -q 'different lengths' "$dir/err" || fault "rows of different lengths: $(cat "$dir/err")"
printf 'walk 3\n' | $serve >/dev/null 2>"$dir/err" && fault "serve took nonsense"
for limit in ordered convert shuffled; do
    printf 'run 3\n' | $ITERBENCH serve --limit $limit --data "cifar10:$set" --chain "$normalize" >"$dir/out" 2>"$dir/err" || fault "serve --limit $limit: $(cat "$dir/err")"
    grep -qE '^192 0\.[0-9]{9}$' "$dir/out" || fault "serve --limit $limit answers $(cat "$dir/out")"
done
status 1 versus --a "exit 3" --b "exit 3"
status 1 versus --a "read x; echo nonsense" --b "exit 3"
peer='while read word n; do [ "$word" = run ] || exit 0; echo "$((n * 10)) $(awk "BEGIN { print $n / 100 }")"; done'
# Training: the three arms, a sweep, and a trainer at the other end of a pipe.
small="synthetic:cs224?n=2000"
if "$ITERBENCH" --data "$small" --model mlp --seconds 0.1 --batch 256 >"$dir/out" 2>"$dir/err"; then
    for row in rate limit waiting verdict failed; do grep -q "^$row " "$dir/out" || fault "a diagnosis without $row: $(cat "$dir/out")"; done
    status 0 --data "$small" --model mlp --seconds 0.1 --batch 256 --verbose
    flat "$dir/out" | grep -q '^verdict .*Samples a second, each alone: .*; together' || fault "no evidence: $(cat "$dir/out")"
    json "A diagnosis" --data "$small" --model mlp --seconds 0.1 --batch 256 --loader ndarray --threads 1
    json "A sweep" --data "$small" --model mlp --seconds 0.1 --batch 256 --sweep loader --threads 1
    python3 -c "import json, sys
j = json.load(open(sys.argv[1]))
for a in j['arms']:
    assert abs(sum(a['time'].values()) - 1) < 1e-6 and min(a['time'].values()) >= 0, a
    assert a['emulated'] == a['name'].startswith('emulated')
assert len(j['arms']) == 14 and '47 s' in j['answer']" "$dir/out" || fault "shares of the sweep"
    printf 'run 2\nquit\n' | "$ITERBENCH" serve --data "$small" --model mlp >"$dir/out" 2>"$dir/err"
    grep -qE '^128 0\.[0-9]+$' "$dir/out" || fault "serve --model: $(cat "$dir/out" "$dir/err")"
    status 1 --data "$small" --model cnn --seconds 0.1 # rows are no images
    status 1 --data "cifar10:$set" --model mlp --seconds 0.1
    status 2 --data "$small" --model mlp --hash
    status 2 --data "$small" --model mlp --epochs 1
else
    grep -q 'without the trainer' "$dir/err" || fault "--model: $(cat "$dir/err")"
fi
status 2 --data "$small" --threads 1

# A diagnosis of rows of different lengths: the arms without the chain need no stage that pads them.
while read -r data chain more; do
    # shellcheck disable=SC2086
    json "A diagnosis" --data "synthetic:imdb?variable=1&n=300$data" --chain "$chain" --loader dataloader --compute-ms 0.2 --seconds 0.3 $more
done <<'VARIABLE'
&maxlen=400 pad-batch
&maxlen=100 truncate:50|pad-batch --workers 1 --source null
&maxlen=50 pad-tokens:50 --plant slow-transform
VARIABLE

# Rates of the machine. If a filter like that of containers forbids io_uring, doctor reports that,
# and what the loader uses instead.
json doctor doctor
json doctor doctor --data "cifar10:$set"
status 0 doctor
grep -q '^[a-z]*  *io_uring ' "$dir/out" || fault "doctor says nothing of io_uring: $(cat "$dir/out")"
status 1 doctor --data "cifar10:$dir/missing"
status 2 doctor word
status 2 doctor --workers 1
python3 - "$ITERBENCH" >"$dir/out" 2>"$dir/err" <<'PYTHON'
import ctypes, os, platform, struct, sys
if platform.machine() != 'x86_64': sys.exit(77)
code = b''.join(struct.pack('HBBI', *line) for line in ((0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
buffer = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', 4, ctypes.addressof(buffer)))
prctl = ctypes.CDLL(None).prctl
if prctl(38, 1, 0, 0, 0) != 0 or prctl(22, 2, ctypes.byref(program), 0, 0) != 0: sys.exit(77)
os.execv(sys.argv[1], [sys.argv[1], 'doctor'])
PYTHON
case $? in
0)
    if grep -q 'io_uring .*not in this build' "$dir/out"; then
        echo "note: this build has no io_uring to forbid"
    else
        flat "$dir/out" | grep -q '^costs  *io_uring .*not permitted' || fault "a forbidden ring: $(grep io_uring "$dir/out")"
        flat "$dir/out" | grep -q 'mend: .*seccomp' || fault "no word of seccomp"
    fi
    flat "$dir/out" | grep -q '^costs  *reading .* by pread' || fault "the fallback is not said: $(grep reading "$dir/out")" ;;
77) echo "note: no seccomp filter here, so no forbidden ring" ;;
*) fault "doctor without io_uring: $(cat "$dir/err")" ;;
esac

twice='while read word n; do [ "$word" = run ] || exit 0; echo "$((n * 20)) $(awk "BEGIN { print $n / 100 }")"; done'
if "$ITERBENCH" versus --a "$peer" --b "$twice" --pairs 6 --slice 0.3 --json - >"$dir/out" 2>"$dir/err"; then
    python3 tests/check_json.py docs/json.md versus <"$dir/out" || fault "JSON of versus"
    grep -q '"median": 2,' "$dir/out" || fault "versus: $(cat "$dir/out")"
    python3 -c "import json, sys; starts = json.load(sys.stdin)['by_start']; assert len(starts) == 3 and all(s in (2, None) for s in starts)" <"$dir/out" ||
        fault "the starts of versus: $(cat "$dir/out")"
else
    echo "note: no six steady pairs just now: $(cat "$dir/err")"
fi

# ^C: reports what was measured until then, and exits with 130. The second one ends it at once, here
# within a batch of 20 seconds.
interrupt() { # SECONDS ARGUMENTS
    after=$1; shift
    timeout --preserve-status -s INT "$after" env --default-signal=INT,TERM "$ITERBENCH" "$@" >"$dir/out" 2>"$dir/err"; got=$?
    [ $got = 130 ] || fault "interrupted after $after s: status $got: $*: $(head -c 200 "$dir/err")"
}
for seconds in 1 5 25; do # on a busy machine measuring begins late
    interrupt $seconds --data "cifar10:$set" --chain "$normalize" --seconds 60 --workers 1
    grep -qE '^stopped  *by a signal, after [0-9.]+ m?s of measuring$' "$dir/out" && break
done
grep -qE '^stopped  *by a signal, after [0-9.]+ m?s of measuring$' "$dir/out" || fault "a run that was interrupted: $(cat "$dir/out")"
grep -q '^limit  *-  *-  *not measured$' "$dir/out" || fault "limits after an interruption"
for loader in "--loader dataloader" ""; do
    for seconds in 1 5 25; do
        # shellcheck disable=SC2086
        interrupt $seconds --data "cifar10:$set" --chain "$normalize" --seconds 60 $loader --json -
        figures=yes
        python3 -c "import json, sys
j = json.load(open(sys.argv[1]))
assert j['interrupted'] and j['limits']['copy_bytes_per_s'] is None, j
for arm in j['arms']: assert arm['samples_per_s'] > 0 and arm['samples'] > 0, arm" "$dir/out" 2>"$dir/figures" || figures=no
        [ $figures = yes ] && break
    done
    [ $figures = yes ] || fault "figures of a run that was interrupted: $(cat "$dir/figures")"
    python3 tests/check_json.py docs/json.md "A run" <"$dir/out" || fault "JSON of a run that was interrupted"
done
for seconds in 5 25; do
    interrupt $seconds --data "cifar10:$set" --chain "$normalize" --seconds 60 --workers 1 --compute-ms 1 --prove --json -
    figures=yes
    python3 -c "import json, sys
j = json.load(open(sys.argv[1]))
assert j['interrupted'] and j['rounds'] > 0 and j['verdict']['changes'] == [], j" "$dir/out" 2>"$dir/figures" || figures=no
    [ $figures = yes ] && break
done
[ $figures = yes ] || fault "a diagnosis that was interrupted: $(cat "$dir/figures")"
python3 tests/check_json.py docs/json.md "A diagnosis" <"$dir/out" || fault "JSON of a diagnosis that was interrupted"
env --default-signal=INT,TERM "$ITERBENCH" --data "cifar10:$set" --seconds 60 --compute-ms 20000 --json - >"$dir/out" 2>"$dir/err" &
pid=$!
sleep 1.5; kill -INT $pid; sleep 0.5
kill -0 $pid 2>/dev/null || fault "the first ^C ended a run within a batch"
kill -INT $pid; start=$(date +%s); wait $pid; got=$?
[ $got = 130 ] && [ $(($(date +%s) - start)) -lt 5 ] && [ ! -s "$dir/out" ] || fault "the second ^C: status $got"

# The command of a diagnosis is never cut, however long it is.
"$ITERBENCH" --data "cifar10:$set" --seconds 0.1 --compute-ms 1 --chain "$(printf '%6000s' '') $normalize" --seed 4711 --json - >"$dir/out" || fault "a long command"
python3 -c "import json, sys
command = json.load(open(sys.argv[1]))['command']
assert len(command) > 6000 and command.endswith(' --seed 4711 --json -'), command[-80:]" "$dir/out" || fault "a long command is cut"

# Dumps, read back by the header alone: shape, and the first pixels compared with the file.
status 0 --data "cifar10:$set" --loader dataloader --shuffle none --dump "$dir/dump" --batches 17
python3 - "$dir/dump" "$set" <<'PYTHON' || fault "dump"
import ast, struct, sys
def load(name):
    raw = open('%s/%s.npy' % (sys.argv[1], name), 'rb').read()
    assert raw[:8] == b'\x93NUMPY\x01\x00'
    size = struct.unpack('<H', raw[8:10])[0]
    assert (10 + size) % 64 == 0
    return ast.literal_eval(raw[10:10 + size].decode()), raw[10 + size:]
head, data = load('data')
assert head == {'descr': '|u1', 'fortran_order': False, 'shape': (1064, 3, 32, 32)}, head
records = b''.join(open('%s/data_batch_%d.bin' % (sys.argv[2], i), 'rb').read() for i in range(1, 6))
rows = [records[i * 3073:(i + 1) * 3073] for i in list(range(1000)) + list(range(64))]  # one epoch of 16 batches, and one batch
assert data == b''.join(r[1:] for r in rows)
head, labels = load('label')
assert head['shape'] == (1064,) and labels == bytes(r[0] for r in rows), head
head, index = load('index')
assert head['descr'] == '<u8' and struct.unpack('<1064Q', index) == tuple(list(range(1000)) + list(range(64)))
PYTHON
exit $bad

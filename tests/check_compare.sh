#!/bin/sh
# `iterbench compare` over hand-written results: differences, intervals, noise, verdicts.
# Usage: ITERBENCH=build/bench/iterbench check_compare.sh SOURCE_DIR
cd "$1" || exit 2
if [ -z "$ITERBENCH" ]; then echo "skipped: no iterbench"; exit 77; fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_compare: $*"; bad=1; }

# result LOADER BOTH WORKERS VERDICT: a diagnosis; rates are "median, low, high".
result() {
    rate() { echo "{\"median\": $(echo "$1" | cut -d, -f1), \"low\": $(echo "$1" | cut -d, -f2), \"high\": $(echo "$1" | cut -d, -f3)}"; }
    echo "{\"machine\": {\"cpu\": \"x\"}, \"config\": {\"batch\": 64, \"workers\": $3},
        \"arms\": [{\"name\": \"loader\", \"samples_per_s\": $(rate "$1"), \"wait_share\": null}, {\"name\": \"both\", \"samples_per_s\": $(rate "$2"), \"wait_share\": 0.5}],
        \"bounds\": [{\"term\": \"cpu\", \"samples_per_s\": 4000}], \"verdict\": $4}"
}
decode='{"limit": "decode", "stage": "jpeg", "share": 0.625, "confidence": "high", "text": "Decoding is the limit."}'
trainer='{"limit": "consumer", "stage": "", "share": 0.98, "confidence": "low", "text": "The trainer is the limit."}'
result "1000,950,1050" "800,790,810" 1 "$decode" >"$dir/a.json"
result "2000,1900,2100" "805,780,830" 2 "$trainer" >"$dir/b.json"
has() { grep -qE -- "$1" "$dir/out" || fault "not there: $1: $(cat "$dir/out")"; }

"$ITERBENCH" compare "$dir/a.json" "$dir/b.json" >"$dir/out" 2>"$dir/err" || fault "status: $(cat "$dir/err")"
[ "$(head -n 1 "$dir/out")" = "  differs: config.workers  1  |  2" ] || fault "what differs does not stand first: $(cat "$dir/out")"
# 2000/1000; 1900/1050 = 1.8095, 2100/950 = 2.2105
has '^  samples_per_s +1000 +2000   x 2\.000 \[1\.810, 2\.211\]$'
# 805/800 = 1.00625; 780/810 = 0.963, 830/790 = 1.0506
has '^  samples_per_s +800 +805   not told apart \[0\.963, 1\.051\]$'
has '^limit may have changed: decode \(jpeg\), 62 %, confidence high  ->  consumer, 98 %, confidence low$'
has '^  cpu +4000 +4000   x 1\.000$'
has 'versus. measures in turns'
grep -q 'No interval' "$dir/out" && fault "there are intervals"

# A slowdown is reported, too; if intervals touch, nothing is.
result "500,480,520" "784,780,790" 1 "$decode" >"$dir/c.json"
"$ITERBENCH" compare "$dir/a.json" "$dir/c.json" >"$dir/out" 2>&1 || fault "status"
has 'x 0\.500 \[0\.457, 0\.547\]$'
has 'not told apart \[0\.963, 1\.000\]$'
has '^limit is the same: decode'
grep -q 'differs: config' "$dir/out" && fault "nothing differs"

# A run has one figure; a verdict may be a text; one side may lack arms.
echo '{"config": {"seed": 1, "old": true, "none": null}, "arms": [{"name": "loader", "samples_per_s": 1200}, {"name": "more", "samples_per_s": 3}], "verdict": "The loader limits this run."}' >"$dir/d.json"
"$ITERBENCH" compare "$dir/a.json" "$dir/d.json" >"$dir/out" 2>&1 || fault "status"
has '^  samples_per_s +1000 +1200   x about 1\.200, no interval$'
has '^No interval: '
has '^  only in A: arm both$'
has '^  only in B: arm more$'
has '^  differs: config.old  none  \|  true$'
grep -q 'config.none' "$dir/out" && fault "null is not told from missing"
has '^verdict of A: Decoding is the limit\.$'
has '^verdict of B: The loader limits this run\.$'

echo '{"arms": [{"name": "more", "samples_per_s": 3}]}' >"$dir/e.json"
for file in e no; do
    "$ITERBENCH" compare "$dir/a.json" "$dir/$file.json" >"$dir/out" 2>"$dir/err"
    [ $? = 1 ] && [ ! -s "$dir/out" ] && [ "$(wc -l <"$dir/err")" = 1 ] || fault "compare with $file.json: $(cat "$dir/out" "$dir/err")"
done
exit $bad

#!/bin/sh
# The HTML report: written from results of every kind, complete in one file, and drawn by a browser
# without an error.
# Usage: ITERBENCH=build/bench/iterbench check_report.sh SOURCE_DIR (KEEP=DIR keeps pages and
# screenshots there)
cd "$1" || exit 2
if [ -z "$ITERBENCH" ]; then echo "skipped: no iterbench"; exit 77; fi
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_report: $*"; bad=1; }

# status WANTED ARGUMENTS: checks the exit status; nothing on stdout; an error is one line on
# stderr.
status() {
    want=$1; shift
    "$ITERBENCH" "$@" >"$dir/out" 2>"$dir/err"; got=$?
    [ $got = "$want" ] || fault "status $got, not $want: $*: $(head -c 300 "$dir/err")"
    [ ! -s "$dir/out" ] || fault "stdout is not empty: $*"
    [ "$(wc -l <"$dir/err")" = "$([ "$want" = 0 ] && echo 0 || echo 1)" ] || fault "stderr: $*: $(cat "$dir/err")"
}

# Pages from results: a diagnosis, the same with names that attack the page, an empty one, every
# part null, and one that JSON.parse refuses.
golden=tests/golden/report_result.json
hostile='</script><script>document.title=1</script><!--<script><img src=x onerror=document.title=1>'
python3 - "$golden" "$dir" "$hostile" <<'PYTHON' || fault "no pages to draw"
import json, sys
result, to, hostile = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
def write(name, value): json.dump(value, open('%s/%s.json' % (to, name), 'w'))
def attacked(v):
    if isinstance(v, dict): return {k: attacked(x) for k, x in v.items()}
    if isinstance(v, list): return [attacked(x) for x in v]
    return v + hostile if isinstance(v, str) else v
def nulls(v, depth):
    if depth == 0: return None
    if isinstance(v, dict): return {k: nulls(x, depth - 1) for k, x in v.items()}
    if isinstance(v, list): return [nulls(x, depth - 1) for x in v]
    return v
write('hostile', attacked(result))
write('bare', {'arms': [{'name': 'loader', 'samples_per_s': 1200}]})
result['verdict']['changes'][0].update(proved=0.03, proved_low=-0.02, proved_high=0.07, proved_within_noise=True)
write('noise', result)
result['verdict'].update(limit='layout', stage=None, text='The layout is the limit.', changes=[{'option': 'workers', 'from': '0', 'to': '1', 'gain': 0.03,
    'expected_samples_per_s': 103000, 'text': 'workers 0 -> 1: no difference that can be told [-2.0 %, +9.0 %]; then the consumer is the limit'}])
result.update(steady=False, rounds=9, dropped=4, convert_us_per_batch=450, convert='nhwc to nchw', config={'batch': 100, 'workers': 0},
    arms=[{'name': 'both', 'samples_per_s': {'median': 100000, 'low': None, 'high': None}}], attribution={'consumer': {'busy': 1, 'waiting': 0, 'runnable': 0}, 'workers': []})
write('words', result)
write('pair', {'arms': [{'name': 'ndarray', 'samples_per_s': 1e6}, {'name': 'dataloader', 'samples_per_s': 1.1e6}], 'ratio': {'median': 1.1, 'low': 0.925, 'high': 1.32}})
write('versus', {'a': {'command': 'a', 'samples_per_s': 10, 'low': 9, 'high': 11}, 'b': {'command': 'b', 'samples_per_s': 18, 'low': 17, 'high': 19}, 'ratio': {'median': 1.83, 'low': 1.79, 'high': 1.88}})
result = json.load(open(sys.argv[1]))
for depth in 1, 2, 3, 4: write('nulls%d' % depth, nulls(result, depth))
write('sweep', {'verdict': 'Best is A.', 'answer': 'It calls an interpreter.', 'trainer': {'samples_per_s': {'median': 52000, 'low': None, 'high': None}},
    'arms': [{'name': 'setting A', 'samples_per_s': {'median': 50000, 'low': 49000, 'high': 51000}, 'time': {'trainer': 0.75, 'loader': 0, 'waiting': 0.15, 'contention': 0.1}}]})
write('doctor', {'doctor': [{'item': 'memlock', 'state': 'costs', 'value': '64 KiB', 'costs': 'a copy more', 'mend': 'ulimit -l'}]})
spread = lambda v: {'median': v, 'low': 0.9 * v, 'high': 1.1 * v}
limits = {'data': 'folder:photos', 'limits': {'copy_bytes_per_s': 5e9, 'decode_samples_per_s': 800}, 'decode': {'photos': 2438, 'pngs': 0, 'left_out': 3, 'mean_bytes': 55000,
    'part_share': 0.44, 'whole_per_s': spread(500), 'part_per_s': spread(800), 'store_per_s': spread(400000), 'rest_ms': 0.06, 'limit_per_s': spread(762),
    'loader_per_s': spread(640), 'ratio': spread(0.84), 'rounds': 15, 'dropped': 0, 'steady': True}}
write('limits', limits)
write('photos', {'arms': [{'name': 'loader', 'samples_per_s': 900, 'cpu_ns_per_sample': 1e6, 'decode_share': 0.75}], 'limits': {'decode_samples_per_s': 1333}})
write('hostile-limits', attacked(limits))
for depth in 1, 2, 3: write('no-limits%d' % depth, nulls(limits, depth))
open(to + '/broken.json', 'w').write('{"verdict": "a raw \t tab"}')
PYTHON
status 0 report "$golden" "$dir/golden.html"
for name in hostile bare noise nulls2 nulls3 nulls4 sweep doctor words pair versus broken limits photos hostile-limits no-limits2 no-limits3; do status 0 report "$dir/$name.json" "$dir/$name.html"; done
"$ITERBENCH" --data "synthetic:cifar10?n=500" --chain "normalize:mean=0.5,std=0.25 | to:f32,nchw" --seconds 0.3 --json "$dir/run.json" >/dev/null 2>&1 \
    && status 0 report "$dir/run.json" "$dir/run.html"
"$ITERBENCH" --data "synthetic:cs224?n=2000" --model mlp --seconds 0.2 --batch 256 --json "$dir/train.json" >/dev/null 2>&1 \
    && status 0 report "$dir/train.json" "$dir/train.html"
"$ITERBENCH" limits --data "synthetic:cifar10?n=500" --chain "to:f32" --html "$dir/loops.html" >/dev/null 2>&1 && [ -s "$dir/loops.html" ] || fault "limits --html"
# If there is nothing to draw: an error that names what is missing, and no page.
for nothing in '{}' '{"version": "0.1.0", "arms": null}'; do
    echo "$nothing" >"$dir/nothing.json"
    status 1 report "$dir/nothing.json" "$dir/no.html"
    grep -q 'nothing.json: not a result of iterbench: it has none of arms, limits' "$dir/err" || fault "a result of nothing: $(cat "$dir/err")"
done
for nothing in nulls1 no-limits1; do status 1 report "$dir/$nothing.json" "$dir/no.html"; done
status 2 report
status 2 report "$golden"
status 2 report "$golden" "$golden"
status 1 report "$dir/no.json" "$dir/no.html"
status 1 report "$golden" "$dir/no/no.html"
printf '[1, 2]' >"$dir/list.json"
status 1 report "$dir/list.json" "$dir/no.html"
printf '{"a": ' >"$dir/half.json"
status 1 report "$dir/half.json" "$dir/no.html"
[ ! -e "$dir/no.html" ] || fault "a report of nothing was written"
grep -nE '(src|href)="?[^d"]|https?:|@import|url\([^#]' "$dir/golden.html" && fault "the page names another place"

[ -n "$ITER_BROWSER" ] || for name in chromium chromium-browser google-chrome; do
    command -v $name >/dev/null 2>&1 && ITER_BROWSER=$name && break
done
if [ -z "$ITER_BROWSER" ]; then
    [ $bad = 0 ] || exit 1
    echo "skipped: the pages are written, but no chromium is here to draw them"; exit 77
fi

# draw PAGE ARGUMENTS: chromium's output goes to $dir/dom, its messages about the page to
# $dir/console.
draw() {
    page=$1; shift
    HOME=$dir timeout 60 "$ITER_BROWSER" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-dev-shm-usage \
        --user-data-dir="$dir/profile" --hide-scrollbars --window-size=1000,2600 --enable-logging=stderr --virtual-time-budget=2000 \
        "$@" "file://$page" >"$dir/dom" 2>"$dir/err"
    grep -E 'CONSOLE' "$dir/err" >"$dir/console"
}
printf '<!doctype html><p>it starts</p>' >"$dir/plain.html"
draw "$dir/plain.html" --dump-dom
if ! grep -q 'it starts' "$dir/dom"; then
    [ $bad = 0 ] || exit 1
    echo "skipped: $ITER_BROWSER does not start here: $(tail -n 1 "$dir/err")"; exit 77
fi

# dom PAGE: draws it; the console must stay empty. $dir/dom keeps the drawn page, without the result
# and the script.
dom() {
    draw "$dir/$1.html" --dump-dom
    [ "$(grep -c '</script>' "$dir/dom")" = 2 ] || fault "$1: not the two scripts that the page has"
    sed -n '/<main id="report">/,/<script type=/p' "$dir/dom" | sed 's/<script type=.*//' >"$dir/drawn"; mv "$dir/drawn" "$dir/dom"
    [ ! -s "$dir/console" ] || fault "$1: $(head -c 400 "$dir/console")"
    grep -q '<main id="report"><' "$dir/dom" || fault "$1: nothing is drawn"
    grep -q 'class="broken"' "$dir/dom" && fault "$1: a part is broken: $(grep -o 'class="broken">[^<]*' "$dir/dom")"
}
has() { grep -qF -- "$2" "$dir/dom" || fault "$1: not in the page: $2"; }
n_svg() { grep -o '<svg class="chart"' "$dir/dom" | wc -l; }

dom golden
for text in "The chain (random-crop) is the limit: it costs 60 % of the time." "The slowest batch:" "The median batch:" "random-crop after normalize" \
    "+37 % [+33 %, +42 %]" "What each resource alone would allow" "How long next() takes" "iterbench --loader dataloader --data" "Xeon" "worker 1"; do
    has golden "$text"
done
[ "$(n_svg)" -ge 8 ] || fault "golden: $(n_svg) drawings"
grep -q 'Left out' "$dir/dom" && fault "golden: something is left out: $(grep -o 'Left out[^<]*' "$dir/dom")"

grep -q 'no difference' "$dir/dom" && fault "golden: a gain is reported as none"
dom noise
has noise "no difference that can be told [−2.0 %, +7.0 %]"
grep -q '+3.0 %' "$dir/dom" && fault "noise: a gain is stated whose interval holds the opposite"

# Sentences whose intervals contain the opposite; a consumer that converts layouts; rounds that
# count although the machine's speed moved.
dom words
has words "The machine’s speed moved around 4 of 9 rounds. They count as well, since too few others were left."
has words "turning nhwc to nchw 45 %" # 450 us of a batch of 100 at 100,000 samples/s
has words "its own work 55 %"
has words "no difference that can be told [−2.0 %, +9.0 %]" # a change, as its sentence has it
grep -q 'busy 100 %' "$dir/dom" && fault "words: the consumer is busy with nothing else than the layout"
dom pair
has pair "ndarray and dataloader cannot be told apart: dataloader / ndarray is 0.925 to 1.32."
dom versus
has versus "b is 1.83 times as fast as a [1.79, 1.88]."

dom hostile
has hostile '&lt;img src=x onerror=document.title=1&gt;'
grep -q '<img' "$dir/dom" && fault "hostile: data became an element"
draw "$dir/hostile.html" --dump-dom
grep -q '<title>iterbench: cifar10:' "$dir/dom" || fault "hostile: data ran"

dom bare
has bare "loader: 1,200 samples/s."
has bare "Left out, since the result does not have it: time per stage, timeline, histogram of next(), command, machine and configuration."
for depth in 2 3 4; do dom nulls$depth; done
dom sweep
for text in "Best is A." "It calls an interpreter." "trainer alone" "setting A" "training 75 %" "contention 10 %"; do has sweep "$text"; done
[ "$(n_svg)" = 2 ] || fault "sweep: $(n_svg) drawings"
dom doctor
for text in memlock "64 KiB" "a copy more" "ulimit -l"; do has doctor "$text"; done
dom limits
for text in "Photos: the loader and its limit" "84 % [76 %, 92 %]" "the parts wanted (44 %)" "limit: parts + rows + 0.06 ms" "640 [576, 704], 1.56 ms" "bare decode, one core" \
    "decoding 80 %" "53.7 KiB each); 3 that failed are left out." "loader: decoding 80 %, rows stored 0.2 %, all else: reading, resizing, handing over 20 %"; do
    has limits "$text"
done
dom photos
for text in "Photos: decoding and all else" "bare decode 75 %" "of it bare decode"; do has photos "$text"; done
dom hostile-limits
for depth in 2 3; do dom no-limits$depth; done
dom loops
has loops "convert, in order"
[ ! -e "$dir/run.html" ] || { dom run; has run "samples/s"; has run "timeline"; [ "$(n_svg)" -ge 1 ] || fault "run: no drawing"; }
[ ! -e "$dir/train.html" ] || { dom train; has train "trainer alone"; has train "Verdict"; [ "$(n_svg)" -ge 1 ] || fault "train: no drawing"; }

# On a narrow screen the charts scroll inside themselves: the page is no wider than the screen, and
# their text keeps its size.
for width in 500 1200; do
    { cat "$dir/golden.html"; printf '<script>{ const c = [...document.querySelectorAll("svg.chart[viewBox]")]; document.title = ["width", document.documentElement.scrollWidth <= innerWidth, "inside", c.some((e) => e.parentNode.scrollWidth > e.parentNode.clientWidth), "scale", c.every((e) => e.getBoundingClientRect().width >= 0.85 * e.viewBox.baseVal.width)].join(" "); }</script>'; } >"$dir/narrow.html"
    draw "$dir/narrow.html" --window-size=$width,1600 --dump-dom
    inside=$([ $width = 500 ] && echo true || echo false)
    grep -q "<title>width true inside $inside scale true</title>" "$dir/dom" || fault "at $width pixels: $(grep -o '<title>.*</title>' "$dir/dom")"
done

# The check for errors works: this page must report one in both places.
draw "$dir/broken.html" --dump-dom
[ -s "$dir/console" ] || fault "an error does not show on the console"
has broken "cannot be read"

# The picture is not blank: a drawing does not compress to almost nothing.
draw "$dir/golden.html" --screenshot="$dir/golden.png"
bytes=$(wc -c <"$dir/golden.png" 2>/dev/null || echo 0)
draw "$dir/plain.html" --screenshot="$dir/plain.png"
blank=$(wc -c <"$dir/plain.png" 2>/dev/null || echo 0)
[ "$bytes" -gt $((8 * blank)) ] && [ "$blank" -gt 0 ] || fault "the screenshot has $bytes bytes, a blank one $blank"
if [ -n "$KEEP" ]; then mkdir -p "$KEEP" && cp "$dir"/*.html "$dir"/*.png "$KEEP"; fi
exit $bad

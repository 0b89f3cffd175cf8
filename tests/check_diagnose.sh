#!/bin/sh
# ITER_DIAGNOSE prints a verdict for each loader of a program that does not know of it, at its end or
# at the program's, or writes the report; nothing if it is 0 or not set. Any watched loop has a verdict.
# Usage: ITERBENCH=path ITER_SHARED=1 check_diagnose.sh SOURCE_DIR BINARY_DIR
program=$2/examples/04_workers
loops=$2/bench/loops
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
bad=0
fail() { echo "$1"; bad=1; }
# A static library brings its names into a program.
if command -v nm >/dev/null; then
    foreign=$(nm -g --defined-only "$2"/diagnose/CMakeFiles/iter_diagnose_objects.dir/*.o | awk 'NF == 3 && $3 !~ /^iter_/ { print $3 }')
    [ -z "$foreign" ] || fail "names that are missing in diagnose/names.h: $foreign"
fi
if [ -x "$loops" ]; then # 19 loops with planted causes; what they are is judged by hand, not here
    "$loops" --quick || fail "a loop has no verdict"
fi
if [ ! -x "$program" ]; then echo "skipped: no examples in this build"; [ $bad = 0 ] && exit 77; exit 1; fi
# The library lies beside libiter; a static build has none to open.
if [ "$ITER_SHARED" != 1 ]; then echo "skipped: a static program must link iter::diagnose"; [ $bad = 0 ] && exit 77; exit 1; fi
run() { # run VALUE FILE: the program's standard error in FILE
    ITER_DIAGNOSE=$1 "$program" >"$folder/out" 2>"$2" || fail "ITER_DIAGNOSE=$1 stops the program"
}
"$program" >"$folder/plain" 2>/dev/null || exit 1
run 1 "$folder/text"
cmp -s "$folder/plain" "$folder/out" || fail "a watch changes what the program prints"
[ "$(grep -c '^libiter: verdict on synthetic:cifar10, ' "$folder/text")" = 3 ] || { cat "$folder/text"; fail "expected three verdicts"; }
grep -q 'samples a second; the consumer could take' "$folder/text" || fail "a verdict without its evidence"
for value in 0 ""; do
    run "$value" "$folder/none"
    grep -q libiter: "$folder/none" && fail "ITER_DIAGNOSE='$value' prints"
done
run "$folder/report.html" "$folder/names"
for file in report.html report.2.html report.3.html; do
    grep -q "in $folder/$file\$" "$folder/names" || fail "$file is not named on standard error"
    grep -q '"tool": "libiter-diagnose"' "$folder/$file" || fail "$file is no report"
done
[ "$(grep -c libiter: "$folder/names")" = 3 ] || fail "expected one line a report"
run "$folder/none/report.html" "$folder/nowhere"
grep -q 'no verdict was written: ' "$folder/nowhere" || fail "a report that cannot be written gives no reason"
exit $bad

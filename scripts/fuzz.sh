#!/bin/sh
# Searches with every fuzz target for SECONDS each; findings are kept under build/fuzz/found. Usage: fuzz.sh SECONDS
set -eu
cd "$(dirname "$0")/.."
seconds=${1:?usage: fuzz.sh SECONDS}
scripts/build.sh fuzz
bad=0
for target in build/fuzz/tests/fuzz_*; do
    [ -x "$target" ] && [ -f "$target" ] || continue
    name=${target##*/fuzz_}
    mkdir -p "build/fuzz/corpus/$name" "build/fuzz/found/$name"
    seeds=
    [ ! -d "tests/fuzz/corpus/$name" ] || seeds=tests/fuzz/corpus/$name
    printf '== %s for %s s\n' "$name" "$seconds"
    # New inputs go to the first folder, so the repository's corpus stays as it is.
    # shellcheck disable=SC2086
    if "$target" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="build/fuzz/found/$name/" \
        "build/fuzz/corpus/$name" $seeds >"build/fuzz/$name.log" 2>&1; then
        grep -E 'stat::number_of_executed_units|^Done' "build/fuzz/$name.log" || true
    else
        grep -E 'ERROR|SUMMARY|Test unit written' "build/fuzz/$name.log" || tail -n 5 "build/fuzz/$name.log"
        bad=1
    fi
done
exit $bad

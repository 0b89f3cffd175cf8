#!/bin/sh
# Every symbol that libiter exports starts with iter_ and is not internal (iter__), and each is declared in a public header.
# Usage: ITER_SHARED=1 ITER_LIBRARY=libiter.so check_symbols.sh SOURCE_DIR
if [ "$ITER_SHARED" != 1 ]; then echo "skipped: a static build hides nothing"; exit 77; fi
cd "$1" || exit 2
exported=$(nm -D --defined-only "$ITER_LIBRARY" | awk '{print $3}' | sed 's/@.*//')
[ -n "$exported" ] || { echo "nothing is exported"; exit 1; }
bad=0
leaked=$(echo "$exported" | grep -vE '^iter_[a-z]')
[ -z "$leaked" ] || { echo "exported by accident: $leaked"; bad=1; }
for symbol in $exported; do
    grep -qE "\b$symbol\b" iter/*.h || { echo "exported, but in no public header: $symbol"; bad=1; }
done
# A declaration without a definition is found by its first user at link time; find it here.
declared=$("${CC:-cc}" -std=c11 -E -P -I. iter/iter.h | tr '\n' ' ' | tr ';{}' '\n\n\n' |
    grep 'visibility("default")' | sed -E 's/__attribute__ *\(\([a-z_]+(\("default"\))?\)\)//g' |
    sed -nE 's/^[^(]*\b(iter_[a-z0-9_]+) *(\(.*|\[.*|$)/\1/p' | sort -u)
[ -n "$declared" ] || { echo "no public declaration was found"; exit 1; }
for symbol in $declared; do
    echo "$exported" | grep -qx "$symbol" || { echo "declared, but not exported: $symbol"; bad=1; }
done
exit $bad

#!/bin/sh
# Every symbol that a library exports starts with iter_ and is not internal (iter__), and each is
# declared in a public header; each declared function is exported.
# Usage: ITER_SHARED=1 ITER_LIBRARY=libiter.so [ITER_ENGINE=libiter_engine.so]
# [ITER_DIAGNOSE_LIBRARY=libiter_diagnose.so] check_symbols.sh SOURCE_DIR
if [ "$ITER_SHARED" != 1 ]; then echo "skipped: a static build hides nothing"; exit 77; fi
cd "$1" || exit 2
bad=0
exported() { # exported LIBRARY
    nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//'
}
declared() { # declared HEADER: also by the headers that it includes
    "${CC:-cc}" -std=c11 -E -P -I. "$1" | tr '\n' ' ' | tr ';{}' '\n\n\n' |
        grep 'visibility("default")' | sed -E 's/__attribute__ *\(\([a-z_]+(\("default"\))?\)\)//g' |
        sed -nE 's/^[^(]*\b(iter_[a-z0-9_]+) *(\(.*|\[.*|$)/\1/p' | sort -u
}
check() { # check LIBRARY DECLARED
    symbols=$(exported "$1")
    [ -n "$symbols" ] || { echo "$1: nothing is exported"; bad=1; }
    [ -n "$2" ] || { echo "$1: no public declaration was found"; bad=1; }
    leaked=$(echo "$symbols" | grep -vE '^iter_[a-z]')
    [ -z "$leaked" ] || { echo "$1: exported by accident: $leaked"; bad=1; }
    for symbol in $symbols; do
        grep -qE "\b$symbol\b" iter/*.h || { echo "$1: exported, but in no public header: $symbol"; bad=1; }
    done
    # If a declaration has no definition, its first user finds that at link time; find it here.
    for symbol in $2; do
        echo "$symbols" | grep -qx "$symbol" || { echo "$1: declared, but not exported: $symbol"; bad=1; }
    done
}
library=$(declared iter/iter.h)
check "$ITER_LIBRARY" "$library"
if [ -n "${ITER_ENGINE:-}" ]; then
    check "$ITER_ENGINE" "$(declared iter/engine.h | grep -vxF "$library")"
fi
if [ -n "${ITER_DIAGNOSE_LIBRARY:-}" ]; then
    check "$ITER_DIAGNOSE_LIBRARY" "$(declared iter/diagnose.h | grep -vxF "$library")"
fi
exit $bad

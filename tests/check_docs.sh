#!/bin/sh
# Every public function has a comment right above it (one comment may head a block of declarations). Every source begins with a comment.
# README.md has at most 120 lines of 120 columns. Every link of the documents leads to a file, and to a heading in it.
# Usage: check_docs.sh SOURCE_DIR
cd "$1" || exit 2
awk 'FNR == 1 { documented = 0 }
     /\*\/[ \t]*$/ { documented = 1; next }
     /^[ \t]*$/ { documented = 0; next }
     /ITER_API/ && !/define/ && !documented { printf "%s:%d: no comment: %s\n", FILENAME, FNR, $0; bad = 1 }
     END { exit bad }' iter/*.h || exit 1
# Every source begins with a comment that describes it.
bad=0
for file in $(find iter loaders transforms engine diagnose bench tools examples tests -name '*.[ch]' -not -path '*/peers/*' 2>/dev/null); do
    case $(head -c 2 "$file") in
    '/*') ;;
    *) echo "$file: does not begin with a head comment"; bad=1 ;;
    esac
done
[ "$(wc -l <README.md)" -le 120 ] || { echo "README.md: more than 120 lines"; bad=1; }
wide=$(LC_ALL=C.UTF-8 awk 'length > 120 { print FNR }' README.md)
[ -z "$wide" ] || { echo "README.md: lines above 120 columns: $wide"; bad=1; }
if command -v python3 >/dev/null; then
    python3 tests/check_links.py || bad=1
else
    echo "note: no python3, links were not checked"
fi
exit $bad

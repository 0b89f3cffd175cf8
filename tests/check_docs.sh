#!/bin/sh
# Every public function has a comment right above it (one comment may head a block of declarations).
# Usage: check_docs.sh SOURCE_DIR
cd "$1" || exit 2
awk 'FNR == 1 { documented = 0 }
     /\*\/[ \t]*$/ { documented = 1; next }
     /^[ \t]*$/ { documented = 0; next }
     /ITER_API/ && !/define/ && !documented { printf "%s:%d: no comment: %s\n", FILENAME, FNR, $0; bad = 1 }
     END { exit bad }' iter/*.h || exit 1
# Every source begins with a comment that describes it.
bad=0
for file in $(find iter loaders transforms engine bench tools examples tests -name '*.[ch]' -not -path '*/peers/*' 2>/dev/null); do
    case $(head -c 2 "$file") in
    '/*') ;;
    *) echo "$file: does not begin with a head comment"; bad=1 ;;
    esac
done
exit $bad

#!/bin/sh
# The texts speak of the project alone: no absolute path of a machine, no unfinished work, no
# dataset or big binary. They are plain English: no word or phrase of check_words.awk.
# Usage: check_words.sh SOURCE_DIR
words_of=${WORDS_OF:-.}
cd "$1" || exit 2
list() { # every file of the working tree that belongs to the project
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -z --cached --others --exclude-standard
    else
        find . -path ./build -prune -o -path ./data -prune -o -path ./.git -prune -o -type f -print0
    fi
}
bad=0
names=$(list | grep -zv 'tests/check_words.sh' | xargs -0 -r grep -nIE '(^|[^A-Za-z0-9_./$}])/(home|work|root|farm|Users)/[A-Za-z]|/tmp/[a-z]*_jobs|/tmp/iterdata' 2>/dev/null)
[ -z "$names" ] || { echo "$names"; echo "  ^ paths of a machine"; bad=1; }
todo=$(list | grep -zE '\.(c|h|sh|py|cmake|txt|md)$' | grep -zv 'tests/check_words.sh' | xargs -0 -r grep -nIE '\b(TODO|FIXME|XXX)\b|[Nn]ot implemented yet' 2>/dev/null)
[ -z "$todo" ] || { echo "$todo"; echo "  ^ unfinished"; bad=1; }
words=$(list | sed -z 's|^\./||' | grep -zE "^($words_of)" | grep -zE '\.(c|h|cu|cc|sh|py|md)$' |
    grep -zvE '^(CHANGELOG\.md|bench/results/.*|tests/check_words\.(sh|awk))$' | LC_ALL=C xargs -0 -r awk -f tests/check_words.awk)
[ -z "$words" ] || { echo "$words"; echo "  ^ not plain English: name the subject, and use a verb that acts"; bad=1; }
large=$(list | xargs -0 -r du -k 2>/dev/null | awk '$1 > 512')
[ -z "$large" ] || { echo "$large"; echo "  ^ above 512 KiB"; bad=1; }
exit $bad

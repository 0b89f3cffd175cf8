#!/bin/sh
# The texts speak of the project alone: no absolute path of a machine, no unfinished work, no
# dataset or big binary.
# Usage: check_words.sh SOURCE_DIR
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
large=$(list | xargs -0 -r du -k 2>/dev/null | awk '$1 > 512')
[ -z "$large" ] || { echo "$large"; echo "  ^ above 512 KiB"; bad=1; }
exit $bad

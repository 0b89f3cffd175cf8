#!/bin/sh
# clang-format changes no source; names are unique; files stay readable; comments have at most 100
# columns and break no statement.
# Usage: check_style.sh SOURCE_DIR
comments_of=${COMMENTS_OF:-iter loaders transforms engine diagnose bench tools examples tests}
cd "$1" || exit 2
files=$(find iter loaders transforms engine diagnose bench tools examples tests -name '*.[ch]' -not -path '*/corpus/*' -not -path '*/peers/*' 2>/dev/null | sort)
bad=0
faults=$(mktemp) || exit 2
trap 'rm -f "$faults"' EXIT
for file in $files; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || { echo "$file: $lines lines, above 800"; bad=1; }
done
twice=$(for file in $files; do basename "$file"; done | grep '\.c$' | sort | uniq -d)
[ -z "$twice" ] || { echo "duplicate file names: $twice"; bad=1; }
# shellcheck disable=SC2086
grep -nE '[[:blank:]]+$' $files && { echo "  ^ blanks at the end of a line"; bad=1; }
# shellcheck disable=SC2086
find $comments_of \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cc' \) -not -path '*/corpus/*' -not -path '*/peers/*' -not -path 'bench/results/*' |
    sort | LC_ALL=C xargs awk -f tests/check_style.awk || bad=1
# Versions differ in where they break lines.
version=$(clang-format --version 2>/dev/null | sed 's/.*version \([0-9]*\).*/\1/')
if [ "$version" = 14 ]; then
    # In one go: starting clang-format takes longer than formatting a file.
    # shellcheck disable=SC2086
    if ! clang-format --dry-run -Werror $files 2>"$faults"; then
        sed -n 's/^\([^ ]*\): error: .*/\1/p' "$faults"
        echo "  ^ not as clang-format has it (make format)"; bad=1
    fi
elif [ $bad = 0 ]; then
    echo "skipped: clang-format 14 decides, here is ${version:-none}"; exit 77
fi
exit $bad

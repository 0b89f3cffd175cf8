#!/bin/sh
# clang-format leaves every source as it is; names are unique; files stay readable.
# Usage: check_style.sh SOURCE_DIR
cd "$1" || exit 2
files=$(find iter loaders transforms engine bench examples tests -name '*.[ch]' -not -path '*/corpus/*' -not -path '*/peers/*' 2>/dev/null | sort)
bad=0
for file in $files; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || { echo "$file: $lines lines, above 800"; bad=1; }
done
twice=$(for file in $files; do basename "$file"; done | grep '\.c$' | sort | uniq -d)
[ -z "$twice" ] || { echo "file names that stand twice: $twice"; bad=1; }
# shellcheck disable=SC2086
grep -nE '[[:blank:]]+$' $files && { echo "  ^ blanks at the end of a line"; bad=1; }
if command -v clang-format >/dev/null 2>&1; then
    for file in $files; do
        clang-format --dry-run -Werror "$file" 2>/dev/null || { echo "$file: not as clang-format has it (make format)"; bad=1; }
    done
elif [ $bad = 0 ]; then
    echo "skipped: no clang-format"; exit 77
fi
exit $bad

#!/bin/sh
# Every public header compiles alone, as C11 and as C++11, and its initialisers are valid in both.
# Usage: check_headers.sh SOURCE_DIR. Without a C++ compiler (CXX, else c++) only C is checked.
cd "$1" || exit 2
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT
cc=${CC:-cc}
cxx=${CXX:-c++}
flags="-D_GNU_SOURCE -I. -Wall -Wextra -Wpedantic -Wundef -Wshadow -Werror -fsyntax-only"
command -v "$cxx" >/dev/null 2>&1 || { echo "note: no $cxx, so headers are not checked as C++"; cxx=; }
bad=0
for header in iter/*.h; do
    {
        echo "#include <$header>"
        echo "#include <$header>"
        echo "int main(void) {"
        sed -nE 's/^#define (ITER_([A-Z_]+)_OPTIONS_INIT).*/\1 \2/p' "$header" | while read -r macro name; do
            type=iter_$(echo "$name" | tr '[:upper:]' '[:lower:]')_options
            echo "    { $type options = $macro; (void)options; }"
        done
        echo "    return 0;"
        echo "}"
    } >"$made/alone.c"
    # shellcheck disable=SC2086 # a list of flags
    "$cc" -std=c11 $flags "$made/alone.c" || { echo "check_headers: <$header> is no C11 of its own"; bad=1; }
    [ -n "$cxx" ] || continue
    # shellcheck disable=SC2086
    "$cxx" -std=c++11 -x c++ $flags "$made/alone.c" || { echo "check_headers: <$header> is no C++11 of its own"; bad=1; }
done
exit $bad

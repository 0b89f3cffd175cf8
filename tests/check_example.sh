#!/bin/sh
# The program shown in README.md is the text of the first example, character by character.
# Usage: check_example.sh SOURCE_DIR
cd "$1" || exit 2
example=$(ls examples/01_*.c 2>/dev/null | head -n 1)
if [ -z "$example" ] || [ ! -f README.md ]; then echo "skipped: no README.md or no examples/01_*.c"; exit 77; fi
shown=$(mktemp) && trap 'rm -f "$shown"' EXIT
awk '/^```c$/ && !done { inside = 1; next } /^```$/ && inside { inside = 0; done = 1 } inside' README.md >"$shown"
[ -s "$shown" ] || { echo "README.md shows no C program"; exit 1; }
diff -u "$example" "$shown" || { echo "README.md differs from $example"; exit 1; }

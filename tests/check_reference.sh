#!/bin/sh
# The reference can be made from the public headers: Doxygen has no complaint, knows every public function, and shows the fields of
# docstrings as sections. Usage: check_reference.sh SOURCE_DIR
cd "$1" || exit 2
for tool in doxygen python3; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_reference: $*"; bad=1; }
sed -E "s|^(OUTPUT_DIRECTORY) .*|\1 = $dir|; s|^(WARN_LOGFILE) .*|\1 = $dir/log|; s|^(GENERATE_TREEVIEW) .*|\1 = NO|" docs/site/Doxyfile >"$dir/Doxyfile"
printf 'GENERATE_HTML = NO\nGENERATE_XML = YES\nXML_PROGRAMLISTING = NO\n' >>"$dir/Doxyfile"
ITER_VERSION=0 doxygen "$dir/Doxyfile" >"$dir/out" 2>&1 || fault "doxygen fails: $(tail -n 3 "$dir/out")"
[ ! -s "$dir/log" ] || fault "$(cat "$dir/log")"

# Functions as the headers have them: the name before the first parenthesis after ITER_API.
cat iter/*.h | grep -v '\\$' | tr '\n' ' ' | grep -oE 'ITER_API [^;(]*\(' | grep -oE 'iter_[a-z0-9_]+\($' | tr -d '(' | sort -u >"$dir/declared"
sed -nE '/kind="function"/,/<name>/s|.*<name>(iter_[a-z0-9_]+)</name>.*|\1|p' "$dir"/xml/*_8h.xml | sort -u >"$dir/shown"
[ "$(wc -l <"$dir/declared")" -gt 50 ] || fault "only $(wc -l <"$dir/declared") functions were found in the headers"
lost=$(comm -23 "$dir/declared" "$dir/shown")
[ -z "$lost" ] || fault "the reference lacks: $lost"

# sections FIELD: how many there are in the headers, and in the reference.
for field in Errors Threads Ownership; do
    there=$(grep -cE "^ \* $field {2,}" iter/*.h | awk -F: '{ n += $2 } END { print n }')
    shown=$(grep -o "<title>$field</title>" "$dir"/xml/*_8h.xml | wc -l)
    [ "$shown" -ge "$there" ] && [ "$there" -gt 5 ] || fault "$field stands in $there docstrings, but in $shown of the reference"
done
[ "$(grep -o '<simplesect kind="return">' "$dir"/xml/*_8h.xml | wc -l)" -ge "$(cat iter/*.h | grep -cE '^ \* Returns {2,}')" ] || fault "Returns is lost"
exit $bad

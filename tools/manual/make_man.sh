#!/bin/sh
# Makes the manual page of a program from its --help, so that the two cannot differ. Usage: make_man.sh PROGRAM [FILE]
set -eu
[ $# -lt 2 ] || exec >"$2"
program=$1 name=${1##*/}
version=$("$program" --version)
help=$("$program" --help)
{
    echo "$help"
    # A command may have a help of its own, with other options.
    for command in $(echo "$help" | sed -nE "s/^  $name ([a-z]+) .*/\1/p"); do
        own=$("$program" "$command" --help)
        [ "$own" = "$help" ] || printf '@ %s\n%s\n' "$command" "$own"
    done
} | LC_ALL=C awk -v name="$name" -v version="$version" -f "${0%/*}/man.awk"

#!/bin/sh
# The manual pages have every command and option that --help has; completion, in bash and zsh, knows flags, commands, values and names.
# Usage: ITERBENCH=... ITERPACK=... check_manual.sh SOURCE_DIR
cd "$1" || exit 2
if [ -z "$ITERBENCH" ] || [ -z "$ITERPACK" ]; then echo "skipped: no iterbench or no iterpack"; exit 77; fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/manualXXXXXXXX") || exit 2
trap 'rm -rf "$dir"' EXIT
bad=0
fault() { echo "check_manual: $*"; bad=1; }

# ---- Pages. What --help says is the reference; here it is read in another way than man.awk does: all words that look like options.
for program in "$ITERBENCH" "$ITERPACK"; do
    name=${program##*/}
    tools/manual/make_man.sh "$program" >"$dir/page" 2>"$dir/err" || fault "$name: $(cat "$dir/err")"
    sed 's/\\-/-/g; s/\\f[BR]//g' "$dir/page" >"$dir/plain"
    {
        "$program" --help
        for command in $("$program" --help | sed -nE "s/^  $name ([a-z]+) .*/\1/p"); do "$program" "$command" --help; done
    } >"$dir/help"
    for option in $(grep -oE '^ {2,6}--[a-z0-9-]+' "$dir/help" | sort -u); do
        awk -v option="$option" 'last == ".TP" && $1 == option { found = 1 } { last = $0 } END { exit !found }' "$dir/plain" ||
            fault "$name.1 does not explain $option"
    done
    # The text of --help is there word by word, whatever the line breaks.
    tr -s ' \n' '\n\n' <"$dir/plain" | sort >"$dir/words.page"
    "$program" --help | tr -s ' \n' '\n\n' | grep -E '^[a-z]{4,}$' | sort -u >"$dir/words.help"
    sort -u "$dir/words.page" | comm -13 - "$dir/words.help" >"$dir/lost"
    [ "$(grep -cvE '^(usage|exit|status)' "$dir/lost")" = 0 ] || fault "$name.1 lacks words of --help: $(tr '\n' ' ' <"$dir/lost")"
    for section in NAME SYNOPSIS COMMANDS "SEE ALSO"; do grep -qx ".SH $section" "$dir/page" || fault "$name.1 has no $section"; done
    if command -v mandoc >/dev/null; then
        mandoc -Tlint -Wwarning "$dir/page" | grep -v 'missing date' >"$dir/lint"
        [ ! -s "$dir/lint" ] || fault "$(cat "$dir/lint")"
    fi
done

# ---- Completion. gives WORD ARGUMENTS...: with the last argument being typed, WORD is offered. lacks: it is not.
mkdir "$dir/bin" "$dir/photos"
ln -s "$(realpath "$ITERBENCH")" "$dir/bin/iterbench"
ln -s "$(realpath "$ITERPACK")" "$dir/bin/iterpack"
PATH=$dir/bin:$PATH
cat >"$dir/ask.bash" <<'END'
source tools/manual/completion.bash
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_iterbench "$1"
printf '%s\n' "${COMPREPLY[@]}"
END
cat >"$dir/ask.zsh" <<'END'
compadd() { if [[ ${@[-2]} == -a ]]; then print -l -- ${(MP)@[-1]:#${words[CURRENT]}*}; fi }
_files() { print -l -- *(N) }
compset() { }
words=("$@") CURRENT=$#
source tools/manual/completion.zsh
END
shell=
gives() { word=$1; shift; $shell "$dir/ask.$shell" "$@" 2>"$dir/err" | grep -qxF -- "$word" || fault "$shell: no '$word' after: $* $(cat "$dir/err")"; }
lacks() { word=$1; shift; ! $shell "$dir/ask.$shell" "$@" 2>&1 | grep -qxF -- "$word" || fault "$shell: '$word' after: $*"; }
for shell in bash zsh; do
    if ! command -v $shell >/dev/null; then echo "note: no $shell, its completion was not tested"; continue; fi
    gives --workers iterbench --wor
    lacks --batch iterbench --wor
    gives --decode iterbench limits --dec
    lacks --decode iterbench --dec
    gives doctor iterbench doc
    gives block iterbench --shuffle bl
    lacks full iterbench --shuffle bl
    gives loader iterbench --model mlp --sweep ''
    gives random-crop iterbench list random-c
    "$ITERBENCH" list s3 | grep -q 'reads no URLs' || gives path-style iterbench list pa
    lacks path-style iterbench --data pa
    gives random-crop iterbench --chain random-c
    gives bucket iterbench --sampler b
    gives photos iterbench generate ph
    gives --data iterbench --o-direct --d
    gives README.md iterbench --html ''
    lacks README.md iterbench --batch ''
    gives --quality iterpack pack --qu
    gives --anonymous iterpack info --an
    gives verify iterpack ver
    gives raw iterpack pack --encoding r
done
if command -v bash >/dev/null; then
    shell=bash
    gives cifar10: iterbench --data ci
    lacks folder: iterbench --data ci
    gives README.md iterbench --data folder : READ
    complete=$(bash -c 'source tools/manual/completion.bash; complete -p iterpack')
    [ "$complete" = "complete -F _iterbench iterpack" ] || fault "bash: iterpack is not completed"
fi
if command -v zsh >/dev/null; then shell=zsh; gives cifar10 iterbench --data ci; fi
exit $bad

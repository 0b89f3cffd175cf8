# bash completion of iterbench and iterpack. All words come from the program itself, from --help and list, so they are those of the
# installed version. Stays within plain bash: the package bash-completion loads this file, but its functions are not needed.

# _iterbench_list SECTION...: the names that `iterbench list` has in these sections.
_iterbench_list() {
    local section
    for section; do
        "$program" list 2>/dev/null | sed -n "/^$section/,/^\$/s/^  \([a-z0-9][a-z0-9-]*\).*/\1/p"
    done
}

# _iterbench_value ROW: the words that may follow an option or a command. ROW is what --help shows for the value, e.g. keep|pad|discard.
_iterbench_value() {
    case $1 in
    SPEC) _iterbench_list formats | sed 's/$/:/' ;;
    STAGES) _iterbench_list transforms ;;
    NAME:KEY=VALUE) _iterbench_list samplers ;;
    '[NAME]') _iterbench_list formats keys transforms samplers decoders ;;
    FILE*) ;;
    *[!A-Z]*) printf '%s\n' "$1" | tr '|' '\n' | grep -v '[A-Z.]' ;;
    esac
}

_iterbench() {
    local program=$1 cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' help value='' words='' name
    COMPREPLY=()
    name=${program##*/}
    if [ "$COMP_CWORD" -gt 1 ] && [[ ${COMP_WORDS[1]} != -* ]]; then command=${COMP_WORDS[1]}; fi
    # shellcheck disable=SC2086 # no command is no argument
    help=$("$program" $command --help 2>/dev/null)
    if [[ $prev == --* ]]; then
        value=$(sed -nE "s/^ +$prev ([^ ]+)( .*)?\$/\1/p" <<<"$help" | head -n 1)
        words=$(_iterbench_value "$value")
    elif [[ $prev == : || $cur == : ]]; then # bash takes format:path apart at the colon
        cur=${cur#:} value=FILE
    elif [[ $cur == -* ]]; then
        words="$(sed -nE 's/^ {2,6}(--[a-z0-9-]+).*/\1/p' <<<"$help") --help --version"
    elif [ "$COMP_CWORD" = 1 ]; then
        words=$(sed -nE "s/^  $name ([a-z]+) .*/\1/p" <<<"$help")
    elif [ "$COMP_CWORD" = 2 ]; then
        value=$(sed -nE "s/^  $name $command ([^ ]+).*/\1/p" <<<"$help" | head -n 1)
        words=$(_iterbench_value "$value")
    fi
    if [[ $prev == --* && -z $value ]]; then # a flag: the next word may be anything
        words=$(sed -nE 's/^ {2,6}(--[a-z0-9-]+).*/\1/p' <<<"$help")
    fi
    # shellcheck disable=SC2207 # the words have no blanks
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    if [ -z "$words" ] && [[ $value =~ ^$|^FILE|^DIR|^LIST|^COMMAND|\. ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        compopt -o filenames 2>/dev/null
    elif [[ ${COMPREPLY[0]-} == *: || $value == STAGES || $value == NAME:KEY=VALUE ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _iterbench iterbench iterpack

#compdef iterbench iterpack
# zsh completion of iterbench and iterpack. All words come from the program itself, from --help and list.

# _iterbench_list SECTION...: the names that `iterbench list` has in these sections.
_iterbench_list() {
    local section
    for section; do
        $program list 2>/dev/null | sed -n "/^$section/,/^\$/s/^  \([a-z0-9][a-z0-9-]*\).*/\1/p"
    done
}

_iterbench() {
    local program=${~words[1]} cur=${words[CURRENT]} prev=${words[CURRENT - 1]} command= help value= name
    local -a found
    name=${program:t}
    if ((CURRENT > 2)) && [[ ${words[2]} != -* ]]; then command=${words[2]}; fi
    help=$($program $command --help 2>/dev/null)
    if [[ $prev == --* ]]; then
        value=$(sed -nE "s/^ +$prev ([^ ]+)( .*)?\$/\1/p" <<<$help | head -n 1)
    elif [[ $cur != -* ]] && ((CURRENT == 3)); then
        value=$(sed -nE "s/^  $name $command ([^ ]+).*/\1/p" <<<$help | head -n 1)
    fi
    if [[ $cur == -* || ( $prev == --* && -z $value ) ]]; then
        found=(${(f)"$(sed -nE 's/^ {2,6}(--[a-z0-9-]+).*/\1/p' <<<$help)"} --help --version)
        compadd -a found
        return
    fi
    if ((CURRENT == 2)); then
        found=(${(f)"$(sed -nE "s/^  $name ([a-z]+) .*/\1/p" <<<$help)"})
        compadd -a found
        return
    fi
    case $value in
    SPEC)
        if [[ $cur == *:* ]]; then
            compset -P '*:'
            _files
        else
            found=($(_iterbench_list formats))
            compadd -S : -a found
        fi ;;
    STAGES) found=($(_iterbench_list transforms)) && compadd -S '' -a found ;;
    NAME:KEY=VALUE) found=($(_iterbench_list samplers)) && compadd -S '' -a found ;;
    '[NAME]') found=($(_iterbench_list formats keys transforms samplers decoders)) && compadd -a found ;;
    '' | FILE* | DIR* | LIST* | COMMAND* | *.*) _files ;;
    *[^A-Z]*)
        found=(${(s:|:)value})
        found=(${found:#*[A-Z]*})
        compadd -a found ;;
    esac
}

_iterbench "$@"

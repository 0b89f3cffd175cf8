#!/bin/sh
# PTX beside a .cu is what that source gives, and no kernel of the library fuses a multiply with an add.
# Usage: check_ptx.sh SOURCE_DIR. Rebuilding needs the nvcc that wrote it, by NVCC or on PATH; without it, skipped (77).
cd "$1" || exit 2
bad=0
skipped=
nvcc=${NVCC:-nvcc}
here=$("$nvcc" --version 2>/dev/null | sed -n 's/^Cuda compilation tools.*, V//p')
made=$(mktemp) || exit 2
trap 'rm -f "$made"' EXIT
for source in $(find iter engine -name '*.cu' | sort); do
    ptx=${source%.cu}.ptx
    [ -f "$ptx" ] || { echo "$ptx: missing"; bad=1; continue; }
    case $ptx in iter/*)
        grep -n 'fma\.' "$ptx" && { echo "  ^ $ptx: a fused multiply-add: other bits than the host's"; bad=1; }
    esac
    wrote=$(sed -n 's/^.*Cuda compilation tools.*, V//p' "$ptx")
    # The flags of the command in the head comment; it is run in the root.
    flags=$(sed -n 's/^[ */]*nvcc \(.*-ptx.*\)$/\1/p' "$source" | head -1 | tr ' ' '\n' | grep '^-' | grep -v '^-o' | tr '\n' ' ')
    [ -n "$flags" ] || { echo "$source: its head comment has no line \"nvcc ... -ptx ...\""; bad=1; continue; }
    [ -n "$here" ] || { skipped="no nvcc; $ptx was made by $wrote"; continue; }
    [ "$here" = "$wrote" ] || { skipped="nvcc is $here; $ptx was made by $wrote"; continue; }
    # shellcheck disable=SC2086 # flags have no blanks
    "$nvcc" $flags -I. "$source" -o "$made" || { echo "$source: does not compile"; bad=1; continue; }
    cmp -s "$made" "$ptx" || { echo "$ptx: is not what this gives: nvcc $flags -I. $source -o $ptx"; bad=1; }
done
[ "$bad" = 0 ] || exit 1
[ -z "$skipped" ] || { echo "skipped: $skipped"; exit 77; }

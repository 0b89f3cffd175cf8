#!/bin/sh
# The PTX beside a .cu is what its source compiles to, and no kernel of the library fuses a multiply
# with an add.
# Usage: check_ptx.sh SOURCE_DIR. Rebuilding needs the nvcc that wrote it, by NVCC or on PATH;
# without it, skipped (77); pip has it: nvidia-cuda-nvcc, nvidia-nvvm and nvidia-cuda-crt of that
# number, all three. nvcc marks its text for the driver of its own release, and adds hints
# that older drivers do not know. Neither is needed: the text is marked for PTX 8.0, which every
# supported driver reads (CUDA 12.0: ITER_CUDA_MIN_VERSION), and ptxas checks that.
cd "$1" || exit 2
bad=0
skipped=
for_any_driver='/^[[:space:]]*\.pragma "used_bytes_mask [0-9]*";$/d; s/^\.version .*$/.version 8.0/'
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
    grep -q '^\.version 8\.0$' "$ptx" || { echo "$ptx: is not marked .version 8.0, so drivers for CUDA 12.0 would refuse it"; bad=1; }
    wrote=$(sed -n 's/^.*Cuda compilation tools.*, V//p' "$ptx")
    # The flags of the command in the head comment; it is run in the root.
    flags=$(sed -n 's/^[ */]*nvcc \(.*-ptx.*\)$/\1/p' "$source" | head -1 | tr ' ' '\n' | grep '^-' | grep -v '^-o' | tr '\n' ' ')
    [ -n "$flags" ] || { echo "$source: its head comment has no line \"nvcc ... -ptx ...\""; bad=1; continue; }
    [ -n "$here" ] || { skipped="no nvcc; $ptx was made by $wrote"; continue; }
    [ "$here" = "$wrote" ] || { skipped="nvcc is $here; $ptx was made by $wrote"; continue; }
    # shellcheck disable=SC2086 # flags have no blanks
    "$nvcc" $flags -I. "$source" -o "$made" || { echo "$source: does not compile"; bad=1; continue; }
    sed -i "$for_any_driver" "$made"
    cmp -s "$made" "$ptx" || { echo "$ptx: is not what this gives: nvcc $flags -I. $source -o $ptx; sed -i '$for_any_driver' $ptx"; bad=1; }
    ptxas=$(dirname "$(command -v "$nvcc")")/ptxas
    for sm in 80 90; do
        "$ptxas" -arch=sm_$sm "$ptx" -o "$made" || { echo "$ptx: ptxas does not take it for sm_$sm"; bad=1; }
    done
done
[ "$bad" = 0 ] || exit 1
[ -z "$skipped" ] || { echo "skipped: $skipped"; exit 77; }

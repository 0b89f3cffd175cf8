#!/bin/sh
# The project's declarations of CUDA, cuDNN, cuBLAS and NCCL against NVIDIA's headers, if those exist:
# compiles and runs each tests/fake/*_headers.c.
# Usage: check_cuda_headers.sh SOURCE_DIR; folders with headers: CUDA_INCLUDE, CUDNN_INCLUDE
# (several by ':').
cd "$1" || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
flags=
for folder in $(echo "$CUDA_INCLUDE:$CUDNN_INCLUDE" | tr : ' ') /usr/local/cuda/include /usr/local/cuda/targets/*/include; do
    [ -d "$folder" ] && flags="$flags -isystem $folder"
done
bad=0 ran=0
for source in tests/fake/*_headers.c; do
    # Headers that it includes with <>, apart from libc's, must exist.
    missing=
    for header in $(sed -n 's/^#include <\(cu[a-zA-Z0-9_]*\.h\|nccl\.h\)>.*/\1/p' "$source"); do
        # shellcheck disable=SC2086 # a list of flags
        echo "#include <$header>" | ${CC:-cc} -std=c11 $flags -fsyntax-only -x c - 2>/dev/null || missing="$missing $header"
    done
    if [ -n "$missing" ]; then
        echo "$source: skipped, there is no$missing (CUDA_INCLUDE, CUDNN_INCLUDE)"
        continue
    fi
    ran=$((ran + 1))
    # shellcheck disable=SC2086
    if ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I. $flags "$source" -o "$work/check"; then
        "$work/check" || bad=1
    else
        echo "  ^ $source"; bad=1
    fi
done
[ $bad = 0 ] && [ $ran = 0 ] && exit 77
exit $bad

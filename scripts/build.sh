#!/bin/bash
# Configures and builds a preset. Prints the progress, then what the build lacks, or the first error. All output goes to build/PRESET.log.
# Usage: build.sh [-q] PRESET [CMake options...]    -q: no progress unless stdout is a terminal
set -u -o pipefail
cd "$(dirname "$0")/.." || exit
quiet=
if [ "${1:-}" = -q ]; then quiet=1; shift; fi
preset=${1:?usage: build.sh [-q] PRESET [CMake options...]}
shift
folder=build/$preset log=build/$preset.log
mkdir -p build
unset MAKEFLAGS MFLAGS MAKELEVEL # options of the make that calls this script must not reach the build
export LC_ALL=C NINJA_STATUS='[%f/%t] '

# Ninja if it is installed, else make. A folder keeps the generator that it was configured for, as long as that is installed.
generator="Unix Makefiles"
cached=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$folder/CMakeCache.txt" 2>/dev/null)
if command -v ninja >/dev/null || command -v ninja-build >/dev/null || command -v samu >/dev/null; then generator=${cached:-Ninja}; fi
if [ -n "$cached" ] && [ "$cached" != "$generator" ]; then rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"; fi

# Reads what Ninja ([12/345]) or make ([ 12%]) prints. On a terminal it updates one line, else it prints a line at each quarter.
progress() {
    local line percent quarter=0
    while IFS= read -r line; do
        if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
            percent=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
        elif [[ $line =~ ^\[\ *([0-9]+)%\] ]]; then
            percent=${BASH_REMATCH[1]}
        else
            continue
        fi
        if [ -t 1 ]; then
            printf '\r%s: %3d %%' "$folder" "$percent"
        elif [ -z "$quiet" ] && ((percent < 100 && percent / 25 > quarter)); then
            quarter=$((percent / 25))
            printf '%s: %d %%\n' "$folder" "$percent"
        fi
    done
    if [ -t 1 ]; then printf '\r\033[K'; fi
}

# The first error and a few lines after it, up to the next step of the build.
first_error() {
    awk '/error:|^CMake Error|undefined reference|multiple definition|cannot find -l|No space left|Killed/ { found = 1 }
        found && n > 0 && /^(\[|FAILED:|make|ninja:)/ { exit }
        found { print; if (++n == 12) exit }
        { last[NR % 12] = $0 }
        END { if (!found) for (i = NR - 11; i <= NR; i++) if (i > 0) print last[i % 12] }' "$log"
    echo "$folder: the build failed; the whole log: $log"
}

if ! cmake --preset "$preset" -G "$generator" "$@" >"$log" 2>&1 ||
    ! cmake --build "$folder" -j "${JOBS:-$(nproc)}" 2>&1 | tee -a "$log" | progress; then
    first_error >&2
    exit 1
fi
[ -n "$quiet" ] || echo "$folder: built in $SECONDS s"
sed -n 's/^-- iter: without/without/p' "$log"

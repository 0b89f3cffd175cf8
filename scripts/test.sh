#!/bin/bash
# All tests, as `make test` runs them: gcc, clang, ThreadSanitizer, AddressSanitizer with UBSan, libFuzzer, and the build
# without optional parts. Goes on after a failure; prints the totals at the end. Usage: test.sh [STEP...] (default: all of them)
set -u
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(($(nproc) + 1))} # a third of a test's time is waiting
passed=0 failed=0 skipped=0
failures=()
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-second_deadlock_stack=1}

# There are 200 test programs to link, in five builds. lld takes a third of ld's time.
linker=()
! command -v ld.lld >/dev/null || linker=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld)

# step PRESET TITLE [ctest options...]: configures and builds a preset, then runs its tests
step() {
    local preset=$1 title=$2 begin=$SECONDS
    shift 2
    printf '\n== %s: %s\n' "$preset" "$title"
    local log=build/$preset.tests.log
    if ! scripts/build.sh -q "$preset" "${linker[@]}"; then
        failed=$((failed + 1)) failures+=("$preset: does not build")
        return
    fi
    local built=$SECONDS
    ctest --test-dir "build/$preset" -j "$jobs" --no-tests=error --output-on-failure \
        --output-junit junit.xml --test-output-size-passed 65536 --test-output-size-failed 65536 "$@" >"$log" 2>&1
    local code=$?
    local suite
    suite=$(grep -m 1 -A 8 '<testsuite' "build/$preset/junit.xml" 2>/dev/null | tr '\n\t' '  ')
    count() { sed -nE "s/.*[ <]$1=\"([0-9]+)\".*/\1/p" <<<"$suite"; }
    local n bad out
    n=$(count tests) bad=$(count failures) out=$(count skipped)
    n=${n:-0} bad=${bad:-0} out=${out:-0}
    if [ "$code" != 0 ] && [ "$bad" = 0 ]; then bad=1 n=$((n + 1)); fi
    if [ "$bad" != 0 ]; then
        cat "$log"
        while read -r name; do failures+=("$preset: $name"); done < <(
            sed -nE '/^The following tests FAILED/,$ s/^[[:space:]]+[0-9]+ - ([^ ]+) \(.*$/\1/p' "$log")
    fi
    # Every skip is printed with its reason; it does not count as a pass. Criterion's skips are cases within a test.
    awk -F'"' '/<testcase / { name = $2 }
        /skipped: / { sub(/.*skipped: /, ""); print "   skipped " name ": " $0 }
        /\[SKIP\]/ { sub(/.*\[SKIP\] */, ""); print "   skipped " name ": " $0 }' "build/$preset/junit.xml" | uniq
    passed=$((passed + n - bad - out)) failed=$((failed + bad)) skipped=$((skipped + out))
    echo "   $((n - bad - out)) passed, $bad failed, $out skipped ($((built - begin)) s to build, $((SECONDS - built)) s to run)"
}

# The Python tests need numpy with versioned DLPack, which Debian 12 does not have, safetensors, and a recent Pillow. They come from a venv under build/.
# mypy and jax (about 140 MB) come in a second step: without them their tests are skipped. torch is not installed: its package for Linux brings gigabytes of CUDA.
python_venv() {
    [ -z "${ITER_PYTHON:-}" ] && ls tests/python/*.py >/dev/null 2>&1 || return 0
    local python=$PWD/build/venv/bin/python
    if ! "$python" -c 'import numpy, safetensors, PIL' 2>/dev/null; then
        echo "+ python3 -m venv build/venv && build/venv/bin/pip install 'numpy>=2.1' safetensors pillow"
        { python3 -m venv build/venv && timeout 180 build/venv/bin/pip install -q --retries 1 --timeout 15 \
            --disable-pip-version-check 'numpy>=2.1' safetensors pillow; } >build/venv.log 2>&1 ||
            { tail -n 2 build/venv.log; echo "   no numpy: the Python tests will be skipped"; return 0; }
    fi
    for module in mypy jax 'moto[server,s3]'; do
        "$python" -c "import ${module%%[*}" 2>/dev/null || timeout 180 build/venv/bin/pip install -q --retries 1 --timeout 15 \
            --disable-pip-version-check "$module" >>build/venv.log 2>&1 || echo "   no $module: its tests will be skipped"
    done
    export ITER_PYTHON=$python
}

# These take minutes, and depend neither on the compiler nor on the optional parts. They run only under AddressSanitizer.
long='(unit\.test_device_(rows|faults)|backend\.backend_cuda_(trainer|ranks|layers))$'

mkdir -p build
[ $# -gt 0 ] || set -- dev clang tsan asan fuzz minimal
for name in "$@"; do
    case $name in
    dev)
        python_venv
        step dev "gcc, warnings are errors; everything, with style, layers, symbols, documents and install" -E "$long" ;;
    # check.wheel reads URLs by a libcurl that is opened at run time, too. The stress programs meet other schedules under the sanitizers.
    clang) step clang "the same, built by clang, with libcurl opened at run time" -LE '^(check|stress)$' -E "$long" ;;
    tsan) step tsan "everything with threads, under ThreadSanitizer" -L '^(stress|backend)$' \
        -E 'backend_(color|convert|image|pack|pack_program|text|cuda_trainer|cuda_layers)$' ;;
    asan) step asan "everything that runs, under AddressSanitizer and UBSan" ;;
    fuzz) step fuzz "parsers: the corpus, then a short search from a fixed seed" ;;
    # These stress programs need no optional part; the other builds run them three times.
    minimal) step minimal "optimised, static, without liburing and oneDNN" \
        -E "stress\.stress_(attack|format_cap|mix|oracle|pack|tables|tokens|watch)|check\.(style|words|docs|layers|cuda_programs|profile|report|need|build|wheel|reference|train)|$long" ;;
    *) echo "usage: test.sh [dev|clang|tsan|asan|fuzz|minimal...]" >&2; exit 2 ;;
    esac
done

echo
for failure in ${failures[@]+"${failures[@]}"}; do echo "FAILED $failure"; done
[ "$skipped" = 0 ] || echo "$skipped skipped, with their reasons in the logs under build/"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

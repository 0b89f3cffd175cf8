#!/bin/sh
# Runs the tests of the Python package, tests/python/test_*.py, with the interpreter ITER_PYTHON, which needs numpy;
# then mypy --strict over the package, if that interpreter has mypy.
# Usage: ITER_PYTHON=venv/bin/python ITER_SHARED=1 ITER_LIBRARY=... ITERBENCH=... check_python_package.sh SOURCE_DIR
cd "$1" || exit 2
if [ -z "$ITER_PYTHON" ]; then echo "skipped: ITER_PYTHON names no interpreter with numpy"; exit 77; fi
if [ "$ITER_SHARED" = 0 ]; then echo "skipped: the library is not built as a shared one"; exit 77; fi
if ! "$ITER_PYTHON" -c 'import numpy' 2>/dev/null; then echo "skipped: $ITER_PYTHON has no numpy"; exit 77; fi
LIBITER_LIBRARY=$ITER_LIBRARY PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1
export LIBITER_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE PYTHONFAULTHANDLER
failed=0
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
"$ITER_PYTHON" -m unittest discover -v -s tests/python -p 'test_*.py' >"$log" 2>&1 || failed=1
# A test that was skipped did not pass: each has a line with its reason.
sed -nE "s/^(.*) \.\.\. skipped ['\"](.*)['\"]\$/skipped: \1: \2/p" "$log"
if [ $failed = 0 ]; then tail -n 3 "$log"; else cat "$log"; fi
# Without torch, its classes are of no known type.
loose='--ignore-missing-imports --allow-subclassing-any'
if "$ITER_PYTHON" -c 'import torch' 2>/dev/null; then loose=; fi
if "$ITER_PYTHON" -c 'import mypy' 2>/dev/null; then
    # shellcheck disable=SC2086
    "$ITER_PYTHON" -m mypy --strict $loose --cache-dir="${2:-build}/mypy" python/libiter || failed=1
else
    echo "mypy: skipped, $ITER_PYTHON does not have it"
fi
exit $failed

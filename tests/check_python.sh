#!/bin/sh
# Runs tests/python/check_*.py with the interpreter ITER_PYTHON, which needs numpy. If a script
# exits with 77, it was skipped.
# Usage: ITER_PYTHON=venv/bin/python ITER_SHARED=1 ITER_LIBRARY=... ITERBENCH=... check_python.sh
# SOURCE_DIR
cd "$1" || exit 2
if [ -z "$ITER_PYTHON" ]; then echo "skipped: ITER_PYTHON names no interpreter with numpy"; exit 77; fi
set -- tests/python/check_*.py
if [ ! -e "$1" ]; then echo "skipped: no tests/python/check_*.py"; exit 77; fi
PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE
failed=0; ran=0
for script in "$@"; do
    "$ITER_PYTHON" "$script"; code=$?
    case $code in
    0) echo "$script: passed"; ran=1 ;;
    77) echo "$script: skipped" ;;
    *) echo "$script: FAILED ($code)"; failed=1 ;;
    esac
done
[ $failed = 0 ] || exit 1
[ $ran = 1 ] || exit 77

#!/bin/sh
# Sets at URLs deliver what they deliver from files, from real servers on this machine: nginx, moto's S3, and one that errs on
# purpose (tests/remote/). What is not installed is skipped.
# Usage: ITER_PYTHON=venv/bin/python ITERBENCH=... ITERPACK=... check_remote.sh SOURCE_DIR
cd "$1" || exit 2
python=${ITER_PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "skipped: no python3"; exit 77; }
[ -n "$ITERPACK" ] && [ -x "$ITERPACK" ] && [ -x "$ITERBENCH" ] || { echo "skipped: without iterbench and iterpack"; exit 77; }
ITER_SOURCE=$PWD PYTHONDONTWRITEBYTECODE=1
export ITER_SOURCE PYTHONDONTWRITEBYTECODE
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
failed=0
"$python" tests/remote/run_all.py >"$log" 2>&1 || failed=1
sed -nE "s/^(.*) \.\.\. skipped ['\"](.*)['\"]\$/skipped: \1: \2/p" "$log"
if grep -q "skipped 'this build reads no URLs'" "$log"; then exit 77; fi
if [ $failed = 0 ]; then tail -n 3 "$log"; else cat "$log"; fi
exit $failed

#!/bin/sh
# Makes one Python virtual environment with the loaders that read from S3, with the versions pinned in requirements.txt.
#
#   setup.sh [--venvs DIR]
#
# DIR is ~/.cache/iter-peers unless given; the environment is DIR/remote. About 7 GB: the torch wheel brings its CUDA
# libraries even where there is no GPU. Written for Python 3.11; another interpreter is chosen with PYTHON=python3.x.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venvs=${HOME}/.cache/iter-peers
if [ "${1:-}" = --venvs ]; then venvs=$2; fi
mkdir -p "$venvs"
[ -d "$venvs/remote" ] || "${PYTHON:-python3}" -m venv "$venvs/remote"
"$venvs/remote/bin/python" -m pip --disable-pip-version-check install --timeout 120 --retries 10 -r "$here/requirements.txt"

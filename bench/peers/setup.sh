#!/bin/sh
# Makes one Python virtual environment per family of peers, with the versions pinned in requirements/.
#
#   setup.sh [--venvs DIR] [numpy|numba|pillow|opencv|turbo|mxnet|torch|tf|grain|spdl|dali|ffcv ...]
#
# DIR is ~/.cache/iter-peers unless given; without names all of them are made, the small ones first. About 15 GB: the
# torch wheel brings its CUDA libraries even where there is no GPU. A family that cannot be installed does not stop the
# others; what pip said is in DIR/NAME.log, and the last lines say which ones failed. Written for Python 3.11; another
# interpreter is chosen with PYTHON=python3.x.
#
# ffcv is built from source: it asks for OpenCV's and libjpeg-turbo's headers, and spdl for FFmpeg 5's libraries, taken with
# apt-get where this is run as root. ffcv's own list of requirements names two packages that it does not need here, so it is installed without it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
venvs=${HOME}/.cache/iter-peers
if [ "${1:-}" = --venvs ]; then venvs=$2; shift 2; fi
families=${*:-numpy numba pillow opencv spdl grain turbo mxnet torch tf dali ffcv}
python=${PYTHON:-python3}
mkdir -p "$venvs" || exit 1

system_packages() {
    packages=$1
    # shellcheck disable=SC2086
    dpkg -s $packages >/dev/null 2>&1 && return 0
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        # shellcheck disable=SC2086
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $packages
    else
        echo "missing system packages (install them as root): $packages"
        return 1
    fi
}

install() {
    name=$1
    case $name in
    ffcv) system_packages 'libopencv-dev libturbojpeg0-dev pkg-config g++' || return 1 ;;
    spdl) system_packages 'libavdevice59 libavfilter8' || return 1 ;;
    esac
    [ -d "$venvs/$name" ] || "$python" -m venv "$venvs/$name" || return 1
    pip="$venvs/$name/bin/python -m pip --disable-pip-version-check"
    $pip install --timeout 120 --retries 10 -r "$here/requirements/$name.txt" || return 1
    [ "$name" != ffcv ] || $pip install --no-build-isolation --no-deps ffcv==1.0.2
}

failed=
for family in $families; do
    if [ ! -f "$here/requirements/$family.txt" ]; then echo "setup.sh: no such family: $family" >&2; exit 2; fi
    printf '%-8s ' "$family"
    if install "$family" >"$venvs/$family.log" 2>&1; then
        echo installed
    else
        echo "FAILED, see $venvs/$family.log:"; tail -n 3 "$venvs/$family.log"; failed="$failed $family"
    fi
done
[ -z "$failed" ] || { echo "not installed:$failed"; exit 1; }

#!/bin/bash
# Installs a wheel under every Python that is found, each in a fresh venv with what the package needs from an index; runs the package's tests
# and its programs there; prints a table. Pythons are found on PATH (python3.9, python3.13t ...) and in pyenv's folder; a t after the version
# means free-threaded. Fails if anything fails under any of them. Usage: wheel_pythons.sh WHEEL [VERSION...]    (default: all versions)
set -u
wheel=$(realpath "${1:?usage: wheel_pythons.sh WHEEL [VERSION...]}") || exit 1
shift
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- 3.9 3.10 3.11 3.12 3.13 3.13t 3.14 3.14t 3.15 3.15t
unset PYTHONPATH PYTHONHOME LIBITER_LIBRARY
export PYTHONDONTWRITEBYTECODE=1
folder=build/wheel-pythons
installer=build/wheel-tools/bin/python # its pip serves them all, so that none needs one of its own
[ -x $installer ] || { echo "wheel_pythons.sh: no build/wheel-tools: please run \`make wheel\`" >&2; exit 1; }
mkdir -p $folder

# find VERSION: prints the interpreter with its full version. A name on PATH may be another version, or a script that fails.
find() {
    local name
    for name in "$(command -v "python$1")" "$HOME/.pyenv/versions/${1%t}".*/bin/"python$1" /usr/bin/python3; do
        [ -x "$name" ] && "$name" - "$1" 2>/dev/null <<'END' && return
import sys, sysconfig
name = "%d.%d" % sys.version_info[:2] + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")
if name != sys.argv[1]:
    sys.exit(1)
print(sys.executable, sys.version.split()[0])
END
    done
    return 1
}

bad=0 ran=0
row() { printf '%-8s %-9s %-9s %-28s %-10s %s\n' "$@"; }
row Python version numpy tests iterbench iterpack
for version; do
    if ! found=$(find "$version"); then
        row "$version" - - "skipped: not found" - -
        continue
    fi
    read -r python full <<<"$found"
    venv=$folder/$version log=$folder/$version.log
    rm -rf "$venv"
    if ! { "$python" -m venv --without-pip "$venv" && timeout 300 "$installer" -m pip --python "$venv/bin/python" install -q --retries 1 \
        --timeout 15 --only-binary :all: --disable-pip-version-check "$wheel"; } >"$log" 2>&1; then
        if grep -q 'No matching distribution found for numpy' "$log"; then
            row "$version" "$full" - "skipped: pip has no numpy" - -
        else
            row "$version" "$full" - "FAILED to install: $log" - -
            bad=1
        fi
        continue
    fi
    numpy=$("$venv/bin/python" -c 'import numpy; print(numpy.__version__)' 2>>"$log") || numpy=FAILED
    if ls tests/python/test_*.py >/dev/null 2>&1; then
        "$venv/bin/python" -m unittest discover -s tests/python -p 'test_*.py' >>"$log" 2>&1
        code=$?
        tests=$(sed -nE 's/^Ran ([0-9]+) tests? in .*/\1/p' "$log" | tail -n 1)
        tests="${tests:-no} run, $(sed -nE 's/^(OK|FAILED)( .*)?$/\1\2/p' "$log" | tail -n 1)"
        [ $code = 0 ] || { tests="FAILED: $log"; bad=1; }
    else
        tests="skipped: no tests/python"
    fi
    programs=()
    for name in iterbench iterpack; do
        if said=$("$venv/bin/$name" --version 2>>"$log"); then programs+=("${said##* }"); else programs+=(FAILED) bad=1; fi
    done
    [ "$numpy" != FAILED ] || bad=1
    row "$version" "$full" "$numpy" "$tests" "${programs[@]}"
    ran=$((ran + 1))
done
[ $bad = 0 ] && [ $ran -gt 0 ]

#!/bin/bash
# Builds the site from the Markdown files and the public headers: build/docs/index.html. Doxygen makes the reference, MkDocs the rest, in a
# virtual environment under build/. Broken links and anchors fail the build. Usage: docs.sh
set -eu
cd "$(dirname "$0")/.."
site=docs/site source=build/docs-src venv=build/docs-venv
if ! $venv/bin/mkdocs --version >/dev/null 2>&1; then
    echo "+ python3 -m venv $venv && $venv/bin/pip install -r $site/requirements.txt    (log: build/docs-venv.log)"
    { python3 -m venv $venv && $venv/bin/pip install -q --disable-pip-version-check -r $site/requirements.txt; } >build/docs-venv.log 2>&1 ||
        { tail -n 3 build/docs-venv.log >&2; exit 1; }
fi
rm -rf $source
mkdir -p $source
# The files that the documents link to, in the folders that they have here.
find ./*.md docs bench/results bench/peers/README.md examples scripts iter/*.h -type f -print0 | tar --null -T - -cf - | tar -xf - -C $source
# In a table GitHub needs a backslash before a | in code; Python-Markdown would show it.
# shellcheck disable=SC2016 # no variables
find $source -name '*.md' -exec sed -Ei ':again; /^\|/s/(`[^`]*)\\\|([^`]*`)/\1|\2/; t again' {} +
echo "+ doxygen $site/Doxyfile"
ITER_VERSION=$(sed -nE 's/.*define ITER_VERSION_STRING "(.*)".*/\1/p' iter/version.h) doxygen $site/Doxyfile
[ ! -s build/doxygen.log ] || { cat build/doxygen.log >&2; exit 1; }
echo "+ mkdocs build --strict"
$venv/bin/mkdocs build -q --strict -f $site/mkdocs.yml
echo "build/docs/index.html"

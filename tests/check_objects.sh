#!/bin/sh
# Fails if object files of different folders need one another in a circle. Usage: check_objects.sh SOURCE_DIR BINARY_DIR
python3 -c '' 2>/dev/null || { echo "skipped: no python3"; exit 77; }
command -v nm >/dev/null || { echo "skipped: no nm"; exit 77; }
exec python3 "$1/tests/object_circles.py" "$2/CMakeFiles/iter_objects.dir"

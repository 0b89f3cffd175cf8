#!/bin/sh
# Prints the path of a real set: for each NAME in turn, the first of $ITER_DATA/NAME and ./data/NAME that exists. Fails if none exists.
# The training programs look in the same places (examples/train_common_data.c); docs/datasets.md states the rule.
# Usage: find_data.sh NAME...
for name; do
    for root in ${ITER_DATA:+"$ITER_DATA"} data; do
        if [ -e "$root/$name" ]; then echo "$root/$name"; exit 0; fi
    done
done
exit 1

#!/usr/bin/env python3
"""Checks every contestant's batches before anybody believes its speed. Exit 1 where one is wrong or does not run."""
import json
import re
import sys

import contestants
import field


def main():
    parser = field.parser(__doc__)
    field.add_arguments(parser)
    arguments = parser.parse_args()
    place = field.Field(arguments)
    rows = [r for r in contestants.ALL if re.search(arguments.only, "%s %s %s" % r[:3])]
    absent = place.absent(rows)
    wrong = 0
    for row in rows:
        print("%-10s %-6s %-20s " % row[:3], end="", flush=True)
        if row.family in absent:
            print("skipped:", absent[row.family])
            continue
        done = place.shell(place.contestant(row, "check"))
        try:
            result = json.loads(done.stdout)
        except ValueError:
            result = {"faults": [field.last_line(done.stderr)]}
        faults = result.pop("faults")
        print("WRONG: " + "; ".join(faults) if faults else "right", json.dumps(result), flush=True)
        wrong += bool(faults)
    print("%d of %d wrong" % (wrong, len(rows)))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())

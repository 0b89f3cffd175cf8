#!/usr/bin/env python3
"""Writes the table of a results.jsonl: `table.py DIR/results.jsonl > DIR/table.md`. run.py does so at its end."""
import json
import sys

import contestants

COLUMNS = "| peer | version | configuration | cores | peer | ours | ours / peer, 95 % interval | pairs kept (dropped) |"
RULE = "|---|---|---|--:|--:|--:|---|--:|"


def interval(ratio):
    text = "%.2f" % ratio["median"]
    if ratio.get("low") is not None and ratio.get("high") is not None:
        text += " [%.2f, %.2f]" % (ratio["low"], ratio["high"])
    return text


def head(first, workloads):
    m = first["machine"]
    trained = [contestants.trains(workload) for workload in workloads]
    peers = "trainers" if all(trained) else "loaders and trainers" if any(trained) else "loaders"
    lines = ["# libiter beside other " + peers, "",
             "%s, %s (%s), on %s, %d cores, %s GiB, %s." % (first["date"], first["iterbench"], first["git"], m["cpu"],
                                                          m["cores"], m["memory_gib"], m["kernel"]), "",
             "    " + first["command"], ""]
    if first["quick"]:
        lines += ["**A smoke run: everything was started, nothing was measured.**", ""]
    text = ("Each row is a pair of live processes that took turns on the same cores: the peer, and `iterbench serve`. Rates are "
            "medians of slices, in the unit that the workload names, the ratio is that of pairs; it says how many times faster "
            "libiter is.")
    if not all(trained):
        text += (" Of loaders: libiter has as many workers as the peer has on the side (none on one core), and both consumers "
                 "read a byte of each cache line of a batch. \"Ready-made f32\" peers convert nothing; libiter converts from "
                 "u8 in the same row.")
    if any(trained):
        text += (" Of trainers (T-): both sides have a thread a core and take whole training steps: forward, backward, update; "
                 "a loader that feeds them has no workers.")
    return lines + [text, ""]


def row_text(r):
    ratio = r["ratio"]
    return "| %s | %s | %s | %d | %s | %s | %s | %d (%d) |" % (
        r["peer"], r["version"], r["config"], r["cores"], format(round(r["peer_samples_per_s"]), ","),
        format(round(r["ours_samples_per_s"]), ","), interval(ratio), ratio["pairs"], ratio["dropped"])


def markdown(path):
    with open(path) as file:
        first, *rows = [json.loads(line) for line in file]
    latest = {(r["workload"], r["family"], r["name"]): r for r in rows}.values()
    present = {r["workload"] for r in latest}
    workloads = [workload for workload in contestants.WORKLOADS if workload.key in present]
    lines = head(first, workloads)
    for workload in workloads:
        mine = [r for r in latest if r["workload"] == workload.key]
        good = sorted((r for r in mine if "error" not in r), key=lambda r: r["ratio"]["median"])
        lines += ["## %s: %s, %s" % (workload.key, workload.title, workload.unit), "",
                  "    iterbench serve %s" % contestants.arguments(workload), ""]
        if good:
            lines += [COLUMNS, RULE] + [row_text(r) for r in good] + [""]
        failed = ["* %s, %s: %s" % (r["peer"], r["config"], r["error"]) for r in mine if "error" in r]
        lines += ["Not measured:", ""] * bool(failed) + failed + [""] * bool(failed)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown(sys.argv[1]))

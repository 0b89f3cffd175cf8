#!/usr/bin/env python3
"""Does iterbench find bottlenecks that were planted, and do its predictions hold?

    bench/studies/plants.py --iterbench build/release/bench/iterbench --data DIR --out DIR [--only REGEX] [--seed N]

Runs --times plants of each of the thirteen kinds, with strengths drawn from the seed; four healthy runs; and runs on real data with a
natural bottleneck. Each has --prove. The folder of --out gets every run's JSON, and table.md. A run is right if it names the
planted limit; if it is wrong with high confidence, it counts double. A prediction holds if expected and measured rate differ by
at most 20 %.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import time

SCALE = "scale:factor=0.00392156862745098 | to:f32,nchw"


def runs(data, seed, times):
    cifar = ["--loader", "dataloader", "--data", "cifar10:%s/cifar-10-batches-bin" % data]
    imdb = ["--loader", "dataloader", "--data", "imdb:%s/aclImdb" % data]
    mlp = ["--loader", "dataloader", "--data", "synthetic:cs224", "--model", "mlp"]
    cpu = len(os.sched_getaffinity(0))
    two_ms = cifar + ["--chain", SCALE, "--compute-ms", "2"]
    base = {
        "slow-disk": (two_ms + ["--workers", "1"], "read"),
        "slow-decode": (two_ms + ["--workers", str(cpu)], "decode"),
        "slow-transform": (two_ms + ["--workers", str(cpu)], "transform"),
        "slow-worker": (two_ms + ["--workers", "2"], "worker"),
        "few-workers": (two_ms, "workers"),
        "one-at-a-time": (two_ms + ["--workers", "2"], "turn"),
        "small-prefetch": (two_ms, "prefetch"),
        "slow-consumer": (two_ms + ["--workers", "1"], "consumer"),
        "layout": (two_ms + ["--workers", "1"], "layout"),
        "tiny-batch": (mlp + ["--workers", "1", "--threads", "1", "--batch", "64"], "batch"),
        "oversubscribed": (mlp + ["--batch", "256"], "cpu"),
        "slow-remote": (two_ms + ["--workers", "1"], "read, latency"),
        "throttled": (two_ms + ["--workers", "1"], "read, throttled"),
    }
    draw = random.Random(seed)
    for kind, (arguments, limit) in base.items():
        for turn in range(times):
            strength = round(draw.uniform(2.2, 5), 1)
            yield "%s-%d" % (kind, turn), arguments + ["--plant", "%s:%s" % (kind, strength)], (limit,), True
    healthy = {
        "healthy-mlp": (mlp + ["--batch", "256", "--workers", "1", "--threads", "1"], ("none", "consumer")),
        "healthy-emulated": (two_ms + ["--workers", "1"], ("none", "consumer")),
        "healthy-cnn": (cifar + ["--model", "cnn", "--workers", "1", "--threads", "1"], ("none", "consumer")),
        "healthy-ndarray": (["--loader", "ndarray"] + cifar[2:] + ["--chain", SCALE, "--compute-ms", "5", "--workers", "1"],
                            ("none", "consumer")),
    }
    for name, (arguments, limits) in healthy.items():
        yield name, arguments, limits, False
    real = {
        "real-cifar-inline": cifar + ["--chain", SCALE, "--compute-ms", "0.2", "--workers", "0"],
        "real-cifar-crop": cifar + ["--chain", "random-crop:size=32,pad=4 | random-flip | " + SCALE,
                                     "--compute-ms", "0.05", "--workers", "0"],
        "real-cifar-pread": cifar + ["--chain", SCALE, "--source", "pread", "--memory", "32MiB", "--compute-ms", "0.1",
                                      "--workers", "0"],
        "real-imdb": imdb + ["--source", "ring", "--memory", "64MiB", "--compute-ms", "1", "--workers", "0"],
        "real-imdb-1": imdb + ["--source", "ring", "--memory", "64MiB", "--compute-ms", "1", "--workers", "1"],
    }
    for name, arguments in real.items():
        yield name, arguments, None, False


def one_line(name, limits, result, seconds):
    verdict = result["verdict"]
    limit, sure = verdict["limit"], verdict["confidence"] == "high"
    right = None if limits is None else limit in limits or "%s, %s" % (limit, verdict["stage"]) in limits
    change = verdict["changes"][0] if verdict["changes"] else None
    predicted = seen = holds = None
    if change is not None and change["proved"] is not None:
        predicted, seen = change["gain"], change["proved"]
        holds = abs((1 + predicted) / (1 + seen) - 1) <= 0.2
    return {"name": name, "limit": limit, "asked": limits, "right": right, "sure": sure, "stage": verdict["stage"],
            "share": verdict["share"], "change": change and "%s %s -> %s" % (change["option"], change["from"], change["to"]),
            "predicted": predicted, "seen": seen, "holds": holds, "seconds": round(seconds, 1)}


def show(row):
    def percent(x):
        return "" if x is None else "%+.0f %%" % (100 * x)
    return "| %s | %s | %s | %s | %s | %s | %s | %s | %s |" % (
        row["name"], "" if row["asked"] is None else " or ".join(row["asked"]), row["limit"],
        "" if row["right"] is None else "yes" if row["right"] else "NO", "high" if row["sure"] else "low",
        row["change"] or "", percent(row["predicted"]), percent(row["seen"]),
        "" if row["holds"] is None else "yes" if row["holds"] else "no")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterbench", default="build/release/bench/iterbench")
    parser.add_argument("--data", default=os.environ.get("ITER_DATA"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", default="6")
    parser.add_argument("--times", type=int, default=2)
    a = parser.parse_args()
    os.makedirs(a.out, exist_ok=True)
    rows, failed = [], []
    for name, arguments, limits, planted in runs(a.data, a.seed, a.times):
        if not re.search(a.only, name):
            continue
        path = os.path.join(a.out, name + ".json")
        start = time.monotonic()
        done = subprocess.run([a.iterbench] + arguments + ["--prove", "--seconds", a.seconds, "--json", path],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            print("%s failed: %s" % (name, done.stderr.strip()), file=sys.stderr)
            failed.append(name)
            continue
        with open(path) as file:
            row = one_line(name, limits, json.load(file), time.monotonic() - start)
        row["planted"] = planted
        rows.append(row)
        print(show(row), "%.0f s" % row["seconds"], flush=True)
    judged = [r for r in rows if r["planted"]]
    proved = [r for r in rows if r["holds"] is not None]
    lines = ["| run | planted | found | right | confidence | first change | expected | seen | within 20 % |",
             "|---|---|---|---|---|---|--:|--:|---|"] + [show(r) for r in rows] + [
                 "", "%d of %d planted found; wrong with high confidence: %d; healthy right: %d of %d; predictions that hold: "
                 "%d of %d; longest run %.0f s." % (
                     sum(r["right"] for r in judged), len(judged), sum(not r["right"] and r["sure"] for r in rows
                                                                       if r["right"] is not None),
                     sum(bool(r["right"]) for r in rows if r["name"].startswith("healthy")),
                     sum(r["name"].startswith("healthy") for r in rows), sum(r["holds"] for r in proved), len(proved),
                     max([r["seconds"] for r in rows] or [0]))]
    if failed:
        lines.append("Runs that failed, and are in none of these counts: %s." % ", ".join(failed))
    with open(os.path.join(a.out, "table.md"), "w") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines[2 + len(rows):]).strip())


if __name__ == "__main__":
    main()

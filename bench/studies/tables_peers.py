"""A table of numbers: libiter's csv, in shuffled batches, against readers that load the whole file.

Usage: PYTHONPATH=python LIBITER_LIBRARY=build/release/libiter.so taskset -c 1 python tables_peers.py FILE ROUNDS [NAME...]

FILE is a .csv with a header, columns of floats, and a last column `label` of integers; it must fit the page cache. Each
turn is a process of its own on one core, with one thread; contestants alternate. All make f32 and i64.

    libiter    an epoch of shuffled batches of 1,024 rows, after opening and one epoch; `open` is the search for rows
    ring       the same, each row read from the page cache by io_uring or pread
    polars     read_csv, then one f32 matrix [rows, columns], which is what a batch is a part of; `frame` without it
    pyarrow    csv.read_csv without threads, then the matrix
    pandas     read_csv by its C engine, then the matrix
    mxnet      CSVIter over FILE.data, the same rows without header and label, in order
"""
import json, os, subprocess, sys, time

NAMES = ["libiter", "ring", "polars", "polars frame", "pyarrow", "pyarrow frame", "pandas"]


class Clock:
    def __init__(self):
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def rates(self, n, open_s=0.0):
        return {"rows_per_s": n / (time.perf_counter() - self.wall), "open_s": open_s,
                "rows_per_cpu_s": n / (time.process_time() - self.cpu)}


def turn(name, path):
    """Returns rates by the clock and by the processor's time, and the seconds of opening."""
    if name in ("libiter", "ring"):
        import libiter
        start = Clock()
        source = {"libiter": "memory", "ring": "ring"}[name]
        loader = libiter.Loader("csv:%s?label=label" % path, batch_size=1024, shuffle=True, seed=1, workers=0, source=source)
        opened = time.perf_counter() - start.wall
        n = sum(len(batch.data) for batch in loader)
        start = Clock()
        n = sum(len(batch.data) for batch in loader)
        return start.rates(n, opened)
    with open(path) as file:
        columns = file.readline().strip().split(",")
    frame, name = name.endswith(" frame"), name.split()[0]
    import numpy as np
    if name == "polars":
        os.environ["POLARS_MAX_THREADS"] = "1"
        import polars
        types = {c: polars.Float32 for c in columns[:-1]} | {"label": polars.Int64}
        start = Clock()
        table = polars.read_csv(path, schema=types)
        if not frame:
            table.select(columns[:-1]).to_numpy(order="c"), table["label"].to_numpy()
    elif name == "pyarrow":
        import pyarrow, pyarrow.csv
        pyarrow.set_cpu_count(1)
        types = {c: pyarrow.float32() for c in columns[:-1]} | {"label": pyarrow.int64()}
        start = Clock()
        table = pyarrow.csv.read_csv(path, pyarrow.csv.ReadOptions(use_threads=False),
                                     convert_options=pyarrow.csv.ConvertOptions(column_types=types))
        if not frame:
            np.stack([table[c].to_numpy() for c in columns[:-1]], axis=1)
    elif name == "pandas":
        import pandas
        types = {c: np.float32 for c in columns[:-1]} | {"label": np.int64}
        start = Clock()
        table = pandas.read_csv(path, dtype=types, engine="c")
        if not frame:
            np.ascontiguousarray(table[columns[:-1]].to_numpy())
    elif name == "mxnet":
        import mxnet
        loader = mxnet.io.CSVIter(data_csv=path + ".data", data_shape=(len(columns) - 1,), batch_size=1024, round_batch=False)
        start = Clock()
        n = 0
        for batch in loader:
            batch.data[0].wait_to_read()
            n += 1024 - batch.pad
        return start.rates(n)
    return start.rates(len(table))


def main():
    path, rounds, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:] or NAMES
    results = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            done = subprocess.run([sys.executable, __file__, "--turn", name, path], capture_output=True, text=True)
            if done.returncode:
                sys.exit("%s: %s" % (name, done.stderr[-500:]))
            results[name].append(json.loads(done.stdout.splitlines()[-1]))
    size = os.path.getsize(path)
    middle = lambda values: sorted(values)[len(values) // 2]
    for name, turns in results.items():
        text = "%-14s" % name
        for kind, key in ("s", "rows_per_s"), ("cpu s", "rows_per_cpu_s"):
            rates = [t[key] for t in turns]
            ratios = [ours[key] / t[key] for ours, t in zip(results[names[0]], turns)]
            text += " %5.0f k rows/%s (%.0f to %.0f), %s / it %.2f (%.2f to %.2f);" % (
                middle(rates) / 1e3, kind, min(rates) / 1e3, max(rates) / 1e3, names[0], middle(ratios), min(ratios), max(ratios))
        if turns[0]["open_s"]:
            text += " open %.2f s" % middle([t["open_s"] for t in turns])
        print(text)
    print("%d bytes, %d rounds" % (size, rounds))


if sys.argv[1] == "--turn":
    print(json.dumps(turn(sys.argv[2], sys.argv[3])))
else:
    main()

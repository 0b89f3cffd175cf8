"""csv, libsvm, jsonl, text: whole files against Python's csv and json modules, pandas, and sklearn's reader.

Usage: check_tables.py   with ITER_LIBRARY (libiter.so) in the environment; otherwise skipped (77)

Python's own modules are always compared with; pandas and sklearn if they can be imported.
"""
import csv, io, json, os, sys, tempfile

library = os.environ.get("ITER_LIBRARY", "")


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


if not library.endswith(".so") or not os.path.exists(library):
    skip("ITER_LIBRARY names no shared library")
try:
    import numpy as np
except ImportError:
    skip("no numpy")
os.environ["LIBITER_LIBRARY"] = library
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import libiter

rng = np.random.default_rng(11)
folder = tempfile.mkdtemp(prefix="tables-")
n_values = n_sets = 0


def at(name, content=None):
    path = os.path.join(folder, name)
    if content is not None:
        with open(path, "wb") as file:
            file.write(content)
    return path


def rows(spec, chain=None):
    """All rows of data and label, in order."""
    out = {}
    with libiter.Loader(spec, chain, batch_size=7, shuffle=False, workers=1) as loader:
        for batch in loader:
            for name in ("data", "label"):
                out.setdefault(name, []).append(np.array(getattr(batch, name)))
    return {name: np.concatenate(parts) for name, parts in out.items()}


def same(got, want, what):
    global n_values, n_sets
    want = np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype or got.tobytes() != want.tobytes():
        sys.exit("%s: other values, %s %s instead of %s %s" % (what, got.dtype, got.shape, want.dtype, want.shape))
    n_values += got.size
    n_sets += 1


def number_text(value, k):
    """A number as different programs write it."""
    return [repr, "%.6f".__mod__, "%g".__mod__, "%.17g".__mod__, "%e".__mod__, "%.3e".__mod__][k % 6](float(value))


# ---- csv: written by Python's module in each of its ways, read by it as truth ------------------

for k, (quoting, end, dtype) in enumerate(
    (q, e, d)
    for q in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)
    for e in ("\n", "\r\n")
    for d in ("f32", "f64")
):
    table = rng.standard_normal((203, 5)) * 10.0 ** rng.integers(-12, 12, (203, 5))
    texts = ['plain', 'a,b', 'a "b"', 'two\nlines', 'two\r\nlines', '', '"', ',', '"",\n']
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting, lineterminator=end)
    writer.writerow(["c%d" % c for c in range(5)] + ["name, or not", "y"])
    for i, row in enumerate(table):
        writer.writerow([number_text(x, i + j) for j, x in enumerate(row)] + [texts[i % len(texts)], i])
    content = text.getvalue()
    if k % 3 == 0:
        content = content[: -len(end)]  # the last row does not end
    path = at("python.csv", (b"\xef\xbb\xbf" if k % 2 else b"") + content.encode())
    read = list(csv.reader(io.StringIO(content, newline="")))[1:]
    wide = np.array([[float(x) for x in row[:5]] for row in read])
    got = rows("csv:%s?columns=1-5&label=y&dtype=%s" % (path, dtype))
    same(got["data"], wide.astype(np.float64 if dtype == "f64" else np.float32), "csv of Python, %s" % dtype)
    same(got["label"], np.array([int(row[6]) for row in read], np.int64), "labels of csv")

try:
    import pandas
except ImportError:
    print("no pandas")
else:
    frame = pandas.DataFrame({"a": rng.standard_normal(500), "b": rng.integers(-9, 9, 500), "c": rng.random(500)})
    frame.loc[::7, "a"] = np.nan
    for options in ({}, {"sep": ";"}, {"sep": "\t"}, {"na_rep": "NA"}, {"lineterminator": "\r\n"}):
        path = at("pandas.csv")
        frame.to_csv(path, index=False, **options)
        back = pandas.read_csv(path, sep=options.get("sep", ","))
        delimiter = {";": "&delimiter=semicolon", "\t": "&delimiter=tab"}.get(options.get("sep"), "")
        got = rows("csv:%s?columns=a;c&label=b&dtype=f64&missing=-3%s" % (path, delimiter))
        same(got["data"], back[["a", "c"]].fillna(-3).to_numpy(np.float64), "pandas, %s" % options)
        same(got["label"], back["b"].to_numpy(np.int64), "labels of pandas")

# ---- libsvm ------------------------------------------------------------------------------------

try:
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file
except ImportError:
    print("no sklearn")
else:
    for zero_based in (True, False):
        dense = rng.standard_normal((150, 40)) * (rng.random((150, 40)) < 0.2)
        labels = rng.integers(-3, 4, 150)
        path = at("rows.libsvm")
        dump_svmlight_file(dense, labels, path, zero_based=zero_based, comment="made by sklearn")
        matrix, y = load_svmlight_file(path, n_features=40, zero_based=zero_based)
        base = 0 if zero_based else 1
        got = rows("libsvm:%s?features=40&base=%d&dtype=f64" % (path, base))
        same(got["data"], matrix.toarray(), "libsvm")
        same(got["label"], y.astype(np.float32), "labels of libsvm")
        values, indices = [], []
        spec = "libsvm:%s?layout=csr&base=%d&dtype=f64" % (path, base)
        with libiter.Loader(spec, "pad-batch | pad-batch:field=indices", batch_size=1, shuffle=False) as loader:
            for batch in loader:
                n = int(batch.lengths("values")[0])
                values.append(np.array(batch.values)[0, :n])
                indices.append(np.array(batch.indices)[0, :n])
        same(np.concatenate(values), matrix.data, "values")
        same(np.concatenate(indices), matrix.indices.astype(np.int32), "indices")
        same(np.cumsum([0] + [len(v) for v in values]).astype(np.int32), matrix.indptr.astype(np.int32), "rows of CSR")

# ---- jsonl and text ----------------------------------------------------------------------------

letters = list("abc \"\\/\b\f\n\r\t\x00\x1f\x7f") + ["\u00e4", "\u20ac", "\U0001f600", "\u2028", "\ud7ff"]
texts = ["".join(rng.choice(letters, rng.integers(0, 30))) for _ in range(300)]
for ascii_only in (True, False):
    lines = "".join(
        json.dumps({"x": [1, {"t": "no"}], "m": [{}, {"t": t}], "n": i % 7 - 0.5}, ensure_ascii=ascii_only) + "\n"
        for i, t in enumerate(texts)
    )
    path = at("set.jsonl", lines.encode())
    spec = "jsonl:%s?text=m.1.t&label=n&label-dtype=f64" % path
    read = [json.loads(line) for line in lines.split("\n")[:-1]]
    n = 0
    with libiter.Loader(spec, "pad-batch", batch_size=1, shuffle=False) as loader:
        for i, batch in enumerate(loader):
            length = int(batch.lengths("data")[0])
            if bytes(np.array(batch.data)[0, :length]) != read[i]["m"][1]["t"].encode():
                sys.exit("jsonl: line %d: %r" % (i + 1, texts[i]))
            if batch.label[0] != read[i]["n"]:
                sys.exit("jsonl: label of line %d" % (i + 1))
            n += 1
    if n != len(read):
        sys.exit("jsonl: %d lines of %d" % (n, len(read)))
    n_sets += 1
    with libiter.Loader("text:" + path, "pad-batch", batch_size=1, shuffle=False) as loader:
        got = [bytes(np.array(b.data)[0, : int(b.lengths("data")[0])]) for b in loader]
    if got != lines.encode().split(b"\n")[:-1]:
        sys.exit("text: other lines")
    n_sets += 1
print("%d sets, %d values are the same" % (n_sets, n_values))

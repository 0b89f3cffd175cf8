"""Turns ndarrayiter-mxnet-1.9.1.json into ndarrayiter_mxnet.h, the table that test_ndarray.c reads.

Scripts: e = whole epoch, then reset; d = epoch, then two resets; x = epoch, one more next() after
the end, then reset; m = one batch, then reset; h = epoch, then hard_reset. Expected text: "0 1
2+0|3 4 5+0;..." = rows + pad, batches by '|', epochs by ';'.

Under roll_over libiter keeps what MXNet loses (d, x, m), and goes on if MXNet raises an error. For
these the expected epochs are those of one endless sequence 0, 1, ..., cut into batches, computed
here the naive way.
"""
import json, os

here = os.path.dirname(os.path.abspath(__file__))
golden = json.load(open(os.path.join(here, 'ndarrayiter-mxnet-1.9.1.json')))


def endless(n, batch, epochs):
    """Epoch e has every batch whose last row is the last one to be found within the first (e+1)n rows."""
    out, taken = [], 0
    for e in range(epochs):
        now = []
        while taken + batch <= (e + 1) * n:
            rows = list(range(taken, taken + batch))
            now.append([[r % n for r in rows], sum(r // n < e for r in rows)])
            taken += batch
        out.append(now)
    return out


def expected(row):
    script, epochs = row['script'], row['epochs']
    if row['last_batch'] != 'roll_over':
        return [[b for b in e if not isinstance(b, str)] for e in epochs]
    pure = endless(row['n'], row['batch'], 8)
    if script[0] == 'h':
        return [pure[0]] + pure[:len(script) - 1]
    if script[0] == 'm':
        return [pure[0][:1]] + pure[1:len(script)]
    if script == 'eeee' and isinstance(epochs, list):
        assert pure[:4] == epochs, row  # if MXNet loses nothing, the naive cut and MXNet agree
    return pure[:len(script)]


def text(epochs):
    return ';'.join('|'.join('%s+%d' % (' '.join(map(str, rows)), pad) for rows, pad in e) for e in epochs)


with open(os.path.join(here, 'ndarrayiter_mxnet.h'), 'w') as out:
    out.write('/* Made by make_ndarrayiter.py from ndarrayiter-mxnet-1.9.1.json; do not edit. */\n')
    out.write('/* clang-format off */\n')
    out.write('static const struct { int n, batch; const char *last_batch, *script, *expected; } mxnet_rows[] = {\n')
    for row in golden['rows']:
        out.write('    {%d, %d, "%s", "%s",\n     "%s"},\n' % (
            row['n'], row['batch'], row['last_batch'], row['script'], text(expected(row))))
    out.write('};\n/* clang-format on */\n')

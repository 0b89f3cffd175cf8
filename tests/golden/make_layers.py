#!/usr/bin/env python3
"""Writes layers.txt beside itself: PyTorch's results for small networks, in double, at 9 digits.
Needs torch and numpy.

Layers, losses and optimisers are torch's own, with three exceptions. Torch has no GRU whose reset
gate works before the product: it is the formula of Cho et al. 2014 in numpy, checked against the
same in torch's tensors, whose autograd gives the gradients. Dropout multiplies by a mask made here
from Philox as engine/net.h describes it. Adam's epsilon is divided by sqrt(1 - beta2^t) before each
step, which turns torch's form into Kingma & Ba's earlier one.

A case is lines of words; numbers follow on the next line:

    case NAME / model TEXT / optimizer TEXT / key SEED-OF-THE-MASK STEP / data DTYPE LAYOUT DIMS... /
    label DTYPE DIMS... / param NAME DIMS... / output N / loss N (1, sum over the rows) / correct N /
    gradient NAME N / input-gradient N / after STEPS NAME N / end

A language model's case also has "segments DIMS...", and its loss is summed over the labels that are
not -100. Each segment goes through torch's GRU alone, and the logits are F.linear by the
embedding's weight.
"""
import os

import numpy as np
import torch
import torch.nn.functional as F

FOLDER = os.path.dirname(os.path.abspath(__file__))
M32 = 2**32 - 1
rng = np.random.default_rng(20)
lines = []


def put(head, values):
    values = np.asarray(values)
    lines.append(head)
    text = "%d" if values.dtype.kind in "iu" else "%.9g"
    lines.append(" ".join(text % v for v in values.ravel()))


def dims(array):
    return " ".join(str(n) for n in array.shape)


def numbers(*shape, scale=1.0):
    """Normal numbers that floats represent exactly."""
    return (rng.standard_normal(shape) * scale).astype(np.float32).astype(np.float64)


# ---- What torch lacks --------------------------------------------------------------------------


def gru_before(x, wi, wr, bi, br, xp):
    """xp is numpy, or torch for gradients. x [N, T, F] to [N, T, U]."""
    sigmoid = torch.sigmoid if xp is torch else lambda a: 1 / (1 + np.exp(-a))
    units = wr.shape[1]
    h, out = xp.zeros((x.shape[0], units), dtype=xp.float64), []
    for t in range(x.shape[1]):
        a = x[:, t] @ wi.T + bi
        r = sigmoid(a[:, :units] + h @ wr[:units].T + br[:units])
        z = sigmoid(a[:, units:2 * units] + h @ wr[units:2 * units].T + br[units:2 * units])
        n = xp.tanh(a[:, 2 * units:] + (r * h) @ wr[2 * units:].T + br[2 * units:])
        h = (1 - z) * n + z * h
        out.append(h)
    return xp.stack(out, 1)


def gru_after(x, wi, wr, bi, br):
    gru = torch.nn.GRU(wi.shape[1], wr.shape[1], batch_first=True, dtype=torch.float64)
    names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    return torch.func.functional_call(gru, dict(zip(names, [wi, wr, bi, br])), (x,))[0]


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & M32, (p0 >> 32) ^ c[3] ^ k[1], p0 & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def mask(shape, p, key, step):
    """[N, ...]: 0 or 1 / (1 - p) as a float."""
    out = np.zeros(shape)
    scale = float(np.float32(1 / (1 - p)))
    for index in np.ndindex(*shape):
        row, place = index[0], index[-1]
        if len(shape) == 4:
            _, c, y, x = index
            place = (y * shape[3] + x) * ((shape[1] + 15) // 16 * 16) + c
        elif len(shape) == 3:
            place = index[1] * shape[2] + index[2]
        words = philox([place // 8, row, step & M32, step >> 32], [key & M32, key >> 32])
        u16 = words[place % 8 // 2] >> (16 * (place % 2)) & 0xFFFF
        out[index] = scale if u16 >= round(p * 65536) else 0
    return torch.tensor(out)


# ---- A case --------------------------------------------------------------------------------------


def loss_of(kind, out, label):
    """Per row, or per label of a language model."""
    if kind == "tied-softmax":
        label = torch.tensor(label).flatten()
        return F.cross_entropy(out[label != -100], label[label != -100], reduction="none")
    if kind == "softmax-cross-entropy":
        return F.cross_entropy(out, torch.tensor(label), reduction="none")
    squares = F.mse_loss(out, torch.tensor(label).reshape(out.shape), reduction="none").mean(1)
    return squares / 2 if kind == "l2" else squares


def optimizer_of(text, params):
    """torch's twin of our text, weight decay for weights alone."""
    kind, _, rest = text.partition(":")
    o = dict(part.split("=") for part in rest.split(","))
    decay = float(o.get("weight-decay", 0))
    groups = [{"params": [v for n, v in params.items() if not n.endswith("bias")], "weight_decay": decay},
              {"params": [v for n, v in params.items() if n.endswith("bias")], "weight_decay": 0.0}]
    groups = [g for g in groups if g["params"]]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=float(o["lr"]), momentum=float(o.get("momentum", 0)))
    return torch.optim.Adam(groups, lr=float(o["lr"]), betas=(float(o["beta1"]), float(o["beta2"])), eps=float(o["epsilon"]))


def case(name, model, layers, data, label, params, optimizer="sgd:lr=0.1", layout="NF", steps=1, key=None, epsilon=0.0, segments=None):
    """layers(x, p, step) gives outputs; params = {name: array}, in the engine's order; key = (mask's key, first step)."""
    first = key[1] if key else 0
    loss_kind = model.split("|")[-1].strip()
    floats = data.dtype.kind == "f"
    p = {n: torch.tensor(v, requires_grad=True) for n, v in params.items()}
    x = torch.tensor(data, requires_grad=floats)
    lines.extend(["case " + name, "model " + model, "optimizer " + optimizer, "key %d %d" % (key if key else (0, 0))])
    put("data %s %s %s" % ("f64" if floats else "i64", layout, dims(data)), data)
    put("label %s %s" % ("i64" if label.dtype.kind == "i" else "f64", dims(label)), label)
    if segments is not None:
        put("segments %s" % dims(segments), segments)
    for n, v in params.items():
        put("param %s %s" % (n, dims(v)), v)
    opt = optimizer_of(optimizer, p) if p else None
    for i in range(steps):
        out = layers(x, p, first + i)
        answers, right_labels = out, label
        if loss_kind == "tied-softmax":
            answers = F.linear(out.flatten(0, 1), p["embedding0.weight"], p["tied-softmax0.bias"])
            right_labels = label.flatten()
        rows = loss_of(loss_kind, answers, label)
        if opt:
            opt.zero_grad()
        rows.mean().backward()
        if i == 0:
            put("output %d" % out.numel(), out.detach().numpy())
            put("loss 1", [rows.sum().item()])
            right = (answers.argmax(1).numpy() == right_labels).sum() if label.dtype.kind == "i" else 0
            put("correct 1", np.array([right]))
            for n in params:
                put("gradient %s %d" % (n, p[n].numel()), p[n].grad.numpy())
            if floats:
                put("input-gradient %d" % x.numel(), x.grad.numpy())
        if opt:
            if epsilon:
                for g in opt.param_groups:
                    g["eps"] = epsilon / (1 - g["betas"][1] ** (first + i + 1)) ** 0.5
            opt.step()
    for n in params if opt else []:
        put("after %d %s %d" % (steps, n, p[n].numel()), p[n].detach().numpy())
    lines.append("end")


# ---- The cases -----------------------------------------------------------------------------------


def images():
    def conv(stride, pad):
        return lambda x, p, _: F.conv2d(x, p["conv2d0.weight"], p.get("conv2d0.bias"), stride, pad).flatten(1)

    for name, options, shape, weight, stride, pad in (
            ("conv", "4,kernel=3,pad=1", (2, 3, 5, 7), (4, 3, 3, 3), 1, 1), ("conv-stride", "3,kernel=3,stride=2,pad=1", (3, 5, 7, 9), (3, 5, 3, 3), 2, 1),
            ("conv-five", "2,kernel=5,stride=2", (1, 3, 9, 7), (2, 3, 5, 5), 2, 0), ("conv-one", "5,kernel=1,bias=0", (3, 3, 5, 5), (5, 3, 1, 1), 1, 0)):
        params = {"conv2d0.weight": numbers(*weight, scale=0.4)}
        if "bias" not in options:
            params["conv2d0.bias"] = numbers(weight[0])
        data = numbers(*shape)
        n_outputs = conv(stride, pad)(torch.tensor(data), {n: torch.tensor(v) for n, v in params.items()}, 0).shape[1]
        case(name, "conv2d:%s | flatten | mse" % options, conv(stride, pad), data, numbers(shape[0], n_outputs), params, layout="NCHW")
    for name, options, size, stride, pad, n_outputs in (("", "2", 2, 2, 0, 3 * 3 * 4), ("-overlap", "3,stride=2,pad=1", 3, 2, 1, 3 * 4 * 5)):
        for kind in ("max", "avg"):
            pool = (lambda x, p, _: F.max_pool2d(x, size, stride, pad).flatten(1)) if kind == "max" else (
                lambda x, p, _: F.avg_pool2d(x, size, stride, pad, count_include_pad=False).flatten(1))
            case(kind + "pool" + name, "%spool:%s | flatten | mse" % (kind, options), pool, numbers(2, 3, 7, 9), numbers(2, n_outputs), {}, layout="NCHW")
    case("dropout-image", "dropout:0.25 | flatten | mse", lambda x, p, step: (x * mask(x.shape, 0.25, 0x0123456789ABCDEF, step)).flatten(1), numbers(3, 5, 3, 4),
         numbers(3, 60), {}, layout="NCHW", key=(0x0123456789ABCDEF, 5 << 32 | 7))


def rows():
    def mlp(x, p, _):
        x = torch.tanh(F.linear(x, p["dense0.weight"], p["dense0.bias"]))
        x = F.relu(F.linear(x, p["dense1.weight"]))
        return F.linear(torch.sigmoid(F.linear(x, p["dense2.weight"], p["dense2.bias"])), p["dense3.weight"], p["dense3.bias"])

    params = {"dense0.weight": numbers(7, 5, scale=0.5), "dense0.bias": numbers(7, scale=0.1), "dense1.weight": numbers(6, 7, scale=0.5),
              "dense2.weight": numbers(4, 6, scale=0.5), "dense2.bias": numbers(4, scale=0.1), "dense3.weight": numbers(3, 4, scale=0.5),
              "dense3.bias": numbers(3, scale=0.1)}
    layers = "dense:7 | tanh | dense:6,bias=0 | relu | dense:4 | sigmoid | dense:3 | "
    case("rows-mse", layers + "mse", mlp, numbers(5, 5), numbers(5, 3), params)
    case("rows-l2", layers + "l2", mlp, numbers(5, 5), numbers(5, 3), params)
    case("rows-classes", layers + "softmax-cross-entropy", mlp, numbers(5, 5), rng.integers(0, 3, 5), params)
    label = rng.integers(0, 3, 5)
    for name, optimizer, epsilon in (("sgd", "sgd:lr=0.3", 0), ("sgd-momentum", "sgd:lr=0.3,momentum=0.9,weight-decay=0.01", 0),
                                     ("adam", "adam:lr=0.05,beta1=0.9,beta2=0.999,epsilon=0.001,weight-decay=0.02", 0.001)):
        case(name, layers + "softmax-cross-entropy", mlp, numbers(5, 5), label, params, optimizer, steps=3, epsilon=epsilon)
    drop = lambda x, p, step: F.linear(x * mask(x.shape, 0.5, 0xFEDCBA9876543210, step), p["dense0.weight"], p["dense0.bias"])
    case("dropout-row", "dropout:0.5 | dense:2 | mse", drop, numbers(3, 21), numbers(3, 2), {"dense0.weight": numbers(2, 21), "dense0.bias": numbers(2)},
         key=(0xFEDCBA9876543210, 3))


def sequences():
    units, features = 4, 3
    params = {"gru0.input.weight": numbers(3 * units, features, scale=0.5), "gru0.recurrent.weight": numbers(3 * units, units, scale=0.5),
              "gru0.input.bias": numbers(3 * units, scale=0.2), "gru0.recurrent.bias": numbers(3 * units, scale=0.2)}
    data = numbers(3, 5, features)
    arrays = list(params.values())
    same = gru_before(torch.tensor(data), *[torch.tensor(a) for a in arrays], torch).numpy()
    assert np.abs(gru_before(data, *arrays, np) - same).max() < 1e-14
    for reset in ("after", "before"):
        run = (lambda x, p: gru_after(x, *p.values())) if reset == "after" else (lambda x, p: gru_before(x, *p.values(), torch))
        case("gru-" + reset, "gru:4,reset=%s | flatten | mse" % reset, lambda x, p, _: run(x, p).flatten(1), data, numbers(3, 5 * units), params, layout="NTF")
        case("gru-last-" + reset, "gru:4,reset=%s | last-step | mse" % reset, lambda x, p, _: run(x, p)[:, -1], data, numbers(3, units), params, layout="NTF")
    words = {"embedding0.weight": numbers(11, 5), "dense0.weight": numbers(3, 5), "dense0.bias": numbers(3)}
    mean = lambda x, p, _: F.linear(F.embedding(x, p["embedding0.weight"]).mean(1), p["dense0.weight"], p["dense0.bias"])
    case("embedding", "embedding:11,5 | mean-steps | dense:3 | softmax-cross-entropy", mean, rng.integers(0, 9, (4, 6)), rng.integers(0, 3, 4), words,
         "sgd:lr=0.1,momentum=0.5", layout="NT", steps=2)


def language_models():
    """GRUs over segments, with torch's own GRU over each of them."""
    units, ids = 5, 13
    params = {"embedding0.weight": numbers(ids, units, scale=0.5), "gru0.input.weight": numbers(3 * units, units, scale=0.5),
              "gru0.recurrent.weight": numbers(3 * units, units, scale=0.5), "gru0.input.bias": numbers(3 * units, scale=0.2),
              "gru0.recurrent.bias": numbers(3 * units, scale=0.2), "tied-softmax0.bias": numbers(ids, scale=0.2)}
    segments = np.array([[1, 1, 1, 1, 2, 2, 2, 0], [1, 2, 2, 2, 2, 2, 3, 3], [1] * 8])
    data, label = rng.integers(0, ids, (3, 8)), rng.integers(0, ids, (3, 8))
    label[0, [2, 7]] = label[1, 0] = label[2, 5:] = -100

    def run(x, p, starts):
        rows = []
        for row, row_starts in zip(F.embedding(x, p["embedding0.weight"]), starts):
            ends = row_starts[1:] + [len(row)]
            gru = [p["gru0." + n] for n in ("input.weight", "recurrent.weight", "input.bias", "recurrent.bias")]
            rows.append(torch.cat([gru_after(row[None, a:b], *gru)[0] for a, b in zip(row_starts, ends)]))
        return torch.stack(rows)

    borders = [[0] + [t for t in range(1, 8) if row[t] != row[t - 1]] for row in segments]
    case("language-model", "embedding:13,5 | gru:5,segments=yes | tied-softmax", lambda x, p, _: run(x, p, borders), data, label, params,
         "adam:lr=0.05,beta1=0.9,beta2=0.999,epsilon=0.001", layout="NT", steps=3, epsilon=0.001, segments=segments)
    case("language-model-whole", "embedding:13,5 | gru:5 | tied-softmax", lambda x, p, _: run(x, p, [[0]] * 3), data, label, params,
         "sgd:lr=0.3,momentum=0.9,weight-decay=0.01", layout="NT", steps=2)


# Known answers of Random123.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([M32] * 4, [M32] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
images()
rows()
sequences()
language_models()
with open(os.path.join(FOLDER, "layers.txt"), "w") as out:
    out.write("\n".join(lines) + "\n")

"""Whether a peer's photos, records and resized images are what they should be. Crops are checked over charts (peer_photos):
from the colours of a delivered image follow its window, its mirroring and its chart, and so its label."""
from itertools import islice

import numpy as np

from peer_photos import (BATCH, CHART_HEIGHT, CHART_WIDTH, MEAN_255, N_CHARTS, RATIO, SCALE, SIDE, STD_255, chart_blue, contents,
                         stills)

NOISE_LEFT = 10.  # of 25 (standard deviation) that the charts' noise has: about 17 without antialias, 4 to 7 with it
N_EPOCHS = 2


def _line(values):
    """Where a colour that grows along `values` begins and ends at the borders, as shares of the chart; mirrored or not."""
    slope, start = np.polyfit(np.arange(len(values)) + .5, values / 255, 1)
    return start, start + slope * len(values)


def _window(image):
    """The window of f32 [3, 224, 224] in grey levels: left, top, width and height as shares, mirrored, blue, noise."""
    left, right = _line(image[0].mean(0))
    top, bottom = _line(image[1].mean(1))
    return min(left, right), top, abs(right - left), bottom - top, right < left, image[2].mean(), image[2].std()


def _check_windows(found, labels, faults):
    left, top, width, height, _, blue, _ = found.T
    if min(left.min(), top.min()) < -.02 or max((left + width).max(), (top + height).max()) > 1.02:
        faults.append("windows that reach out of the chart: colours are wrong")
    share, ratio = width * height, width * CHART_WIDTH / (height * CHART_HEIGHT)
    if share.min() < SCALE[0] - .02 or share.max() < .8 or not .35 < share.mean() < .6:
        faults.append("windows of %.2f to %.2f of the chart, %.2f on average" % (share.min(), share.max(), share.mean()))
    if ratio.min() < RATIO[0] - .03 or ratio.max() > RATIO[1] + .03 or np.log(ratio).std() < .1:
        faults.append("windows of %.2f to %.2f times as wide as high" % (ratio.min(), ratio.max()))
    charts = np.rint((blue - chart_blue(0)) / (chart_blue(1) - chart_blue(0))).astype(int).clip(0, N_CHARTS - 1)
    if labels is not None and (charts % 10 != labels).mean() > .02:  # a small window's noise may point to the next chart
        faults.append("labels of other images")
    if len(set(charts)) < N_CHARTS * .9:
        faults.append("%d different images" % len(set(charts)))
    return charts


def check_photos(row, contestant, n_batches):
    """Some batches of two epochs: the same images must not come in the same windows, nor in the same order."""
    faults, orders, images, labels = [], [], [], []
    shape = dtype = None
    for _ in range(N_EPOCHS):
        first = len(images)
        stream = contestant.epoch()
        for data, some, n in islice(stream, n_batches if contestant.close_early else None):
            contestant.touch(data)
            batch = contestant.to_numpy(data)
            shape, dtype = batch.shape, str(batch.dtype)
            if batch.dtype != np.float32 or batch.shape != (n, 3, SIDE, SIDE):
                return {"faults": ["shape %s of %s" % (batch.shape, batch.dtype)]}
            images += [image * np.reshape(STD_255, (3, 1, 1)) + np.reshape(MEAN_255, (3, 1, 1)) for image in batch]
            labels += [] if some is None else list(contestant.to_numpy(some).ravel())
        stream.close()
        orders.append(slice(first, len(images)))
    found = np.array([_window(image) for image in images])
    charts = _check_windows(found, np.array(labels).astype(int) if labels else None, faults)
    mirrored, windows = found[:, 4].mean(), len({tuple(np.round(w, 2)) for w in found[:, :4]}) / len(found)
    if not .4 < mirrored < .6:
        faults.append("%.2f mirrored" % mirrored)
    if windows < .98:
        faults.append("only %.2f of the windows are different" % windows)
    starts = [charts[part][:BATCH] for part in orders]
    if (starts[0] == starts[1]).mean() > .5 or (np.diff(starts[0]) == 1).mean() > .5:
        faults.append("not shuffled")
    noise = float(np.median(found[np.minimum(found[:, 2] * CHART_WIDTH, found[:, 3] * CHART_HEIGHT) > 2.5 * SIDE, 6]))
    if noise > NOISE_LEFT and row.workload == "J2":
        faults.append("%.1f of the noise is left" % noise)
    return {"faults": faults, "shape": shape, "dtype": dtype, "images": len(images), "mirrored": round(float(mirrored), 3),
            "noise": round(noise, 2), "labels": "right" if labels else "none"}


def check_records(contestant, n_batches):
    faults, truth = [], contents("photos")
    n_samples, with_labels = 0, False
    for data, labels, n in islice(contestant.epoch(), n_batches):
        contestant.touch(data)
        records = contestant.to_numpy(data)
        labels = None if labels is None else np.ravel(labels if isinstance(labels, list) else contestant.to_numpy(labels))
        for i, (content, label) in enumerate(islice(truth, n)):
            if not records[i].endswith(content) or len(records[i]) > len(content) + 24:  # a header may be left on
                faults.append("record %d is not its file" % (n_samples + i))
            if labels is not None and labels[i] != label:
                faults.append("record %d has another's label" % (n_samples + i))
        n_samples, with_labels = n_samples + n, labels is not None
    return {"faults": faults[:3], "records": n_samples, "labels": with_labels}


def _weights(n_in, n_out, support):
    """[n_out, n_in]: triangles with antialias, or areas (support .5)."""
    scale = n_in / n_out
    centres, places = (np.arange(n_out) + .5)[:, None] * scale, np.arange(n_in)[None] + .5
    if support == .5:
        weights = np.clip(np.minimum(places + .5, centres + scale / 2) - np.maximum(places - .5, centres - scale / 2), 0, 1)
    else:
        weights = np.clip(1 - np.abs(places - centres) / scale, 0, None)
    return weights / weights.sum(1, keepdims=True)


def check_stills(row, contestant, n_images=64):
    """Against the definition, in floating point."""
    faults, worst, done, images = [], 0., 0, stills()[:n_images].astype(float)
    support = .5 if "area" in row.name else 1.
    rows, columns = _weights(images.shape[1], SIDE, support), _weights(images.shape[2], SIDE, support)
    for data, _, n in contestant.epoch():
        contestant.touch(data)
        batch = contestant.to_numpy(data)
        if batch.dtype != np.uint8 or batch.shape != (n, SIDE, SIDE, 3):
            return {"faults": ["shape %s of %s" % (batch.shape, batch.dtype)]}
        for image, still in zip(batch, images[done:done + n]):
            wanted = np.einsum("yi,ijc,xj->yxc", rows, still, columns, optimize=True)
            worst = max(worst, float(np.abs(image - wanted).max()))
        done += n
        if done >= n_images:
            break
    if worst > 2:
        faults.append("%.1f grey levels off" % worst)
    return {"faults": faults, "images": done, "worst": round(worst, 2)}


def check_of_photos(row, contestant, n_batches=4):
    if row.workload == "Z1":
        return check_stills(row, contestant)
    if row.workload.startswith("R1"):
        return check_records(contestant, n_batches)
    return check_photos(row, contestant, n_batches)

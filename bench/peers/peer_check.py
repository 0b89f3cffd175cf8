"""Whether a contestant does the work that it is measured for: its batches are taken apart and looked up in the set.

Converted images are turned back into pixels, which must be whole numbers, and found in the set with their labels; of a
crop the place and the mirroring are found; rows of ids are compared. So a peer that normalises wrongly, does not shuffle,
crops from one corner only or mixes up labels is seen.
"""
from itertools import islice

import numpy as np

from contestants import OF_PHOTOS
from peer_common import MAX_LENGTH, MEAN, STD, cifar, per_channel, review_ids


def _known(rows, labels):
    """Where each row of the set is and what it is labelled with, by its bytes (some rows stand twice)."""
    known = {}
    for i, row in enumerate(rows):
        known.setdefault(row.tobytes(), []).append((i, int(labels[i])))
    return known


def _check_rows(rows, labels, known, faults, shuffled):
    """Each delivered row is one of the set, with its label, and they come in another order than the set's."""
    places = []
    for row, label in zip(rows, labels):
        found = known.get(row.tobytes())
        if not found:
            faults.append("a row that is not in the set")
            return
        if label is not None and int(label) not in [known_label for _, known_label in found]:
            faults.append("a row with another row's label")
            return
        places.append(found[0][0])
    in_order = sum(b - a == 1 for a, b in zip(places, places[1:])) > len(places) // 2
    if in_order == shuffled:
        faults.append("in order" if shuffled else "not in order")


def _check_crops(images, labels, faults):
    """The middle 24x24 pixels of an image lie in each of its 81 crops: finds every crop's image, place and side."""
    originals, truth = cifar()
    known = _known(originals[:, :, 4:28, 4:28], truth)
    places, n_mirrored = set(), 0
    for image, label in zip(images, labels):
        found = [(known[block], y, x, mirrored) for mirrored, view in enumerate((image, image[:, :, ::-1]))
                 for y in range(9) for x in range(9)
                 for block in [view[:, y:y + 24, x:x + 24].tobytes()] if block in known]
        if not found:
            faults.append("an image that is no crop of the set's")
            return {}
        if not any(int(label) == known_label for sources, *_ in found for _, known_label in sources):
            faults.append("an image with another one's label")
            return {}
        places.add(found[0][1:3])
        n_mirrored += found[0][3]
    mirrored = n_mirrored / len(images)
    if len(places) < 60 or not .4 < mirrored < .6:
        faults.append("%d places of 81, %.2f mirrored" % (len(places), mirrored))
    return {"places": len(places), "mirrored": round(mirrored, 3)}


def _check_images(workload, batches, faults, shuffled):
    data, labels = (np.concatenate(part) for part in zip(*batches))
    if data.dtype != np.float32 or data.shape[1:] != (3, 32, 32):
        faults.append("shape %s of %s" % (data.shape, data.dtype))
        return {}
    mean, std = float(data.mean()), float(data.std())
    # About an eighth of an augmented image is padding. Black there is about -1.9 and pulls the mean down.
    most_mean, least_std, most_std = (.15, .9, 1.1) if workload == "A1" else (.4, .8, 1.4)
    if abs(mean) > most_mean or not least_std < std < most_std:
        faults.append("not normalised")
    pixels = data * (per_channel(STD) * 255) + per_channel(MEAN) * 255
    off = float(np.abs(pixels - np.rint(pixels))[:, :, 4:28, 4:28].max())
    if off > 2e-3:
        faults.append("values are %g of a grey level off" % off)
    pixels = np.rint(pixels).clip(0, 255).astype(np.uint8)
    result = {"mean": round(mean, 4), "std": round(std, 4)}
    if workload == "A1":
        _check_rows(pixels, labels, _known(*cifar()), faults, shuffled)
    else:
        result.update(_check_crops(pixels, labels, faults))
    return result


def _check_ids(workload, batches, faults):
    data = np.concatenate([x for x, _ in batches])
    ids, truth = review_ids()
    if data.shape[1:] != (MAX_LENGTH,):
        faults.append("shape %s" % (data.shape,))
        return {}
    result = {"dtype": str(data.dtype)}
    data = data.astype(np.int32)
    if workload == "C":
        _check_rows(data, np.concatenate([y for _, y in batches]), _known(ids, truth), faults, True)
    else:
        result["equal"] = round(float((data == ids[:len(data)]).mean()), 5)
        if result["equal"] < .99:  # a lower() that knows ASCII alone differs in a few words
            faults.append("%.3f of the ids are right" % result["equal"])
    return result


def _check_training(contestant, n_steps=60):
    """It learns: the loss falls over some steps."""
    n_samples = sum(n for _, _, n in islice(contestant.epoch(), n_steps))
    first, last = (float(np.mean(losses)) for losses in (contestant.losses[:5], contestant.losses[-5:]))
    faults = [] if last < first else ["the loss does not fall: %.4f, then %.4f" % (first, last)]
    return {"faults": faults, "loss": [first, last], "samples": n_samples}


def check(row, contestant, n_batches=8):
    if hasattr(contestant, "losses"):
        return _check_training(contestant)
    if row.workload in OF_PHOTOS:
        from photo_check import check_of_photos
        return check_of_photos(row, contestant)
    batches, sizes = [], []
    for data, labels, n in islice(contestant.epoch(), n_batches):
        contestant.touch(data)
        batches.append((contestant.to_numpy(data), np.full(n, None) if labels is None else contestant.to_numpy(labels)))
        sizes.append(n)
    faults = []
    shape, dtype = batches[0][0].shape, str(batches[0][0].dtype)
    if any(len(x) != n or len(y) != n for (x, y), n in zip(batches, sizes)):
        faults.append("says %s samples, delivers %s" % (sizes, [len(x) for x, _ in batches]))
    if row.workload in ("A1", "A2"):
        more = _check_images(row.workload, batches, faults, not row.name.endswith("ordered"))
    else:
        more = _check_ids(row.workload, batches, faults)
    return dict({"shape": shape, "dtype": dtype, "faults": faults}, **more)

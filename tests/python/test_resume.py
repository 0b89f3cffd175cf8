"""state_dict() at many places, restored in a new process with another number of ranks."""
from __future__ import annotations

import io
import json
import os
import pickle
import random
import tempfile
import unittest

import libiter
from support import arrays, cifar_file, needs, python

SAMPLES = 240
CHILD = """
import json, pickle, sys
import libiter
from support import arrays
with open(sys.argv[1], "rb") as file:
    jobs = pickle.load(file)
out = []
for job in jobs:
    ranks = []
    for rank in range(job["ranks"]):
        loader = libiter.Loader(arrays(240), batch_size=job["batch_size"], rank=rank, ranks=job["ranks"],
                                shuffle=job["shuffle"], seed=5, workers=job["workers"])
        loader.load_state_dict(job["state"])
        ranks.append([[batch.epoch, batch.index.tolist()] for batch in loader])
        loader.close()
    out.append(ranks)
json.dump(out, sys.stdout)
"""


def options_of(job):
    return {"shuffle": job["shuffle"], "seed": 5, "workers": job["workers"]}


class Resume(unittest.TestCase):
    def test_the_rest_is_the_rest(self):
        """50 random places, saved by some ranks, restored in a new process by others: together they give the rest
        of the epoch, in order, each row once."""
        choose = random.Random(18)
        jobs, expected = [], []
        for _ in range(50):
            shuffle = choose.choice([False, "full", "once", "block"])
            ranks, batch_size = choose.choice([(1, 8), (2, 4), (2, 8), (4, 4), (3, 8), (1, 24)])
            epoch = choose.randrange(3)
            taken = choose.randrange(SAMPLES // (ranks * batch_size))
            job = {"shuffle": shuffle, "workers": choose.choice([0, 1, 2, 4])}
            states = []
            for rank in range(ranks):
                with libiter.Loader(arrays(SAMPLES), batch_size=batch_size, rank=rank, ranks=ranks, **options_of(job)) as loader:
                    loader.set_epoch(epoch)
                    for _ in range(taken):
                        next(loader)
                    states.append(loader.state_dict())
            self.assertTrue(all(state == states[0] for state in states), "the state is the same on every rank")
            with libiter.Loader(arrays(SAMPLES), batch_size=SAMPLES, **options_of(job)) as loader:
                loader.set_epoch(epoch)
                whole = next(loader).index.tolist()
            at = taken * ranks * batch_size
            divides = [(r, b) for r, b in ((1, 8), (2, 4), (4, 2), (3, 8), (2, 12), (1, 16), (8, 1)) if at % (r * b) == 0]
            job["ranks"], job["batch_size"] = choose.choice([x for x in divides if x[0] != ranks] or divides)
            job["state"], job["workers"] = states[choose.randrange(ranks)], choose.choice([0, 1, 3])
            jobs.append(job)
            expected.append((epoch, whole[at:]))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "jobs")
            with open(path, "wb") as file:
                pickle.dump(jobs, file)
            results = json.loads(python(CHILD, path, limit=300))
        for job, (epoch, rest), ranks in zip(jobs, expected, results):
            merged = [index for batches in zip(*ranks) for _, part in batches for index in part]
            if not rest:  # saved at the end of an epoch: the next one
                self.assertTrue(all(batch[0] == epoch + 1 for batches in ranks for batch in batches))
                self.assertEqual(sorted(merged), list(range(SAMPLES)))
                continue
            self.assertEqual(len({len(batches) for batches in ranks}), 1)
            self.assertEqual({batch[0] for batches in ranks for batch in batches}, {epoch})
            self.assertEqual(merged, rest)

    def test_pixels_are_the_same(self):
        """Augmented images after a resume are those of the run that was not interrupted."""
        chain = "random-crop:size=32,pad=4 | random-flip | to:f32,nchw"
        with cifar_file(64) as spec:
            with libiter.Loader(spec, chain, batch_size=8, shuffle=True, seed=3, workers=2) as loader:
                batches = [batch.data.tobytes() for _ in range(2) for batch in loader]
            with libiter.Loader(spec, chain, batch_size=8, shuffle=True, seed=3) as loader:
                for _ in zip(loader, range(3)):
                    pass
                at, state = loader.position[1] // 8, loader.state_dict()
            with libiter.Loader(spec, chain, batch_size=4, shuffle=True, seed=3, workers=1) as loader:
                loader.load_state_dict(state)
                rest = b"".join(batch.data.tobytes() for _ in range(2) for batch in loader)
            self.assertEqual(rest, b"".join(batches[at:]))

    def test_no_position_for_this_size(self):
        loader = libiter.Loader(arrays(SAMPLES), batch_size=6)
        next(loader)
        state = loader.state_dict()
        other = libiter.Loader(arrays(SAMPLES), batch_size=4)
        with self.assertRaisesRegex(libiter.InvalidArgument, "4|8"):
            other.load_state_dict(state)

    def test_other_data_is_refused(self):
        with cifar_file(64) as spec, cifar_file(65) as longer:
            with libiter.Loader(spec, "to:f32", batch_size=8, shuffle=True, seed=3) as loader:
                next(loader)
                state = loader.state_dict()
            for data, chain, options in ((longer, "to:f32", {}), (spec, "random-flip | to:f32", {}),
                                         (spec, "to:f32", {"seed": 4}), (spec, "to:f32", {"shuffle": "once"}),
                                         (spec, "to:f32", {"subset": list(range(64))[::-1]}),
                                         (spec, "to:f32", {"last_batch": "roll-over"})):  # fmt: skip
                with self.subTest(chain=chain, **options):
                    options = dict({"shuffle": True, "seed": 3}, **options)
                    with libiter.Loader(data, chain, batch_size=8, **options) as other:
                        with self.assertRaises(libiter.InvalidArgument):
                            other.load_state_dict(state)
                        self.assertEqual(other.position, (0, 0))
                        self.assertGreaterEqual(sum(1 for _ in other), 8)

    def test_json_and_pickle(self):
        loader = libiter.Loader(arrays(SAMPLES), batch_size=8)
        next(loader)
        state = loader.state_dict()
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            self.assertEqual(pickle.loads(pickle.dumps(state, protocol)), state)
        again = {"version": 1, "position": bytes.fromhex(json.loads(json.dumps(state["position"].hex())))}
        loader.load_state_dict(again)
        self.assertEqual(loader.position, (0, 8))

    @needs("torch")
    def test_torch_save(self):
        import torch

        loader = libiter.Loader(arrays(SAMPLES), batch_size=8, shuffle=True)
        for _ in range(3):
            next(loader)
        buffer = io.BytesIO()
        torch.save({"loader": loader.state_dict(), "step": 3}, buffer)
        buffer.seek(0)
        saved = torch.load(buffer, weights_only=True)
        self.assertEqual(saved["loader"], loader.state_dict())
        other = libiter.Loader(arrays(SAMPLES), batch_size=8, shuffle=True)
        other.load_state_dict(saved["loader"])
        self.assertEqual(next(other).index.tolist(), next(loader).index.tolist())


if __name__ == "__main__":
    unittest.main()

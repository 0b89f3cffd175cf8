"""libiter.torch.DataLoader against torch's own DataLoader."""

import collections
import copy
import itertools
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

from vision_sets import Image, cifar, datasets, mnist, np, photos, torch

import libiter
import PIL
import torch.utils.data as D
import torchvision.transforms as T
from libiter.torch import DataLoader
from torch.utils.data.distributed import DistributedSampler

RESIZED = 0 if int(PIL.__version__.split(".")[0]) >= 13 else 1  # older versions run the passes in another order
Pair = collections.namedtuple("Pair", "left right")


def labelled(n=100, transform=None):
    """Sample i has label i, so that labels tell the order."""
    dataset = cifar(n)
    dataset.targets = list(range(n))
    dataset.transform = transform or T.ToTensor()
    return dataset


def order(loader):
    return [label for _, labels in loader for label in labels.tolist()]


class Squares(D.Dataset):
    """A dataset that is not known."""

    def __init__(self, n=10, sample=lambda i: (torch.full((2, 3), float(i)), i * i)):
        self.n, self.sample = n, sample

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return self.sample(index)


class Case(unittest.TestCase):
    def same(self, found, wanted, bound=0.0):
        self.assertIs(type(found), type(wanted))
        if isinstance(wanted, dict):
            self.assertEqual(list(found), list(wanted))
            found, wanted = list(found.values()), list(wanted.values())
        if not isinstance(wanted, torch.Tensor):
            self.assertEqual(len(found), len(wanted))
            for one, other in zip(found, wanted):
                self.same(one, other, bound)
            return
        self.assertEqual((found.dtype, found.shape, found.stride()), (wanted.dtype, wanted.shape, wanted.stride()))
        self.assertLessEqual((found.double() - wanted.double()).abs().max().item(), bound)

    def as_torch(self, dataset, way, bound=0.0, **options):
        more = {"way": way} if way == "python" else {}
        loader, reference = DataLoader(dataset, **more, **options), D.DataLoader(dataset, **options)
        self.assertEqual(loader.way, way)
        self.assertEqual(len(loader), len(reference))
        self.same(list(loader), list(reference), bound)
        return loader


class Results(Case):
    def test_known(self):
        for options in (
            {},
            {"batch_size": 7},
            {"batch_size": 7, "drop_last": True, "num_workers": 2},
            {"batch_size": 10, "num_workers": 1, "prefetch_factor": 3, "persistent_workers": True, "pin_memory": False},
            {"batch_size": 1000},
            {"batch_size": 1000, "drop_last": True},
            {"batch_size": 8, "collate_fn": D.default_collate, "timeout": 0, "generator": torch.Generator()},
            {"batch_size": 8, "sampler": D.SequentialSampler(range(60))},
        ):
            with self.subTest(options=options):
                self.as_torch(labelled(60), "native", 6e-8, **options)
        dataset = mnist(20)
        dataset.transform = T.Compose([T.Resize(32), T.PILToTensor()])
        self.as_torch(dataset, "native", RESIZED, batch_size=6)
        self.as_torch(D.Subset(D.Subset(labelled(), range(3, 30)), [5, 1, -1, 1]), "native", 6e-8, batch_size=3)
        self.as_torch(D.TensorDataset(torch.rand(10, 3), torch.arange(10)), "native", batch_size=4)
        with tempfile.TemporaryDirectory() as folder:
            chain = T.Compose([T.Resize(40), T.CenterCrop(32), T.ToTensor()])
            self.as_torch(
                datasets.ImageFolder(photos(folder), chain), "native", RESIZED / 255 + 6e-8, batch_size=5, num_workers=2
            )

    def test_own_getitem(self):
        for sample in (
            lambda i: (torch.full((2, 3), float(i)), i * i),
            lambda i: [i / 2, bool(i % 2), np.float32(i)],
            lambda i: {"x": np.arange(3, dtype=np.int16) + i, "y": i},
            lambda i: Pair(torch.tensor(i), float(i)),
            lambda i: torch.arange(4, dtype=torch.uint8) + i,
            lambda i: i,
        ):
            for workers in (0, 2):
                with self.subTest(sample=sample(1), workers=workers):
                    loader = DataLoader(Squares(10, sample), 4, num_workers=workers, way="python")
                    self.same(list(loader), list(D.DataLoader(Squares(10, sample), 4)))

    def test_torch_runs_the_rest(self):
        class Stream(D.IterableDataset):
            def __iter__(self):
                return iter(range(7))

        plain = Squares()
        for dataset, options, reason in (
            (plain, {"batch_size": 3}, "Squares: not a dataset"),
            (plain, {"batch_sampler": [[1, 2], [3]]}, "batch_sampler is given"),
            (plain, {"batch_size": None}, "batch_size is None"),
            (labelled(), {"batch_size": 3, "collate_fn": lambda rows: rows[0][1]}, "collate_fn"),
            (Stream(), {"batch_size": 3}, "IterableDataset"),
            (Squares(3, str), {"batch_size": 2}, "Squares"),
            (labelled(), {"sampler": [3, 1, 2]}, "sampler: list with 3 of 100 samples"),
        ):
            with self.subTest(reason=reason):
                loader, reference = DataLoader(dataset, **options), D.DataLoader(dataset, **options)
                self.assertEqual(loader.way, "torch")
                self.assertIn(reason, loader.why())
                self.assertEqual(str(list(loader)), str(list(reference)))
        self.assertIn("worker_init_fn", DataLoader(labelled(), num_workers=1, worker_init_fn=print).why())
        for sampler in (
            D.WeightedRandomSampler([1.0] * 100, 50),
            D.RandomSampler(range(100), replacement=True),
            D.RandomSampler(range(100), num_samples=30),
        ):
            self.assertIn(type(sampler).__name__, DataLoader(labelled(), sampler=sampler).why())

    def test_why(self):
        dataset = labelled(50, T.Compose([T.Resize(40), T.RandomRotation(5), T.ToTensor()]))
        self.assertIn("stage 2, RandomRotation: is not known", DataLoader(dataset).why())
        dataset.transform = T.Compose([T.RandomHorizontalFlip(), T.ToTensor()])
        why = DataLoader(dataset, shuffle=True, num_workers=2).why()
        for text in (
            "native: CIFAR10 as arrays in memory, 50 samples, in 2 C threads",
            "every epoch",
            "random-flip",
            "near",
        ):
            self.assertIn(text, why)
        self.assertIn("python:", DataLoader(dataset, way="python").why())

    def test_why_names_what_has_no_effect(self):
        loader = DataLoader(Squares(), 4, on_error="blank", seed=7)
        self.assertIn("without effect: on_error, seed", loader.why())
        self.assertNotIn("without effect", DataLoader(Squares(), 4).why())

    def test_arguments(self):
        with self.assertRaisesRegex(TypeError, "no option is called shufle"):
            DataLoader(labelled(), shufle=True)
        with self.assertRaisesRegex(ValueError, "expected one of auto"):
            DataLoader(labelled(), way="fast")
        with self.assertRaisesRegex(libiter.Unsupported, "Squares"):
            DataLoader(Squares(), way="native")
        for wrong in ({"shuffle": True, "sampler": [1]}, {"num_workers": -1}, {"batch_size": 0}):
            with self.assertRaises(ValueError) as of_torch:
                D.DataLoader(labelled(), **wrong)
            with self.assertRaises(ValueError) as ours:
                DataLoader(labelled(), **wrong)
            self.assertEqual(str(ours.exception), str(of_torch.exception))
        self.assertIsInstance(DataLoader(labelled()), D.DataLoader)
        self.assertEqual(next(iter(DataLoader(labelled(), 5, workers=2, prefetch=3)))[1].tolist(), [0, 1, 2, 3, 4])


class Orders(Case):
    def test_each_epoch_is_another_permutation(self):
        loader = DataLoader(labelled(), 7, shuffle=True, num_workers=2)
        epochs = [order(loader) for _ in range(3)]
        for epoch in epochs:
            self.assertEqual(sorted(epoch), list(range(100)))
        self.assertEqual(len(set(map(tuple, epochs))), 3)

    def test_manual_seed_repeats(self):
        loader = DataLoader(labelled(), 7, shuffle=True)
        torch.manual_seed(4)
        first = [order(loader), order(loader)]
        torch.manual_seed(4)
        self.assertEqual([order(loader), order(DataLoader(labelled(), 9, shuffle=True, num_workers=2))], first)

    def test_generator_repeats(self):
        def epochs(seed):
            torch.manual_seed(0)
            return [
                order(loader)
                for loader in [DataLoader(labelled(), 7, shuffle=True, generator=torch.Generator().manual_seed(seed))]
                * 2
            ]

        self.assertEqual(epochs(1), epochs(1))
        self.assertNotEqual(epochs(1), epochs(2))
        before = torch.get_rng_state()
        epochs(3)
        torch.manual_seed(0)
        after = torch.get_rng_state()
        epochs(3)  # seeds it, and draws nothing from it
        self.assertTrue(torch.equal(after, torch.get_rng_state()))
        torch.set_rng_state(before)

    def test_seed_repeats(self):
        chain = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor()])
        runs = []
        for workers in (0, 1, 3):
            loader = DataLoader(labelled(40, chain), 7, shuffle=True, num_workers=workers, seed=9)
            runs.append([[images.clone() for images, _ in loader] for _ in range(2)])
            self.assertFalse(torch.equal(torch.cat(runs[-1][0]), torch.cat(runs[-1][1])))
        for run in runs[1:]:
            self.same(run, runs[0])

    def test_augmentation_differs_between_epochs_and_loaders(self):
        chain = T.Compose([T.RandomCrop(32, padding=4), T.ToTensor()])
        left, right = DataLoader(labelled(40, chain), 40), DataLoader(labelled(40, chain), 40)
        images = [next(iter(loader))[0].clone() for loader in (left, left, right)]
        for a, b in itertools.combinations(images, 2):
            self.assertFalse(torch.equal(a, b))

    def test_subset_sampler(self):
        loader = DataLoader(D.Subset(labelled(), range(50, 100)), 4, sampler=D.SubsetRandomSampler([3, 5, 7, 8, 1]))
        self.assertEqual((loader.way, len(loader)), ("native", 2))
        self.assertEqual(sorted(order(loader)), [51, 53, 55, 57, 58])
        self.assertNotEqual(
            *[order(DataLoader(labelled(), 9, sampler=D.SubsetRandomSampler(range(90)))) for _ in range(2)]
        )


class Ranks(Case):
    def test_each_rank_has_its_share(self):
        for n, ranks, size, drop_sampler, drop_last in itertools.product(
            (96, 97, 101), (2, 3, 4), (1, 8, 40), (False, True), (False, True)
        ):
            with self.subTest(n=n, ranks=ranks, size=size, drop_sampler=drop_sampler, drop_last=drop_last):
                shares = []
                for rank in range(ranks):
                    sampler = DistributedSampler(range(n), ranks, rank, True, 3, drop_sampler)
                    loader = DataLoader(labelled(n), size, sampler=sampler, drop_last=drop_last)
                    reference = D.DataLoader(range(n), size, sampler=sampler, drop_last=drop_last)
                    self.assertEqual(loader.way, "native")
                    batches = [labels.tolist() for _, labels in loader]
                    self.assertEqual([len(b) for b in batches], [len(b) for b in reference])
                    self.assertEqual(len(loader), len(batches))
                    shares.append([i for batch in batches for i in batch])
                everything = [i for share in shares for i in share]
                if drop_sampler:
                    self.assertEqual(len(set(everything)), len(everything))
                elif not drop_last:
                    self.assertEqual(set(everything), set(range(n)))
                    self.assertEqual(len(everything), -(-n // ranks) * ranks)

    def test_epochs(self):
        sampler = DistributedSampler(range(100), 2, 0, seed=3)
        loader = DataLoader(labelled(), 10, sampler=sampler)
        sampler.set_epoch(5)
        five = order(loader)
        sampler.set_epoch(6)
        six = order(loader)
        sampler.set_epoch(5)
        self.assertEqual(order(loader), five)
        self.assertNotEqual(five, six)
        self.assertNotEqual(order(loader), five)  # torch would repeat it

    def test_option_ranks(self):
        for way in ("native", "torch"):
            loaders = [DataLoader(labelled(), 10, shuffle=True, rank=rank, ranks=2, seed=1, way=way) for rank in (0, 1)]
            first = [order(loader) for loader in loaders]
            self.assertEqual(sorted(first[0] + first[1]), list(range(100)))
            self.assertNotEqual(order(loaders[0]), first[0])


class Holding(Case):
    def test_batches_can_be_kept(self):
        dataset = labelled(60)
        for options in ({}, {"copy": True}, {"max_held": 6}, {"num_workers": 2}):
            loader = DataLoader(dataset, 4, **options)
            kept = list(loader)
            then = [[x.clone() for x in batch] for batch in kept]
            for _ in range(3):
                for batch in loader:  # noqa: B007
                    pass
            self.same(kept, then)
            self.same(kept, list(D.DataLoader(dataset, 4)), 6e-8)

    def test_no_copies(self):
        loader = DataLoader(labelled(60), 4, copy=False)
        self.assertEqual(sum(1 for _ in loader), 15)
        with self.assertRaisesRegex(libiter.WrongState, "max_held"):
            list(loader)

    def test_views_are_handed_out(self):
        places = set()
        for images, _ in DataLoader(labelled(60), 4):
            places.add(images.data_ptr())
        self.assertLessEqual(len(places), 5)

    def test_several_iterators(self):
        loader = DataLoader(labelled(), 10)
        pairs = list(zip(loader, loader))
        self.assertEqual(len(pairs), 10)
        for (_, left), (_, right) in pairs:
            self.assertEqual(left.tolist(), right.tolist())
        for _ in range(5):
            self.assertEqual(next(iter(loader))[1].tolist(), list(range(10)))
        iterator = iter(loader)
        self.assertEqual(len(iterator), 10)
        next(iterator)
        self.assertEqual(order(loader), list(range(100)))
        self.assertEqual(order(iterator), list(range(10, 100)))
        with self.assertRaises(StopIteration):
            next(iterator)

    def test_pickle(self):
        dataset = labelled()
        dataset.data = dataset.data.copy()
        loader = DataLoader(dataset, 10, num_workers=1, drop_last=True)
        iterator = iter(loader)
        next(iterator)
        self.assertEqual(order(pickle.loads(pickle.dumps(loader))), list(range(100)))

    def test_threads_stay(self):
        for loader in (
            DataLoader(labelled(), 10, shuffle=True),
            DataLoader(labelled(), 10, sampler=D.SubsetRandomSampler(list(range(50)))),
            DataLoader(labelled(99), 10, sampler=DistributedSampler(range(99), 2, 0)),
        ):
            self.assertEqual(loader.way, "native")
            order(loader)
            first = loader._native
            order(loader)
            self.assertIs(loader._native, first)

    def test_close(self):
        loader = DataLoader(labelled(), 10, num_workers=1)
        order(loader)
        loader.close()
        self.assertEqual(order(loader), list(range(100)))


class Changes(Case):
    def test_edits_between_epochs(self):
        dataset = labelled(20)
        loader = DataLoader(dataset, 20)
        before = next(iter(loader))[0].clone()
        dataset.data[0] = 255 - dataset.data[0]  # in place: seen because the array is borrowed
        self.same(next(iter(loader))[0][1:], before[1:])
        self.same(next(iter(loader)), next(iter(D.DataLoader(dataset, 20))), 6e-8)
        dataset.targets[3] = 1000
        dataset.transform = T.Compose([T.CenterCrop(20), T.ToTensor()])
        self.same(next(iter(loader)), next(iter(D.DataLoader(dataset, 20))), 6e-8)
        self.assertEqual(loader.way, "native")
        dataset.transform = lambda image: torch.tensor(np.array(image))[:2]
        self.same(next(iter(loader)), next(iter(D.DataLoader(dataset, 20))))
        self.assertEqual(loader.way, "torch")
        dataset.transform = T.ToTensor()
        self.same(next(iter(loader)), next(iter(D.DataLoader(dataset, 20))), 6e-8)
        self.assertEqual(loader.way, "native")

    def test_what_our_decoders_refuse(self):
        with tempfile.TemporaryDirectory() as folder:
            dataset = datasets.ImageFolder(photos(folder), T.Compose([T.Resize(40), T.CenterCrop(32), T.ToTensor()]))
            Image.new("RGB", (50, 60), (9, 8, 7)).save(dataset.samples[5][0], "bmp")  # Pillow looks into it
            self.as_torch(dataset, "native", RESIZED / 255 + 6e-8, batch_size=4)
            small, _ = dataset.samples[7]
            Image.new("RGB", (9, 12), (1, 200, 3)).save(small, "png")
            dataset.transform = T.Compose([T.CenterCrop(32), T.ToTensor()])  # a border around the small one
            self.as_torch(dataset, "native", 6e-8, batch_size=4)
            with open(small, "wb") as file:
                file.write(b"no picture")
            loader = DataLoader(dataset, 4, num_workers=2)
            with self.assertRaises(Exception) as wanted:
                list(D.DataLoader(dataset, 4))
            with self.assertRaises(type(wanted.exception)):
                list(loader)
            with self.assertRaisesRegex(libiter.Error, "sample 5"):
                list(DataLoader(dataset, 4, on_error="fail"))
            self.assertEqual(list(DataLoader(dataset, 4, on_error="blank"))[1][0][3].abs().max(), 0)

    def test_exceptions_of_getitem(self):
        def sample(i):
            if i == 7:
                raise KeyError("seven")
            return torch.zeros(3 if i < 9 else 4), i

        for workers in (0, 2):
            loader = DataLoader(Squares(10, sample), 3, way="python", num_workers=workers)
            with self.assertRaisesRegex(KeyError, "seven"):
                list(loader)
        with self.assertRaisesRegex(Exception, "expected shape"):
            list(DataLoader(D.Subset(Squares(10, sample), [1, 9]), 2, way="python"))
        state = torch.get_rng_state()
        DataLoader(Squares(3, lambda i: torch.rand(2)), way="python")
        self.assertTrue(torch.equal(state, torch.get_rng_state()))


class Positions(Case):
    def test_resume(self):
        chain = T.Compose([T.RandomCrop(32, padding=4), T.ToTensor()])
        noisy = Squares(40, lambda i: (torch.full((2,), float(i)), i))
        for way, dataset, options in (
            ("native", labelled(40, chain), {"num_workers": 2}),
            ("native", labelled(40, chain), {"seed": 5}),
            ("native", D.Subset(labelled(90, chain), range(20, 60)), {"generator": 1}),
            ("python", noisy, {}),
            ("torch", noisy, {}),
            ("torch", noisy, {"generator": 1}),
        ):

            def make(**other):
                more = {**options, **other}
                if "generator" in more:
                    more["generator"] = torch.Generator().manual_seed(more["generator"])
                return DataLoader(dataset, 6, shuffle=True, way=way, **more)

            for at in (0, 1, 3, 6, 7):
                with self.subTest(way=way, options=options, at=at):
                    loader = make()
                    order(loader)
                    iterator = iter(loader)
                    for _ in range(at):
                        next(iterator)
                    state = copy.deepcopy(loader.state_dict())
                    rest = [[x.clone() for x in batch] for batch in iterator]
                    if at == 7:
                        self.assertEqual(rest, [])
                    resumed = make(**({"generator": 2} if "generator" in options else {}))
                    resumed.load_state_dict(state)
                    self.assertEqual(resumed.state_dict()["batches"], at)
                    found = [[x.clone() for x in batch] for batch in resumed]
                    if at < 7:
                        self.same(found, rest)
                    else:  # all batches were taken, so the next epoch comes
                        self.assertEqual(len(found), 7)
                    if "seed" in options or "generator" in options:
                        following = (
                            [order(resumed)] if at < 7 else [[i for _, labels in found for i in labels.tolist()]]
                        )
                        self.assertEqual(following, [order(loader)])

    def test_after_an_epoch(self):
        loader = DataLoader(labelled(40), 6, shuffle=True, seed=2)
        order(loader)
        state = loader.state_dict()
        second = order(loader)
        resumed = DataLoader(labelled(40), 6, shuffle=True, seed=2)
        resumed.load_state_dict(state)
        self.assertEqual(order(resumed), second)

    def test_after_a_break(self):
        loader = DataLoader(labelled(40), 10)
        for _ in loader:
            break
        resumed = DataLoader(labelled(40), 10)
        resumed.load_state_dict(loader.state_dict())
        self.assertEqual(order(resumed), list(range(10, 40)))
        self.assertEqual(order(resumed), list(range(40)))

    def test_wrong_states(self):
        loader = DataLoader(labelled(40), 10)
        with self.assertRaises(libiter.Malformed):
            loader.load_state_dict({"version": 1})
        next(iter(loader))
        other = DataLoader(Squares(40), 10)
        other.load_state_dict(loader.state_dict())
        with self.assertRaisesRegex(libiter.InvalidArgument, "saved by way native"):
            iter(other)


class Example(unittest.TestCase):
    def test_training_loop(self):
        example = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python", "torch_cifar.py")
        python = os.path.dirname(os.path.dirname(libiter.__file__))
        for loader in ("libiter", "torch"):
            run = subprocess.run(
                [sys.executable, "-W", "ignore", example, "--loader", loader, "--samples", "1024", "--epochs", "2"],
                env={**os.environ, "PYTHONPATH": python, "ITER_DATA": ""},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                universal_newlines=True,
            )
            self.assertEqual(run.returncode, 0, run.stdout)
            self.assertIn("the images are generated", run.stdout)
            self.assertEqual("native: Subset" in run.stdout, loader == "libiter")
            losses = [float(line.split()[3].rstrip(",")) for line in run.stdout.splitlines() if "loss" in line]
            self.assertLess(losses[1], losses[0])


if __name__ == "__main__":
    unittest.main()

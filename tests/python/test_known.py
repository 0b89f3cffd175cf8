"""Pixels of recognised transforms against torchvision itself, and what is not recognised.

Random stages: the draws are made again here from their definition (philox.py), and torchvision's own
functions are applied with them. That the draws have torchvision's distribution is tested apart."""

import math
import os
import tempfile
import unittest

from vision_sets import Image, ROOT, cifar, datasets, mnist, np, photo, photos, torch, torchvision

import libiter
import PIL
import torchvision.transforms as T
import torchvision.transforms.functional as F
import torchvision.transforms.v2 as V
from libiter._known import NotKnown, recognise
from philox import Draws
from torch.utils.data import Subset, TensorDataset, default_collate
from torchvision.transforms import InterpolationMode as Mode

STD = (0.247, 0.2435, 0.2616)
NORMAL = 1.2e-7 / min(STD)
LEVEL = 1 / 255
RESIZED = 0 if int(PIL.__version__.split(".")[0]) >= 13 else 1  # older versions run the passes in another order


def norm(module):
    return module.Normalize((0.4914, 0.4822, 0.4465), STD)


def to_float():
    return V.ToDtype(torch.float32, scale=True)


def loader_of(known, **options):
    if known.arrays is None:
        with tempfile.NamedTemporaryFile(suffix=".lst") as file:
            file.write(known.list_text())
            file.flush()
            return libiter.Loader('folder:"%s"' % file.name, known.chain, output="torch", copy=True, **options)
    layout = {name: text for name, (_, text) in known.arrays.items() if text}
    arrays = {name: array for name, (array, _) in known.arrays.items()}
    return libiter.Loader(arrays, known.chain or None, output="torch", copy=True, layout=layout, **options)


def ours(dataset, transform, **options):
    dataset.transform = transform
    batches = list(loader_of(recognise(dataset), batch_size=64, **options))
    return [torch.cat(field) for field in zip(*batches)]


def theirs(dataset, transform):
    dataset.transform = transform
    return default_collate([dataset[i] for i in range(len(dataset))])


class Case(unittest.TestCase):
    def compare(self, dataset, transform, bound):
        found, wanted = ours(dataset, transform), theirs(dataset, transform)
        self.assertEqual([x.dtype for x in found], [x.dtype for x in wanted])
        self.assertEqual([x.shape for x in found], [x.shape for x in wanted])
        self.assertTrue(torch.equal(found[1], wanted[1]))
        self.assertLessEqual((found[0].double() - wanted[0].double()).abs().max().item(), bound)


class Pixels(Case):
    def test_cifar(self):
        byte, exact, one = 6e-8, 0, LEVEL + 6e-8
        for bound, transform in [
            (byte, T.ToTensor()),
            (exact, T.PILToTensor()),
            (exact, V.Compose([V.ToImage(), V.ToPureTensor()])),
            (exact, V.Compose([V.ToImage(), to_float()])),
            (byte, T.Compose([T.PILToTensor(), T.ConvertImageDtype(torch.float32)])),
            (NORMAL, T.Compose([T.ToTensor(), norm(T)])),
            (NORMAL, V.Compose([V.ToImage(), to_float(), norm(V)])),
            (RESIZED, T.Compose([T.Resize(40), T.PILToTensor()])),
            (RESIZED, T.Compose([T.Resize((20, 50)), T.PILToTensor()])),
            (RESIZED, V.Compose([V.Resize([13, 32], interpolation="bicubic"), V.PILToTensor()])),
            (RESIZED, T.Compose([T.Resize((70, 20), Mode.BICUBIC), T.PILToTensor()])),
            (1, T.Compose([T.PILToTensor(), T.Resize((20, 50), antialias=True)])),
            (1, V.Compose([V.ToImage(), V.Resize(20, antialias=True), V.ToPureTensor()])),
            (exact, V.Compose([V.ToImage(), V.Resize((11, 48), Mode.NEAREST_EXACT)])),
            (one / min(STD) + NORMAL, V.Compose([V.ToImage(), V.Resize(48), to_float(), norm(V)])),
            (exact, T.Compose([T.CenterCrop(21), T.PILToTensor()])),
            (exact, T.Compose([T.CenterCrop((45, 20)), T.PILToTensor()])),
            (exact, V.Compose([V.ToImage(), V.CenterCrop([40, 41])])),
            (exact, T.Compose([T.Pad((1, 2, 3, 4), fill=7), T.PILToTensor()])),
            (exact, T.Compose([T.Pad((3, 5), padding_mode="reflect"), T.PILToTensor()])),
            (exact, V.Compose([V.ToImage(), V.Pad([3, 5], padding_mode="edge")])),
            (byte, T.Compose([T.ToTensor(), T.Pad(3, fill=0.25)])),
            (NORMAL, T.Compose([T.ToTensor(), T.Pad(3), norm(T), T.CenterCrop(31)])),
            (NORMAL, T.Compose([T.ToTensor(), norm(T), T.Pad((2, 1), fill=-1.5)])),
            (exact, T.Compose([T.Grayscale(3), T.PILToTensor()])),
            (
                exact,
                T.Compose([T.RandomHorizontalFlip(1.0), V.RandomVerticalFlip(1), T.RandomCrop(32), T.PILToTensor()]),
            ),
            (
                NORMAL,
                V.Compose([V.ToImage(), to_float(), V.RandomHorizontalFlip(1), V.RandomHorizontalFlip(0), norm(V)]),
            ),
            (
                RESIZED * LEVEL / min(STD) + NORMAL,
                T.Compose([T.Compose([T.Resize(8), torch.nn.Sequential(V.ToImage(), to_float())]), norm(T)]),
            ),
        ]:
            with self.subTest(transform=str(transform)):
                self.compare(cifar(), transform, bound)

    def test_mnist(self):
        for bound, transform in [
            (6e-8, T.ToTensor()),
            (1.2e-7 / 0.3081, T.Compose([T.ToTensor(), T.Normalize((0.1307,), (0.3081,))])),
            (RESIZED, T.Compose([T.Resize(32), V.PILToTensor()])),
            (0, T.Compose([T.Pad(2), T.Grayscale(1), T.CenterCrop(29), T.PILToTensor()])),
            (1, V.Compose([V.ToImage(), V.Resize(20)])),
        ]:
            for kind in (datasets.MNIST, datasets.FashionMNIST):
                with self.subTest(transform=str(transform), kind=kind.__name__):
                    self.compare(mnist(kind=kind), transform, bound)

    def test_photos_of_every_kind_are_pillows(self):
        with tempfile.TemporaryDirectory() as folder:
            draw, kind = np.random.default_rng(3), os.path.join(folder, "kind")
            os.mkdir(kind)
            base = photo(draw, 80, 96)
            alpha = base.convert("RGBA")
            alpha.putalpha(Image.fromarray(draw.integers(0, 256, (80, 96), dtype=np.uint8)))
            turned = Image.Exif()
            turned[0x112] = 6
            for name, image, more in [
                ("plain.jpg", base, {}),
                ("progressive.jpg", base, {"progressive": True}),
                ("444.jpg", base, {"subsampling": 0}),
                ("422.jpg", base, {"subsampling": 1}),
                ("gray.jpg", base.convert("L"), {}),
                ("cmyk.jpg", base.convert("CMYK"), {}),
                ("exif.jpg", base, {"exif": turned}),
                ("rgb.png", base, {}),
                ("gray.png", base.convert("L"), {}),
                ("bits.png", base.convert("1"), {}),
                ("alpha.png", alpha, {}),
                ("la.png", base.convert("LA"), {}),
                ("palette.png", base.quantize(40), {}),
                ("clear.png", base.quantize(40), {"transparency": 3}),
                ("lossy.webp", base, {}),
                ("lossless.webp", alpha, {"lossless": True}),
            ]:
                image.save(os.path.join(kind, name), **more)
            self.compare(datasets.ImageFolder(folder), T.Compose([T.CenterCrop((70, 61)), T.PILToTensor()]), 0)

    def test_folder_has_torchvisions_order(self):
        with tempfile.TemporaryDirectory() as folder:
            dataset = datasets.ImageFolder(photos(folder))
            self.assertEqual(dataset.classes, [".dots", "Ant", "zebra"])
            for bound, transform in [
                (RESIZED, T.Compose([T.Resize(48), T.CenterCrop(40), T.PILToTensor()])),
                (RESIZED, T.Compose([T.Resize((50, 31), Mode.BICUBIC), T.PILToTensor()])),
                (1, V.Compose([V.ToImage(), V.Resize(48, antialias=True), V.CenterCrop(48)])),
                (
                    RESIZED * LEVEL / min(STD) + NORMAL,
                    T.Compose([T.Resize(33), T.CenterCrop(32), T.ToTensor(), norm(T)]),
                ),
            ]:
                with self.subTest(transform=str(transform)):
                    self.compare(dataset, transform, bound)
            dataset.samples = dataset.samples[::-2]
            self.compare(dataset, transform, bound)

    @unittest.skipUnless(os.path.isdir(os.path.join(ROOT, "clothing", "test")), "ITER_DATA has no clothing")
    def test_real_photos(self):
        dataset = datasets.ImageFolder(os.path.join(ROOT, "clothing", "test"))
        dataset.samples = dataset.samples[::12]
        self.compare(dataset, T.Compose([T.Resize(256), T.CenterCrop(224), T.PILToTensor()]), RESIZED)
        self.compare(dataset, V.Compose([V.ToImage(), V.Resize(256), V.CenterCrop(224)]), 1)


def uniform(draws):
    return np.float32(draws.u32() >> 8) / np.float32(2**24)


SEED = 5


def crop_of(image, i, size, padding, **pad):
    image = F.pad(image, padding, **pad)
    draws = Draws(SEED, "random-crop", i)
    y, x = draws.below(image.height - size[0] + 1), draws.below(image.width - size[1] + 1)
    return F.crop(image, y, x, *size)


def window_of(draws, height, width, scale, ratio):
    """torchvision's RandomResizedCrop.get_params, over other random numbers."""
    for _ in range(10):
        area = height * width * (scale[0] + (scale[1] - scale[0]) * float(uniform(draws)))
        low, high = math.log(ratio[0]), math.log(ratio[1])
        aspect = math.exp(low + (high - low) * float(uniform(draws)))
        w, h = int(round(math.sqrt(area * aspect))), int(round(math.sqrt(area / aspect)))
        if 0 < w <= width and 0 < h <= height:
            return draws.below(height - h + 1), draws.below(width - w + 1), h, w
    w, h = width, height
    if width / height < min(ratio):
        h = int(round(w / min(ratio)))
    elif width / height > max(ratio):
        w = int(round(h * max(ratio)))
    return (height - h) // 2, (width - w) // 2, h, w


def jitter_of(draws, brightness, contrast, saturation, hue):
    """The order of the four changes, and their factors."""
    order = [0, 1, 2, 3]
    for i in (3, 2, 1):
        k = draws.below(i + 1)
        order[i], order[k] = order[k], order[i]
    bounds = [(max(0, 1 - x), 1 + x) for x in (brightness, contrast, saturation)] + [(-hue, hue)]
    return order, [float(np.float32(low + (high - low) * float(uniform(draws)))) for low, high in bounds]


class RandomStages(Case):
    def check(self, dataset, transform, expected, bound=0):
        """expected(image, i) is the image that sample i becomes."""
        found, _ = ours(dataset, T.Compose([transform, T.PILToTensor()]), seed=SEED, workers=2)
        dataset.transform = None
        for i, one in enumerate(found):
            wanted = torch.from_numpy(np.array(expected(dataset[i][0], i))).permute(2, 0, 1)
            self.assertEqual(one.shape, wanted.shape)
            self.assertLessEqual((one.int() - wanted.int()).abs().max().item(), bound, "sample %d" % i)

    def test_flip(self):
        self.check(
            cifar(),
            T.RandomHorizontalFlip(0.3),
            lambda x, i: F.hflip(x) if Draws(SEED, "random-flip", i).chance(0.3) else x,
        )
        self.check(
            cifar(),
            V.RandomVerticalFlip(0.5),
            lambda x, i: F.vflip(x) if Draws(SEED, "random-flip", i).chance(0.5) else x,
        )

    def test_crop(self):
        self.check(cifar(), T.RandomCrop(32, padding=4), lambda x, i: crop_of(x, i, (32, 32), 4))
        self.check(
            cifar(),
            V.RandomCrop((20, 30), padding=[1, 2, 3, 4], fill=9),
            lambda x, i: crop_of(x, i, (20, 30), [1, 2, 3, 4], fill=9),
        )
        self.check(
            cifar(),
            T.RandomCrop(28, padding=(3, 5), padding_mode="reflect", pad_if_needed=True),
            lambda x, i: crop_of(x, i, (28, 28), (3, 5), padding_mode="reflect"),
        )
        self.check(
            cifar(),
            V.RandomCrop(32, padding=2, padding_mode="edge"),
            lambda x, i: crop_of(x, i, (32, 32), 2, padding_mode="edge"),
        )

    def test_resized_crop(self):
        for kind, scale, ratio in (
            (T, (0.08, 1.0), (3 / 4, 4 / 3)),
            (V, (0.9, 1.0), (1.5, 3.0)),
        ):  # the second mostly falls back
            stage = kind.RandomResizedCrop(24, scale, ratio)
            self.check(
                cifar(),
                stage,
                lambda x, i, scale=scale, ratio=ratio: F.resized_crop(
                    x, *window_of(Draws(SEED, "random-resized-crop", i), 32, 32, scale, ratio), [24, 24]
                ),
                RESIZED,
            )

    def test_resized_crop_of_photos(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check(
                datasets.ImageFolder(photos(folder)),
                T.RandomResizedCrop((40, 30), interpolation=Mode.BICUBIC),
                lambda x, i: F.resized_crop(
                    x,
                    *window_of(Draws(SEED, "random-resized-crop", i), x.height, x.width, (0.08, 1), (3 / 4, 4 / 3)),
                    [40, 30],
                    Mode.BICUBIC,
                ),
                RESIZED,
            )

    def test_color_jitter(self):
        changes = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]

        def expected(image, i):
            order, factors = jitter_of(Draws(SEED, "color-jitter", i), 0.4, 1.5, 0.2, 0.1)
            for change in order:
                image = changes[change](image, factors[change])
            return image

        self.check(cifar(60), T.ColorJitter(0.4, 1.5, 0.2, 0.1), expected)
        self.check(cifar(60), V.ColorJitter(0.4, 1.5, 0.2, 0.1), expected)

    def test_grayscale(self):
        self.check(
            cifar(),
            T.RandomGrayscale(0.4),
            lambda x, i: F.to_grayscale(x, 3) if Draws(SEED, "random-grayscale", i).chance(0.4) else x,
        )


def far_apart(a, b):
    """The Kolmogorov-Smirnov distance of two samples, in units of what chance gives: above 1.95 once in 1000."""
    values = np.sort(np.concatenate([a, b]))
    gap = np.abs(
        np.searchsorted(np.sort(a), values, "right") / len(a) - np.searchsorted(np.sort(b), values, "right") / len(b)
    ).max()
    return gap * math.sqrt(len(a) * len(b) / (len(a) + len(b)))


class Distributions(unittest.TestCase):
    """The draws of the tests above against torchvision's own, both from fixed seeds."""

    N = 3000

    def test_windows(self):
        torch.manual_seed(1)
        for height, width, scale, ratio in ((300, 400, (0.08, 1.0), (3 / 4, 4 / 3)), (100, 60, (0.5, 1.0), (0.5, 2.0))):
            image = torch.empty(3, height, width)
            a = np.array([T.RandomResizedCrop.get_params(image, scale, ratio) for _ in range(self.N)], float)
            b = np.array(
                [window_of(Draws(SEED, "random-resized-crop", i), height, width, scale, ratio) for i in range(self.N)],
                float,
            )
            for what in range(4):
                self.assertLess(far_apart(a[:, what], b[:, what]), 1.95)
            self.assertLess(far_apart(a[:, 2] * a[:, 3], b[:, 2] * b[:, 3]), 1.95)

    def test_jitter(self):
        torch.manual_seed(2)
        stage = T.ColorJitter(0.4, 1.5, 0.2, 0.1)
        a = [
            T.ColorJitter.get_params(stage.brightness, stage.contrast, stage.saturation, stage.hue)
            for _ in range(self.N)
        ]
        b = [jitter_of(Draws(SEED, "color-jitter", i), 0.4, 1.5, 0.2, 0.1) for i in range(self.N)]
        for what in range(4):
            self.assertLess(
                far_apart(np.array([row[what + 1] for row in a]), np.array([row[1][what] for row in b])), 1.95
            )
        orders = np.unique([row[0] for row in b], axis=0, return_counts=True)[1]
        self.assertEqual(len(orders), 24)
        self.assertLess(((orders - self.N / 24) ** 2).sum() / (self.N / 24), 49.7)  # chi-square, 23 degrees, 1 in 1000

    def test_places(self):
        torch.manual_seed(3)
        a = np.array([T.RandomCrop.get_params(torch.empty(3, 40, 40), (32, 32))[:2] for _ in range(self.N)])
        b = np.array(
            [[draws.below(9), draws.below(9)] for draws in (Draws(SEED, "random-crop", i) for i in range(self.N))]
        )
        for what in range(2):
            self.assertEqual(set(a[:, what]), set(b[:, what]))
            self.assertLess(far_apart(a[:, what].astype(float), b[:, what].astype(float)), 1.95)


class NotRecognised(unittest.TestCase):
    def refused(self, dataset, reason):
        with self.assertRaisesRegex(NotKnown, reason):
            recognise(dataset)

    def test_stages(self):
        for transform, reason in [
            (None, "there is no transform"),
            (T.Resize(5), "ToTensor is missing"),
            (T.Compose([T.ToTensor(), T.RandomRotation(3)]), "stage 2, RandomRotation: is not known"),
            (T.Compose([T.Lambda(lambda x: x), T.ToTensor()]), "stage 1, Lambda"),
            (lambda x: x, "stage 1, <lambda>"),
            (T.Compose([T.ToTensor(), T.Resize(40)]), "stage 2, Resize: of floats"),
            (T.Compose([T.Resize(40, Mode.NEAREST), T.ToTensor()]), "interpolation=nearest"),
            (T.Compose([T.Resize(40, max_size=50), T.ToTensor()]), "max_size"),
            (V.Compose([V.ToImage(), V.Resize(40, antialias=False)]), "antialias=False"),
            (V.Compose([V.ToImage(), V.Resize(40, interpolation="bicubic")]), "interpolation=bicubic"),
            (V.Compose([V.ToImage(), V.ColorJitter(0.1), to_float()]), "stage 2, ColorJitter: of tensors"),
            (T.Compose([T.ColorJitter((0.2, 0.5)), T.ToTensor()]), "brightness"),
            (T.Compose([T.RandomCrop(40), T.ToTensor()]), "does not fit"),
            (T.Compose([T.RandomCrop(32, padding=4, padding_mode="symmetric"), T.ToTensor()]), "symmetric"),
            (T.Compose([T.Pad(4, fill=(1, 2, 3)), T.ToTensor()]), "fill"),
            (T.Compose([T.Grayscale(), T.ToTensor()]), "num_output_channels"),
            (T.Compose([T.RandomResizedCrop(8, scale=(0.5, 2)), T.ToTensor()]), "scale"),
            (V.Compose([V.ToImage(), V.ToDtype(torch.float16, scale=True)]), "float16"),
            (V.Compose([V.ToImage(), V.ToDtype(torch.float32)]), "scale=True"),
            (T.Compose([T.PILToTensor(), norm(T)]), "Normalize: expects floats"),
            (T.Compose([T.ToTensor(), T.Normalize(0.5, 0)]), "std has a 0"),
            (T.Compose([T.RandomApply([T.RandomCrop(32)]), T.ToTensor()]), "RandomApply"),
        ]:
            with self.subTest(transform=str(transform)):
                dataset = cifar(4)
                dataset.transform = transform
                self.refused(dataset, reason)

    def test_changed_stages(self):
        class Crop(T.RandomCrop):
            pass

        dataset = cifar(4)
        dataset.transform = T.Compose([Crop(8), T.ToTensor()])
        self.refused(dataset, "stage 1, Crop: is not known")
        hooked = T.RandomCrop(8)
        hooked.register_forward_hook(lambda *_: None)
        dataset.transform = T.Compose([hooked, T.ToTensor()])
        self.refused(dataset, "hooks")
        dataset.transform = T.ToTensor()
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            self.refused(dataset, "default type")
        finally:
            torch.set_default_dtype(before)

    def test_datasets(self):
        class Other(datasets.CIFAR10):
            def __getitem__(self, index):
                return super().__getitem__(index)

        class Same(datasets.CIFAR10):
            pass

        for kind, known in ((Same, True), (datasets.CIFAR100, True), (Other, False)):
            dataset = cifar(4, kind)
            dataset.transform = T.ToTensor()
            if known:
                self.assertEqual(len(recognise(dataset)), 4)
            else:
                self.refused(dataset, "__getitem__ of its own")
        dataset = cifar(4)
        dataset.transform, dataset.target_transform = T.ToTensor(), int
        self.refused(dataset, "target_transform")
        self.refused([1, 2, 3], "list: not a dataset")
        dataset.target_transform = None
        dataset.targets = [1.0, 2.0, 3.0, 4.0]
        self.refused(dataset, "targets")
        dataset.targets = [1, 2]
        self.refused(dataset, "2 targets and 4 images")
        dataset = mnist(4)
        dataset.transform = T.Compose([T.ToTensor(), norm(T)])  # torch makes three channels of it
        self.refused(dataset, "mean has 3 numbers")

    def test_folders(self):
        with tempfile.TemporaryDirectory() as folder:
            dataset = datasets.ImageFolder(photos(folder), T.ToTensor())
            self.refused(dataset, "no stage gives the images one size")
            dataset.transform = T.Compose([T.CenterCrop(8), T.ToTensor()])
            self.assertEqual(len(recognise(dataset)), 12)
            dataset.loader = Image.open
            self.refused(dataset, "loader")
        for name, reason in (("x.bmp", "only .jpg"), ("x.png", "16 bits"), ("x\ty.jpg", "tab")):
            with tempfile.TemporaryDirectory() as folder:
                os.mkdir(os.path.join(folder, "a"))
                pixels = np.zeros((9, 9), np.uint16 if name == "x.png" else np.uint8)
                Image.fromarray(pixels).save(os.path.join(folder, "a", name))
                self.refused(datasets.ImageFolder(folder, T.Compose([T.CenterCrop(8), T.ToTensor()])), reason)


class Recognised(unittest.TestCase):
    def test_data_is_borrowed(self):
        dataset = cifar(4)
        dataset.transform = T.PILToTensor()
        known = recognise(dataset)
        self.assertTrue(np.shares_memory(known.arrays["data"][0], dataset.data))
        self.assertEqual(known.arrays["data"][1], "CHW")
        dataset.data = np.ascontiguousarray(dataset.data)
        self.assertEqual(recognise(dataset).arrays["data"][1], "HWC")
        dataset.data = dataset.data[:, :, ::-1]
        self.assertIn("copied", recognise(dataset).notes[0])

    def test_edits_are_seen(self):
        for edit in (
            lambda d: setattr(d, "data", d.data.copy()),
            lambda d: d.targets.__setitem__(2, 77),
            lambda d: setattr(d, "targets", list(d.targets)),
            lambda d: setattr(d, "transform", T.Compose([T.ToTensor(), T.Normalize(0.5, 0.5)])),
            lambda d: setattr(d, "transform", None),
            lambda d: setattr(d, "target_transform", int),
        ):
            dataset = cifar(4)
            dataset.transform = T.ToTensor()
            known = recognise(dataset)
            self.assertTrue(known.is_current())
            edit(dataset)
            self.assertFalse(known.is_current())
        dataset = mnist(4)
        dataset.transform = T.ToTensor()
        known = recognise(dataset)
        self.assertTrue(known.is_current())
        dataset.targets[1] = 9 - dataset.targets[1]
        self.assertFalse(known.is_current())

    def test_subsets(self):
        dataset = cifar(10)
        dataset.transform = T.PILToTensor()
        outer = Subset(Subset(dataset, range(1, 10)), [3, 0, -1])
        known = recognise(outer)
        self.assertEqual(known.subset.tolist(), [4, 1, 9])
        self.assertTrue(known.is_current())
        outer.indices[0] = 5
        self.assertFalse(known.is_current())
        with self.assertRaisesRegex(NotKnown, "within the 10 samples"):
            recognise(Subset(dataset, [10]))

    def test_tensors(self):
        known = recognise(
            TensorDataset(torch.arange(10), torch.rand(10, 2)[:, :1], torch.zeros(10, 3, 4, dtype=torch.float16))
        )
        found = next(iter(loader_of(known, batch_size=10)))
        for one, wanted in zip(found, known.base.tensors):
            self.assertTrue(torch.equal(one, wanted))
        for tensor in (
            torch.zeros(3, requires_grad=True),
            torch.zeros(3, dtype=torch.complex64),
            torch.zeros(3, dtype=torch.bfloat16),
        ):
            with self.assertRaisesRegex(NotKnown, "tensor 0"):
                recognise(TensorDataset(tensor))


if __name__ == "__main__":
    unittest.main()

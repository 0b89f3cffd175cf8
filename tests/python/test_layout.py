"""The layout of arrays and of Python objects, for stages that need an image."""
import unittest

import numpy as np

import libiter

CHAIN = "to:f32,nchw"


class Sprites:
    """u8 images, as get() gives them."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def get(self, indices):
        return self.images[indices], self.labels[indices]


class Layouts(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(3)
        self.chw = random.integers(0, 256, (20, 3, 6, 5), dtype=np.uint8)
        self.hwc = np.ascontiguousarray(self.chw.transpose(0, 2, 3, 1))
        self.labels = np.arange(20)

    def check(self, loader):
        with loader:
            images, labels = next(loader)
            self.assertEqual(images.dtype, np.float32)
            np.testing.assert_array_equal(images, self.chw)
            np.testing.assert_array_equal(labels, self.labels)
            self.assertEqual(loader.fields[0].layout, "NCHW")

    def test_arrays(self):
        self.check(libiter.Loader((self.chw, self.labels), CHAIN, layout="NCHW", batch_size=20))
        self.check(libiter.Loader((self.hwc, self.labels), CHAIN, layout="NHWC", batch_size=20))
        self.check(libiter.Loader((self.hwc, self.labels), CHAIN, layout="HWC", batch_size=20))
        named = {"image": self.hwc, "label": self.labels}
        self.check(libiter.Loader(named, CHAIN, layout={"image": "NHWC"}, batch_size=20))

    def test_objects(self):
        sprites = Sprites(self.hwc, self.labels)
        self.check(libiter.Loader(sprites, CHAIN, layout="NHWC", batch_size=20))
        self.check(libiter.Loader(libiter.Dataset(sprites, layout="HWC"), CHAIN, batch_size=20))

    def test_flip_is_along_the_width(self):
        for images, layout in ((self.chw, "NCHW"), (self.hwc, "NHWC")):
            loader = libiter.Loader((images, self.labels), "random-flip:p=1 | to:f32,nchw", layout=layout, batch_size=20)
            np.testing.assert_array_equal(next(loader)[0], self.chw[..., ::-1])

    def test_errors(self):
        data = (self.chw, self.labels)
        with self.assertRaisesRegex(libiter.InvalidArgument, "wants an image"):
            libiter.Loader(data, CHAIN)
        with self.assertRaisesRegex(libiter.InvalidArgument, "'NHW'"):
            libiter.Loader(data, layout="NHW")
        with self.assertRaisesRegex(libiter.InvalidArgument, "no field picture; expected one of data, label"):
            libiter.Loader(data, layout={"picture": "NCHW"})
        with self.assertRaisesRegex(libiter.InvalidArgument, "2 letters; expected 3"):
            libiter.Loader(data, layout={"data": "NHW"})
        with self.assertRaisesRegex(libiter.InvalidArgument, "spec has its own"):
            libiter.Loader("synthetic:cifar10", layout="NCHW")
        with self.assertRaisesRegex(libiter.InvalidArgument, "give it to Dataset"):
            libiter.Loader(libiter.Dataset(Sprites(*data)), layout="NCHW")


if __name__ == "__main__":
    unittest.main()

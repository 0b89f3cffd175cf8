"""The workloads and who takes part: data only, so that everything that lists, checks, runs or prints them agrees.

A workload is what libiter is asked to do (arguments of `iterbench serve`); a contestant is one configuration of one
peer. `threads` are the peer's own (its workers where it has such, else its library's pool); libiter gets as many
`--workers` as `workers` says and the same cores.
"""
from collections import namedtuple

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of CIFAR-10
PHOTO_MEAN, PHOTO_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet


def _normalise(mean, std):
    return "normalize:mean=%s,std=%s | to:f32,nchw" % tuple(";".join("%.4f" % x for x in numbers) for numbers in (mean, std))


_NORMALISE = _normalise(MEAN, STD)
_CIFAR = '--loader ndarray --data "cifar10:$ITER_DATA/cifar-10-batches-bin" --chain "%s"'
_PHOTOS = ('--loader dataloader --data "folder:$ITER_PEERS_SCRATCH/photos.lst?root=$ITER_DATA/clothing" '
           '--chain "random-resized-crop:size=224%s | random-flip | ' + _normalise(PHOTO_MEAN, PHOTO_STD) + '"')
_SEEKABLE = _PHOTOS.replace("folder:$ITER_PEERS_SCRATCH/photos.lst?root=$ITER_DATA/clothing",
                            "recordio:$ITER_PEERS_SCRATCH/photos-seekable.rec")
_RECORDS = ('--loader dataloader --source %s --shuffle none --ragged '
            '--data "recordio:$ITER_PEERS_SCRATCH/photos.rec?decode=none"')
_IMDB = '--data "imdb:$ITER_DATA/aclImdb?index=$ITER_DATA/imdb_word_index.json"'

Workload = namedtuple("Workload", "key title unit ours")
Contestant = namedtuple("Contestant", "workload family name peer config threads workers cores")

WORKLOADS = [
    Workload("A1", "CIFAR-10 train set in memory, u8, full shuffle, to normalised f32 NCHW, batch 64", "samples/s",
             _CIFAR % _NORMALISE),
    Workload("A2", "The same with a random 32x32 crop out of 4 pixels of zero padding and a random flip", "samples/s",
             _CIFAR % ("random-crop:size=32,pad=4 | random-flip | " + _NORMALISE)),
    Workload("C", "IMDB train set as a ready int32 array 25,000 x 150, full shuffle, batch 64", "samples/s",
             "--loader ndarray " + _IMDB),
    Workload("C-tokenise", "IMDB train set: 25,000 reviews as text in memory, in order, to 150 ids each, batch 64",
             "reviews/s", "--loader dataloader --source memory --shuffle none " + _IMDB),
    Workload("J1", "713 photos as JPEG files in the page cache, each listed 4 times, full shuffle: a random resized crop "
             "to 224x224 without antialias, a random flip, to normalised f32 NCHW, batch 64", "images/s", _PHOTOS % ",antialias=no"),
    Workload("J2", "The same with antialias", "images/s", _PHOTOS % ""),
    Workload("J1-seekable", "As J1, libiter from a record file made by `iterpack pack --seekable` (the same pixels), peers as in J1",
             "images/s", _SEEKABLE % ",antialias=no"),
    Workload("J2-seekable", "The same with antialias", "images/s", _SEEKABLE % ""),
    Workload("R1", "RecordIO in the page cache: 2,852 records of 26 kB and their labels, in order, as the bytes they are",
             "records/s", _RECORDS % "pread"),
    Workload("R1-memory", "The same; libiter has read the file when its loader was made", "records/s", _RECORDS % "memory"),
    Workload("Z1", "96 images 400x533 in memory, u8 RGB, in order, each resized to 224x224: bilinear with antialias", "images/s",
             '--loader dataloader --source memory --shuffle none --data "recordio:$ITER_PEERS_SCRATCH/stills.rec?raw=533x400x3" '
             '--chain "resize:height=224,width=224"'),
    Workload("T-cnn", "Training steps of the published CNN over replayed CIFAR-10 batches of 64 (SGD, momentum)", "images/s",
             '--model cnn --data "cifar10:$ITER_DATA/cifar-10-batches-bin"'),
    Workload("T-gru", "Training steps of the published GRU over replayed IMDB batches of 64 x 150 (dense Adam)", "reviews/s",
             "--model gru " + _IMDB),
    Workload("T-mlp", "Epochs of the MLP 1000-300-100-1 over 90,000 rows, batch 256, in order; libiter by its DataLoader",
             "rows/s", "--model mlp --loader dataloader --shuffle none --data synthetic:cs224 --batch 256"),
]


def arguments(workload):
    """Of `iterbench serve`, but for workers and threads."""
    return workload.ours if "--batch " in workload.ours else "--batch 64 " + workload.ours


def trains(workload):
    """Whether it is training steps; else batches of a loader."""
    return workload.key.startswith("T-")


def takes_photos(workload):
    """Whether a batch takes a good part of a second to make: such sides get longer slices, and rest between them."""
    return workload.key.startswith("J")


# Workloads whose data peer_photos.py makes.
OF_PHOTOS = {"J1", "J2", "J1-seekable", "J2-seekable", "R1", "R1-memory", "Z1"}

# The distribution whose version is printed, by family.
DISTRIBUTIONS = {"numpy": "numpy", "turbo": "turboloader", "mxnet": "mxnet", "torch": "torch", "tf": "tensorflow-cpu",
                 "dali": "nvidia-dali-cuda120", "ffcv": "ffcv", "pillow": "pillow", "opencv": "opencv-python-headless",
                 "grain": "grain", "spdl": "spdl", "numba": "numba"}

ALL = []


def _add(workload, family, name, peer, config, threads=1, workers=0, cores=1):
    ALL.append(Contestant(workload, family, name, peer, config, threads, workers, cores))


def _by_workers(workload, family, name, peer, config, counts=(0, 1, 2)):
    """A loader with worker processes: on one core without them, on two with them."""
    for n in counts:
        _add(workload, family, "%s-w%d" % (name, n), peer, "%s; %d workers" % (config, n), 1, n, 2 if n else 1)


def _by_threads(workload, family, name, peer, config, counts=(1, 2)):
    """A peer with a pool of threads: one on one core, two on two (beside libiter with two workers)."""
    for n in counts:
        _add(workload, family, "%s-t%d" % (name, n), peer, "%s; %d thread%s" % (config, n, "s" * (n > 1)), n,
             0 if n == 1 else n, n)


_add("A1", "numpy", "rows", "numpy by hand", "ready-made f32, x[perm]")
_add("A1", "numpy", "take", "numpy by hand", "ready-made f32, np.take into one buffer")
_add("A1", "numpy", "convert", "numpy by hand", "u8 gather, astype, normalise in place")
_add("A1", "turbo", "array", "TurboLoader ArrayDataLoader", "ready-made f32")
_by_threads("A1", "turbo", "kernel", "TurboLoader normalize_u8_gather", "its fused kernel called by hand, one buffer")
_by_threads("A1", "torch", "hand", "torch by hand", "index_select u8, float, normalise")
_by_threads("A1", "torch", "hand-out", "torch by hand", "index_select, sub and mul into buffers that are reused")
_by_threads("A1", "torch", "hand-compiled", "torch.compile", "index_select, then normalisation as one compiled loop, into buffers that are reused")
_add("A1", "numba", "convert", "numba by hand", "a compiled loop: gather and normalise, one buffer")
_by_workers("A1", "torch", "map", "torch DataLoader", "map-style, converts per sample")
_by_workers("A1", "torch", "rows", "torch DataLoader", "TensorDataset of ready-made f32", (0,))
_by_workers("A1", "torch", "sampler", "torch DataLoader", "vectorised: BatchSampler as sampler")
_by_workers("A1", "torch", "getitems", "torch DataLoader", "vectorised: __getitems__")
_add("A1", "mxnet", "ndarrayiter", "MXNet NDArrayIter", "ready-made f32, shuffle=True")
_add("A1", "mxnet", "ndarrayiter-ordered", "MXNet NDArrayIter", "ready-made f32, shuffle=False (in order)")
_by_workers("A1", "mxnet", "gluon-rows", "MXNet gluon DataLoader", "ready-made f32", (0,))
_by_workers("A1", "mxnet", "gluon-u8", "MXNet gluon DataLoader", "ToTensor and Normalize per sample", (0,))
_by_workers("A1", "mxnet", "gluon", "MXNet gluon DataLoader", "dataset of numpy views, converts per sample")
_add("A1", "mxnet", "gluon-pool2", "MXNet gluon DataLoader", "dataset of numpy views; 2 threads (thread_pool)", 1, 2, 2)
_by_threads("A1", "tf", "gather", "tf.data", "range, shuffle, batch, map(gather, normalise), prefetch")
_by_threads("A1", "tf", "gather-xla", "tf.data", "the same, gather and normalisation by XLA")
_by_threads("A1", "tf", "slices", "tf.data", "slices, shuffle, batch, map(normalise), prefetch", (1,))
_by_threads("A1", "dali", "cmn", "DALI on the CPU", "external_source of batches, crop_mirror_normalize")
_by_threads("A1", "dali", "cmn-dynamic", "DALI on the CPU", "the same, exec_dynamic")
_by_threads("A1", "ffcv", "nchw", "FFCV", "raw, os_cache, NormalizeImage, NCHW")
_by_threads("A1", "ffcv", "nhwc", "FFCV", "raw, os_cache, NormalizeImage, delivers NHWC in memory")

_add("A2", "numpy", "windows", "numpy by hand", "gather of windows of the padded set, flip, normalise")
_by_threads("A2", "torch", "masks", "torch by hand", "a masked copy per offset (airbench)")
_by_threads("A2", "torch", "gather", "torch by hand", "one gather by computed indices")
_add("A2", "numba", "crops", "numba by hand", "a compiled loop over the padded set: crop, flip, normalise, one buffer")
_by_workers("A2", "torch", "v2", "torch DataLoader", "torchvision v2 transforms per sample")
_by_workers("A2", "mxnet", "gluon-aug", "MXNet gluon DataLoader", "transforms per sample, pads by numpy")
_by_threads("A2", "mxnet", "record", "MXNet ImageRecordIter", "PNG records, pad, rand_crop, rand_mirror")
_by_threads("A2", "tf", "sample", "tf.data", "shuffle, map(pad, crop, flip) per sample, batch, normalise")
_by_threads("A2", "tf", "batch", "tf.data", "shuffle, batch, crop and flip by gathers, normalise", (1,))
_by_threads("A2", "dali", "aug", "DALI on the CPU", "slice with padding, crop_mirror_normalize")
_by_threads("A2", "ffcv", "aug", "FFCV", "raw, flip, RandomTranslate(4), NormalizeImage, NCHW")

_add("C", "numpy", "ids", "numpy by hand", "x[perm]")
_add("C", "numpy", "ids-take", "numpy by hand", "np.take into one buffer")
_add("C", "turbo", "ids", "TurboLoader ArrayDataLoader", "int32 array")
_add("C", "torch", "ids-hand", "torch by hand", "index by permutation")
_add("C", "torch", "ids-out", "torch by hand", "index_select into one buffer")
_by_workers("C", "torch", "ids", "torch DataLoader", "TensorDataset")
_add("C", "mxnet", "ids", "MXNet NDArrayIter", "shuffle=True (delivers f32)")
_by_workers("C", "mxnet", "ids-gluon", "MXNet gluon DataLoader", "ArrayDataset", (0,))
_by_threads("C", "tf", "ids", "tf.data", "slices, shuffle, batch, prefetch", (1,))

_add("C-tokenise", "numpy", "words", "plain Python", "lower, translate, split, dict")
_add("C-tokenise", "tf", "words", "tensorflow strings", "lower, regex_replace, split, StaticHashTable, batch 64")
_add("C-tokenise", "tf", "words-256", "tensorflow strings", "the same, batch 256")

_by_threads("J1", "dali", "noaa", "DALI on the CPU", "readers.file, image_random_crop, resize, crop_mirror_normalize")
_by_threads("J1", "dali", "noaa-dynamic", "DALI on the CPU", "the same, exec_dynamic")
_by_threads("J1", "mxnet", "photos", "MXNet ImageRecordIter", "from RecordIO, random_resized_crop, rand_mirror")
_by_threads("J1", "turbo", "noaa", "TurboLoader", "from a tar, train_aug, antialias=False")
_by_workers("J1", "torch", "io-noaa", "torch DataLoader", "torchvision decode_jpeg, v2 transforms, antialias=False")
_by_threads("J1", "tf", "noaa", "tf.data", "shuffle, map(decode_and_crop_jpeg, resize, flip, normalise), batch, prefetch")
_by_workers("J1", "grain", "opencv", "grain", "OpenCV: imread, resize INTER_LINEAR")
_by_threads("J1", "grain", "opencv", "grain", "OpenCV: imread, resize INTER_LINEAR; read threads", (2,))
_add("J1", "opencv", "linear", "OpenCV by hand", "imread, resize INTER_LINEAR, NumPy for the rest")

_by_threads("J2", "dali", "aa", "DALI on the CPU", "readers.file, image_random_crop, resize, crop_mirror_normalize")
_by_threads("J2", "dali", "aa-dynamic", "DALI on the CPU", "the same, exec_dynamic")
_by_threads("J2", "turbo", "aa", "TurboLoader", "from a tar, train_aug, antialias=True")
_by_workers("J2", "torch", "io-aa", "torch DataLoader", "torchvision decode_jpeg, v2 transforms")
_by_workers("J2", "torch", "pil", "torch DataLoader", "PIL, torchvision v2 transforms")
_by_threads("J2", "tf", "aa", "tf.data", "shuffle, map(decode_and_crop_jpeg, resize(antialias), flip, normalise), batch, prefetch")
_by_threads("J2", "ffcv", "photos", "FFCV", "JPEG written anew at quality 90, RandomResizedCrop by areas, flip, NCHW")
_by_threads("J2", "ffcv", "photos-raw", "FFCV", "pixels, written raw: nothing is decoded; RandomResizedCrop by areas, flip, NCHW")
_by_threads("J2", "spdl", "photos", "SPDL", "FFmpeg: decode, crop, scale, hflip; NumPy normalises")
_add("J2", "opencv", "area", "OpenCV by hand", "imread, resize INTER_AREA, NumPy for the rest")
_add("J2", "pillow", "photos", "Pillow by hand", "open, resize(box=...), NumPy for the rest")

ALL += [row._replace(workload=row.workload + "-seekable") for row in ALL
        if row.workload in ("J1", "J2") and row.family in ("dali", "turbo", "opencv", "ffcv", "spdl")]

_add("R1", "mxnet", "records-unpack", "MXNet MXRecordIO", "read and unpack")
_add("R1", "mxnet", "records", "MXNet MXRecordIO", "read alone: no label, no header taken off")
_add("R1", "dali", "records", "DALI on the CPU", "readers.mxnet (maps the file: its consumer reads the page cache)")
_add("R1-memory", "mxnet", "records-unpack-warm", "MXNet MXRecordIO", "read and unpack")

_add("Z1", "pillow", "resize", "Pillow", "Image.resize, BILINEAR")
_add("Z1", "opencv", "resize-area", "OpenCV", "cv2.resize, INTER_AREA, into one buffer")
_add("Z1", "torch", "resize", "torchvision", "v2 resize of u8 (channels last in memory), antialias=True")

_by_threads("T-cnn", "tf", "cnn", "tensorflow keras", "NHWC, tf.function")
_by_threads("T-cnn", "tf", "cnn-xla", "tensorflow keras", "NHWC, tf.function, XLA")
_by_threads("T-cnn", "torch", "cnn-nhwc", "torch", "channels_last")
_by_threads("T-cnn", "torch", "cnn-nhwc-compiled", "torch.compile", "channels_last")
_by_threads("T-cnn", "torch", "cnn-nhwc-compiled-fused", "torch.compile", "channels_last, SGD(fused=True)")
_by_threads("T-cnn", "torch", "cnn-nhwc-fused", "torch", "channels_last, SGD(fused=True)")
_by_threads("T-cnn", "torch", "cnn-nchw", "torch", "NCHW")
_by_threads("T-cnn", "mxnet", "cnn", "MXNet gluon", "hybridized, static")

_by_threads("T-gru", "mxnet", "gru", "MXNet gluon", "fused GRU, TNC, hybridized, static")
_by_threads("T-gru", "torch", "gru", "torch", "nn.GRU, batch first")
_by_threads("T-gru", "torch", "gru-fused", "torch", "nn.GRU, batch first, Adam(fused=True)")
_by_threads("T-gru", "torch", "gru-compiled", "torch.compile", "nn.GRU, batch first, Adam(fused=True)")
_by_threads("T-gru", "tf", "gru", "tensorflow keras", "GRU, tf.function")

_by_threads("T-mlp", "torch", "mlp-slices", "torch", "bare slices of the tensors")
_by_threads("T-mlp", "torch", "mlp-slices-fused", "torch", "bare slices of the tensors, Adam(fused=True)")
_by_threads("T-mlp", "torch", "mlp-slices-compiled", "torch.compile", "bare slices of the tensors, Adam(fused=True)")
_by_threads("T-mlp", "torch", "mlp-loader", "torch DataLoader", "TensorDataset, no worker", (2,))
_by_threads("T-mlp", "mxnet", "mlp-module", "MXNet Module", "NDArrayIter, forward_backward, update, metric")
_by_threads("T-mlp", "mxnet", "mlp-ndarrayiter", "MXNet gluon", "NDArrayIter, hybridized, static", (2,))
_by_threads("T-mlp", "mxnet", "mlp-loader", "MXNet gluon", "DataLoader, no worker, hybridized, static", (2,))


def find(family, name):
    for contestant in ALL:
        if (contestant.family, contestant.name) == (family, name):
            return contestant
    raise SystemExit("no contestant %s %s" % (family, name))

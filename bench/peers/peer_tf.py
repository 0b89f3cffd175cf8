"""tf.data over CIFAR-10 and the ids, and TensorFlow's string operations over the reviews."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf

import photo_tf
import step_tf
from peer_common import (BATCH, MAX_LENGTH, MEAN, OOV, SHIFT, START, STD, WORDS, Contestant, cifar, main, per_channel,
                         review_ids, review_texts, touch_array, word_ranks)

AHEAD = 2  # batches
MINUS, TIMES = per_channel(MEAN) * 255, 1 / (255 * per_channel(STD))  # tensors would fix the number of threads
PUNCTUATION = r'[!"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\n]'


class Data(Contestant):
    def __init__(self, row, dataset, size):
        options = tf.data.Options()
        options.threading.private_threadpool_size = row.threads
        options.threading.max_intra_op_parallelism = 1
        options.deterministic = True
        self.dataset, self.size = dataset.prefetch(AHEAD).with_options(options), size

    def touch(self, data):
        touch_array(data)

    def epoch(self):
        for data, labels in self.dataset.as_numpy_iterator():
            yield data, labels, len(data)


class Photos(Data):
    rests = True


class Reviews(Data):
    def epoch(self):
        for data in self.dataset.as_numpy_iterator():
            yield data, None, len(data)


def normalise(images, labels):
    return (tf.cast(images, tf.float32) - MINUS) * TIMES, labels


def normalise_nhwc(images, labels):
    return normalise(tf.transpose(images, [0, 3, 1, 2]), labels)


def augment_sample(image, label):
    image = tf.image.random_crop(tf.pad(image, [[4, 4], [4, 4], [0, 0]]), (32, 32, 3))
    return tf.image.random_flip_left_right(image), label


def augment_batch(images, labels):
    """Rows by one gather, columns (mirrored or not) by another."""
    n, range32 = tf.shape(images)[0], tf.range(32)
    images = tf.pad(images, [[0, 0], [4, 4], [4, 4], [0, 0]])
    rows = range32 + tf.random.uniform((n, 1), 0, 9, tf.int32)
    columns = tf.where(tf.random.uniform((n, 1)) < .5, range32[::-1], range32) + tf.random.uniform((n, 1), 0, 9, tf.int32)
    images = tf.gather(images, rows, axis=1, batch_dims=1)
    images = tf.vectorized_map(lambda pair: tf.gather(pair[0], pair[1], axis=1), (images, columns))
    return images, labels


def by_gather(row):
    images, labels = map(tf.constant, cifar())
    n = len(images)

    def rows_of(i):
        return normalise(tf.gather(images, i), tf.gather(labels, i))
    if "xla" in row.name:
        rows_of = tf.function(rows_of, jit_compile=True)
    return Data(row, tf.data.Dataset.range(n).shuffle(n).batch(BATCH).map(rows_of, row.threads), n)


def by_slices(row):
    arrays = cifar()
    n = len(arrays[0])
    dataset = tf.data.Dataset.from_tensor_slices(arrays).shuffle(n).batch(BATCH)
    return Data(row, dataset.map(normalise, row.threads), n)


def augmented(row):
    arrays = cifar("nhwc")
    n = len(arrays[0])
    dataset = tf.data.Dataset.from_tensor_slices(arrays).shuffle(n)
    if row.name.startswith("sample"):
        dataset = dataset.map(augment_sample, row.threads).batch(BATCH)
    else:
        dataset = dataset.batch(BATCH).map(augment_batch, row.threads)
    return Data(row, dataset.map(normalise_nhwc, row.threads), n)


def photos(row):
    dataset, size = photo_tf.files(row)
    return Photos(row, dataset.batch(BATCH), size)


def ids(row):
    arrays = review_ids()
    n = len(arrays[0])
    return Data(row, tf.data.Dataset.from_tensor_slices(arrays).shuffle(n).batch(BATCH), n)


def words(row):
    texts, _ = review_texts()
    known = sorted((rank, word) for word, rank in word_ranks().items() if rank + SHIFT < WORDS)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([word for _, word in known]),
                                            tf.constant([rank + SHIFT for rank, _ in known], tf.int32)), OOV)

    def tokenise(batch):
        batch = tf.strings.regex_replace(tf.strings.lower(batch), PUNCTUATION, " ")
        ids = tf.ragged.map_flat_values(table.lookup, tf.strings.split(batch))
        ids = tf.concat([tf.fill((tf.shape(batch)[0], 1), START), ids], 1)[:, -MAX_LENGTH:]
        return ids.to_tensor(0, shape=(None, MAX_LENGTH))

    batch = 256 if row.name.endswith("256") else BATCH
    return Reviews(row, tf.data.Dataset.from_tensor_slices(texts).batch(batch).map(tokenise, row.threads), len(texts))


def threads(make):
    def with_threads(row):
        tf.config.threading.set_intra_op_parallelism_threads(row.threads)
        tf.config.threading.set_inter_op_parallelism_threads(row.threads)
        return make(row)
    return with_threads


main("tf", {name: threads(make) for name, make in {
    "gather": by_gather, "gather-xla": by_gather, "slices": by_slices, "sample": augmented, "batch": augmented, "ids": ids, "words": words,
    "words-256": words, "noaa": photos, "aa": photos,
    **step_tf.MAKE,
}.items()})

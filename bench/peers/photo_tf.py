"""tf.data over photos: decode_and_crop_jpeg of the window alone."""
import tensorflow as tf

from peer_photos import MEAN_255, RATIO, SCALE, SIDE, STD_255, TRIES, listed


def one(antialias):
    def load(path, label):
        content = tf.io.read_file(path)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(content), tf.zeros((0, 0, 4)), area_range=SCALE, aspect_ratio_range=RATIO,
            max_attempts=TRIES, use_image_if_no_bounding_boxes=True)
        image = tf.image.decode_and_crop_jpeg(content, tf.concat([begin[:2], size[:2]], 0), channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, (SIDE, SIDE), antialias=antialias))
        return tf.transpose((image - MEAN_255) / STD_255, [2, 0, 1]), label
    return load


def files(row):
    """The set, shuffled and mapped, without its batches; and how many samples it has."""
    paths, labels = (list(column) for column in zip(*listed()))
    dataset = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths))
    return dataset.map(one(row.workload == "J2"), row.threads), len(paths)

"""TensorFlow training: the published CNN and GRU by replayed batches (Keras layers, a tf.function train step)."""
import numpy as np
import tensorflow as tf

from peer_common import Steps, step_data

L = tf.keras.layers


def stepper(model, optimizer, compiled):
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=compiled)
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss
    return lambda x, y: float(step(x, y))


def conv(channels, activation=None):
    return L.Conv2D(channels, 3, padding="same", activation=activation)


def cnn(row):
    model = tf.keras.Sequential([
        L.Input((32, 32, 3)), conv(50, "relu"), conv(50), L.MaxPool2D(), L.ReLU(), L.Dropout(.25),
        conv(100, "relu"), conv(100), L.MaxPool2D(), L.ReLU(), L.Dropout(.25),
        L.Flatten(), L.Dense(512, "relu"), L.Dropout(.5), L.Dense(10)])
    data = [(tf.constant(np.ascontiguousarray(x.transpose(0, 2, 3, 1))), tf.constant(y)) for x, y in step_data("cnn")]
    return Steps(stepper(model, tf.keras.optimizers.SGD(.01, momentum=.9), "xla" in row.name), data)


def gru(row):
    model = tf.keras.Sequential([L.Input((150,), dtype="int32"), L.Embedding(30000, 125), L.GRU(100), L.Dense(2)])
    data = [(tf.constant(x.astype(np.int32)), tf.constant(y)) for x, y in step_data("gru")]
    return Steps(stepper(model, tf.keras.optimizers.Adam(1e-3), "xla" in row.name), data)


MAKE = {"cnn": cnn, "cnn-xla": cnn, "gru": gru, "gru-xla": gru}

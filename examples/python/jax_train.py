"""jax_train.py - a small MLP in JAX: on generated images, or on the files of a spec. Batches are JAX arrays.

    python jax_train.py [cifar10:DIR]
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np

import libiter


def generated(n=4000):
    """u8 images, a pattern for each class under noise; and labels."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, n)
    images = np.random.default_rng(99).integers(64, 192, (10, 3, 32, 32))[labels] + random.normal(0, 60, (n, 3, 32, 32))
    return images.clip(0, 255).astype(np.uint8), labels.astype(np.uint8)


def init(key, sizes=(3072, 64, 10)):
    keys = jax.random.split(key, len(sizes))
    return [(jax.random.normal(k, (a, b)) * (2 / a) ** 0.5, jnp.zeros(b)) for k, a, b in zip(keys, sizes, sizes[1:])]


def loss(params, images, labels):
    x = images.reshape(len(images), -1)
    for weight, bias in params[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = params[-1]
    return -jnp.mean(jax.nn.log_softmax(x @ weight + bias)[jnp.arange(len(labels)), labels])


@jax.jit
def step(params, images, labels):
    value, slopes = jax.value_and_grad(loss)(params, images, labels)
    return jax.tree_util.tree_map(lambda p, s: p - 0.02 * s, params, slopes), value


spec = sys.argv[1] if len(sys.argv) > 1 else None
loader = libiter.Loader(spec or generated(), "random-flip | normalize:mean=0.5,std=0.25 | to:f32,nchw",
                        layout=None if spec else "NCHW", output="jax", batch_size=100, shuffle=True, workers=1, seed=5,
                        last_batch="discard")  # one shape, so that jit compiles once
params = init(jax.random.PRNGKey(0))
for epoch in range(2):
    losses = []
    for images, labels in loader:
        params, value = step(params, images, labels)
        losses.append(value)  # a JAX value; it does not wait
    print("epoch %d: loss %.3f" % (epoch, float(jnp.mean(jnp.stack(losses)))))

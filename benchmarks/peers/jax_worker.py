"""Times an ADT-EXP step in JAX, a round at a time.

The process answers as worker.py does, with the Python of requirements-jax.txt.
It has one task:

    {"task": "train", "method": "adt_exp", "network": "wrn-16-4", "batch": 16}

with the fields k (5), T (7), epsilon (8 / 255), learning_rate (1e-6) and
samples ("batched" or "one_by_one"; by default the faster). The whole step is
one jitted function: T steps of Adam on (mu, rho) with fixed statistics of the
classifier, then one step of SGD with momentum, in training mode, on a new
sample.
"""

from __future__ import annotations

import functools
import re

import answering
import jax
import jax.numpy as jnp
import numpy as np

MOMENTUM, DECAY = 0.9, 2e-4


def build(depth, widen, generator):
    """Returns the weights and statistics of a wide residual network."""
    weights, statistics = {}, {}

    def convolution(name, size, inputs, filters):
        scale = np.sqrt(2 / (size * size * filters))
        shape = (size, size, inputs, filters)
        weights[name] = generator.normal(0, scale, shape).astype("float32")

    def normalization(name, channels):
        weights[f"{name}/gamma"] = np.ones(channels, "float32")
        weights[f"{name}/beta"] = np.zeros(channels, "float32")
        statistics[f"{name}/mean"] = np.zeros(channels, "float32")
        statistics[f"{name}/variance"] = np.ones(channels, "float32")

    convolution("stem", 3, 3, 16)
    inputs, blocks = 16, []
    for stage, filters in enumerate((16 * widen, 32 * widen, 64 * widen)):
        for block in range((depth - 4) // 6):
            name = f"stage{stage}_block{block}"
            stride = 2 if stage and not block else 1
            shortcut = stride != 1 or inputs != filters
            normalization(f"{name}_normalization1", inputs)
            convolution(f"{name}_convolution1", 3, inputs, filters)
            normalization(f"{name}_normalization2", filters)
            convolution(f"{name}_convolution2", 3, filters, filters)
            if shortcut:
                convolution(f"{name}_shortcut", 1, inputs, filters)
            blocks.append((name, stride, shortcut))
            inputs = filters
    normalization("normalization", inputs)
    limit = inputs**-0.5
    dense = generator.uniform(-limit, limit, (inputs, 10)).astype("float32")
    weights |= {"kernel": dense, "bias": np.zeros(10, "float32")}
    return weights, statistics, blocks


def logits_of(blocks, weights, statistics, x, training):
    """Returns the logits, and the statistics after the batch."""
    new = dict(statistics)

    def convolve(x, name, stride=1):
        kernel = weights[name]
        side = kernel.shape[0] // 2
        return jax.lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            [(side, side), (side, side)],
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )

    def activated(x, name):
        mean, variance = f"{name}/mean", f"{name}/variance"
        values = statistics[mean], statistics[variance]
        if training:
            values = x.mean((0, 1, 2)), x.var((0, 1, 2))
            for key, value in zip((mean, variance), values, strict=True):
                new[key] = 0.9 * statistics[key] + 0.1 * value
        scale = weights[f"{name}/gamma"] * jax.lax.rsqrt(values[1] + 1e-5)
        shift = weights[f"{name}/beta"] - values[0] * scale
        return jax.nn.relu(x * scale + shift)

    x = convolve(x, "stem")
    for name, stride, shortcut in blocks:
        a = activated(x, f"{name}_normalization1")
        y = convolve(a, f"{name}_convolution1", stride)
        y = convolve(
            activated(y, f"{name}_normalization2"), f"{name}_convolution2"
        )
        x = y + (convolve(a, f"{name}_shortcut", stride) if shortcut else x)
    x = activated(x, "normalization").mean((1, 2))
    return x @ weights["kernel"] + weights["bias"], new


def cross_entropy(logits, y):
    """Returns the cross-entropy of each row."""
    rows = jnp.arange(len(y))
    return jax.nn.logsumexp(logits, axis=-1) - logits[rows, y]


def step_function(blocks, settings):
    """Returns the jitted training step."""
    epsilon, k = settings["epsilon"], settings["k"]
    at_once = k if settings["samples"] == "batched" else 1

    def sample(x, phi, noise):
        sigma = jax.nn.softplus(phi["rho"])
        u = phi["mu"] + sigma * noise
        squashing = 2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u))
        entropy = jnp.log(sigma) + squashing
        x_adv = jnp.clip(x + epsilon * jnp.tanh(u), 0, 1)
        return x_adv, entropy.mean((-3, -2, -1))

    def step(weights, statistics, momentum, key, x, y):
        def value(phi, noise):
            x_adv, entropy = sample(x, phi, noise)
            flat = x_adv.reshape(-1, *x.shape[1:])
            logits, _ = logits_of(blocks, weights, statistics, flat, False)
            loss = cross_entropy(logits, jnp.tile(y, at_once))
            return (loss.sum() + 0.01 * entropy.sum()) / k

        def ascend(phi, key):
            noise = jax.random.normal(key, (k // at_once, at_once, *x.shape))
            slopes = [jax.grad(value)(phi, part) for part in noise]
            slope = jax.tree.map(lambda *parts: sum(parts), *slopes)
            return jax.tree.map(
                lambda p, g: p + 0.3 * g / (jnp.abs(g) + 1e-8), phi, slope
            )

        phi = {"mu": jnp.zeros_like(x), "rho": jnp.zeros_like(x)}
        keys = jax.random.split(key, settings["T"] + 2)
        # Unrolled: inside an XLA loop a CPU has no fast convolutions.
        for t in range(settings["T"]):
            phi = ascend(phi, keys[t])
        x_adv, _ = sample(x, phi, jax.random.normal(keys[-2], x.shape))

        def loss_of(weights):
            logits, new = logits_of(blocks, weights, statistics, x_adv, True)
            return cross_entropy(logits, y).mean(), new

        (loss, new), slopes = jax.value_and_grad(loss_of, has_aux=True)(weights)
        momentum = jax.tree.map(
            lambda m, g, w: MOMENTUM * m + g + DECAY * w,
            momentum,
            slopes,
            weights,
        )
        rate = settings["learning_rate"]
        weights = jax.tree.map(lambda w, m: w - rate * m, weights, momentum)
        return weights, new, momentum, keys[-1], loss

    return jax.jit(step, donate_argnums=(0, 1, 2))


def prepare(fields):
    """Returns the work, the choices for it and the number of images."""
    match = re.fullmatch(r"wrn-(\d+)-(\d+)", fields.get("network", ""))
    if fields.get("method") != "adt_exp" or not match:
        raise ValueError(
            "Fields `method` and `network` must be 'adt_exp' and "
            f"'wrn-<depth>-<widen_factor>'. Received: {fields}"
        )
    defaults = {"k": 5, "T": 7, "epsilon": 8 / 255, "learning_rate": 1e-6}
    settings = {
        name: fields.get(name, value) for name, value in defaults.items()
    }
    ways = ["batched", "one_by_one"]
    ways = [fields["samples"]] if "samples" in fields else ways
    candidates = [
        work_of(fields, match, settings | {"samples": w}) for w in ways
    ]
    index = answering.fastest(candidates)
    return candidates[index], {"samples": ways[index]}, fields["batch"]


def work_of(fields, match, settings):
    """Returns a step on random images as a piece of work."""
    generator = np.random.default_rng(fields.get("seed", 0))
    *state, blocks = build(int(match[1]), int(match[2]), generator)
    x = generator.uniform(size=(fields["batch"], 32, 32, 3)).astype("float32")
    y = generator.integers(0, 10, fields["batch"])
    state = [*state, jax.tree.map(np.zeros_like, state[0]), jax.random.key(0)]
    # The step donates its arguments, so they must be arrays of JAX.
    state = jax.tree.map(jnp.array, state)
    step = step_function(blocks, settings)
    step = functools.partial(step, x=jnp.array(x), y=jnp.array(y))

    def work():
        *state[:], loss = step(*state)
        return float(loss)

    return work


if __name__ == "__main__":
    answering.serve(prepare)

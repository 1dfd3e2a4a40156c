"""Compares TensorFlow's 3x3 convolutions with PyTorch's, both by oneDNN.

python benchmarks/convolution_speed.py

These convolutions take most of a training step, so their speed bounds the ratio
of the steps (docs/performance.md). A round runs each of ours and of theirs in
turn, forward and to the input, on the images of one inner step: 80 for
WRN-16-4, 320 for WRN-10-1. Prints the thousand millions of operations a second
(a multiplication and an addition are two) and writes the ratios of the times to
build/bench/convolution_speed.json.
"""

from __future__ import annotations

import measuring
from absl import app, flags

measuring.prepare_tensorflow()

#: Images, pixels of a side and channels of each convolution.
SHAPES = {
    "WRN-16-4": [(80, 32, 64), (80, 16, 128), (80, 8, 256)],
    "WRN-10-1": [(320, 32, 16), (320, 16, 32), (320, 8, 64)],
}
REPEATS = 5

ROUNDS = flags.DEFINE_integer("rounds", 9, "Number of rounds of a case.")


def convolution(batch: int, size: int, channels: int, dtype: str):
    """Returns a function that runs a convolution and its input gradient."""
    import tensorflow as tf

    shape = [batch, size, size, channels]
    images, slopes = (tf.cast(tf.random.normal(shape), dtype) for _ in "ab")
    kernel = tf.cast(tf.random.normal([3, 3, channels, channels]), dtype)

    @tf.function(autograph=False)
    def both():
        y = tf.nn.conv2d(images, kernel, 1, "SAME")
        with tf.control_dependencies([y]):
            dx = tf.nn.conv2d_transpose(slopes, kernel, shape, 1, "SAME")
        # The corners alone are returned, so that the results are not copied.
        return y[0, 0, 0, 0], dx[0, 0, 0, 0]

    return lambda: [both()[0].numpy() for _ in range(REPEATS)]


def main(_) -> None:
    """Times every convolution in both formats."""
    rows = []
    for network, shapes in SHAPES.items():
        for dtype in ("float32", "bfloat16"):
            for batch, size, channels in shapes:
                peer = measuring.Peer(
                    task="convolution",
                    batch=batch,
                    input_shape=[size, size, channels],
                    bfloat16=dtype == "bfloat16",
                    repeats=REPEATS,
                )
                times = measuring.interleaved(
                    {
                        "ours": convolution(batch, size, channels, dtype),
                        "PyTorch": peer,
                    },
                    ROUNDS.value,
                )
                peer.close()
                name = (
                    f"3x3 convolution, {dtype}, {batch} images of {size}x{size}"
                    f", {channels} channels ({network}), over PyTorch's"
                )
                row = measuring.ratio_row(name, times, "ours", "PyTorch")
                rows.append(row)
                # Forward and to the input.
                operations = 2 * 2 * 9 * batch * size**2 * channels**2
                speeds = (
                    f"{side} {REPEATS * operations / seconds / 1e9:.0f}"
                    for side, seconds in row["seconds"].items()
                )
                print(f"{name}: {', '.join(speeds)}", flush=True)
    measuring.write("convolution_speed", rows)


if __name__ == "__main__":
    app.run(main)

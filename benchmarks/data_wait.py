"""Measures the share of a training step that waits for images on the disk.

    python benchmarks/data_wait.py [STEPS]

MobileNetV2 at 224x224, --method=standard, batches of 32, JPEG files of 500x375,
which are decoded on the cores that train. "in the step" reads a batch when the
step requests it; "read ahead" is `adt_tf.data.train_pipeline`. A profile of
reading an image follows.
"""

import cProfile
import io
import pathlib
import pstats
import sys
import tempfile
import time

import keras
import numpy as np
import sklearn.datasets
from PIL import Image

import adt_tf
from adt_tf import data

BATCH = 32


def write_photos(folder, count):
    """Writes random crops of 375x500 of scikit-learn's two photographs."""
    generator = np.random.default_rng(0)
    photos = sklearn.datasets.load_sample_images().images
    for name, photo in zip(("temple", "flower"), photos, strict=True):
        for split in ("train", "test"):
            (folder / split / name).mkdir(parents=True)
        for number in range(count // 2):
            row, column = generator.integers(0, (52, 140))
            part = photo[row : row + 375, column : column + 500]
            place = folder / ("train" if number else "test") / name
            Image.fromarray(part).save(place / f"{number}.jpg", quality=90)


def in_the_step(examples):
    """Yields batches that one thread reads on request."""
    step = 0
    while True:
        indices = data.batch_indices(
            examples, batch_size=BATCH, seed=0, step=step
        )
        images = [examples.images.read(index) for index in indices]
        yield data.scale_images(np.stack(images)), examples.labels[indices]
        step += 1


def measure(trainer, batches, steps):
    """Returns the seconds of waiting and the total seconds of a step."""
    batches = iter(batches)
    for _ in range(2):
        trainer.train_on_batch(*next(batches))
    waiting, start = 0.0, time.perf_counter()
    for _ in range(steps):
        requested_at = time.perf_counter()
        x, y = next(batches)
        waiting += time.perf_counter() - requested_at
        trainer.train_on_batch(x, y)
    return waiting / steps, (time.perf_counter() - start) / steps


def main(steps):
    """Prints the waiting time of both pipelines, and the profile."""
    with tempfile.TemporaryDirectory() as folder:
        write_photos(pathlib.Path(folder), 400)
        examples = data.load(f"{folder}/", image_size=(224, 224), stream=True)
        method = adt_tf.methods.get("standard")
        classifier = adt_tf.networks.get(
            "keras:MobileNetV2", input_shape=(224, 224, 3), num_classes=2
        )
        trainer = adt_tf.AdversarialTrainer(
            classifier, method.attack, method.loss, seed=0
        )
        trainer.compile(keras.optimizers.SGD(0.01))
        ahead = data.train_pipeline(examples, batch_size=BATCH, seed=0)
        for name, batches in (
            ("in the step", in_the_step(examples)),
            ("read ahead", ahead),
        ):
            waiting, total = measure(trainer, batches, steps)
            print(
                f"{name}: a step takes {total:.2f} s and waits {waiting:.3f} "
                f"s, {100 * waiting / total:.1f} %",
                flush=True,
            )
        profile = cProfile.Profile()
        start = time.process_time()
        profile.runcall(lambda: [examples.images.read(k) for k in range(200)])
        seconds = (time.process_time() - start) / 200
        print(f"reading an image takes {1000 * seconds:.1f} ms of a core")
        text = io.StringIO()
        pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(6)
        print(text.getvalue())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)

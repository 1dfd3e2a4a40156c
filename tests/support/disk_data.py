"""Small data sets on the disk, in every form that can be streamed."""

import pathlib

import numpy as np
from PIL import Image

SIZE = (10, 9)


def write_jpegs(folder, count, *, size=SIZE, classes=("cat", "dog"), seed=0):
    """Writes JPEG files of blocks of colour, `count` for each class."""
    generator = np.random.default_rng(seed)
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            blocks = generator.integers(0, 256, (4, 4, 3), dtype=np.uint8)
            blocks[..., 0] //= 1 + label
            image = Image.fromarray(blocks).resize(
                size[::-1], Image.Resampling.BICUBIC
            )
            image.save(folder / name / f"{number:05d}.jpg", quality=90)


def write_folder(root, count=12, **arguments):
    """Writes train/ and test/ with two classes; returns --dataset."""
    for seed, split in enumerate(("train", "test")):
        write_jpegs(root / split, count, seed=seed, **arguments)
    return f"{root}/"


def write_arrays(root, folder, *, dtype=np.uint8):
    """Writes the images of a folder as .npy files; returns --dataset."""
    from adt_tf import data

    root.mkdir()
    for split in ("train", "test"):
        examples = data.load(folder, split=split, stream=False)
        images = examples.images
        if dtype != np.uint8:
            images = (images / 255).astype(dtype)
        np.save(root / f"x_{split}.npy", images)
        np.save(root / f"y_{split}.npy", examples.labels)
    np.save(root / "class_names.npy", np.array(["cat", "dog"]))
    return f"{root}/"


def write_records(root, folder, *, name="pets", any_size=False):
    """Prepares the JPEG files of a folder as array_record files by TFDS."""
    import tensorflow_datasets as tfds

    paths = {
        split: sorted(pathlib.Path(folder, split).rglob("*.jpg"))
        for split in ("train", "test")
    }
    shape = (None, None, 3) if any_size else (*SIZE, 3)

    def examples(split):
        # TFDS keeps the bytes of a file that it is given by its path.
        return [
            (key, {"image": str(path), "label": path.parent.name})
            for key, path in enumerate(paths[split])
        ]

    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version="1.0.0",
        data_dir=root,
        features=tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(
                    shape=shape, encoding_format="jpeg"
                ),
                "label": tfds.features.ClassLabel(names=["cat", "dog"]),
            }
        ),
        split_datasets={split: examples(split) for split in paths},
        file_format="array_record",
        disable_shuffling=True,
    )
    return name

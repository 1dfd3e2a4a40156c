"""Folders of image files with a subfolder for each class.

    pets/train/cat/1.jpg  pets/train/dog/7.png  pets/test/cat/3.jpg ...
    pets/cat/1.jpg        pets/dog/7.png ...    (a fifth becomes the test split)

    folder = find("pets", image_size=(64, 64))
    images, labels = folder.split("train")   # images are read when indexed
    folder.class_names                       # ("cat", "dog")

`find` reads the headers of all files, so that a file that is not an image, a
missing class or images of different sizes are reported at once.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from adt_tf.data import decoding
from adt_tf.data.decoding import Box
from adt_tf.data.disk_images import DiskImages

_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")


@dataclasses.dataclass(frozen=True)
class FolderReader:
    """Reads image files.

    Args:
        root: Path of the folder.
        names: Paths of the files, relative to the folder.
        image_shape: Height, width and channels of the decoded images.
    """

    root: str
    names: Sequence[str]
    image_shape: tuple[int, int, int]
    dtype = np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.names)

    def read(self, index: int, box: Box | None = None) -> np.ndarray:
        """Returns an image, or a part of it, as uint8 [H, W, C]."""
        path = os.path.join(self.root, self.names[index])
        return decoding.decode(path, self.image_shape, box, name=path)

    def content(self, index: int) -> bytes:
        """Returns the bytes of a file."""
        path = pathlib.Path(self.root, self.names[index])
        try:
            return path.read_bytes()
        except OSError as error:
            raise decoding.no_image(str(path), error) from error


@dataclasses.dataclass(frozen=True)
class ImageFolder:
    """The image files of a folder, with their classes.

    Attributes:
        path: Path of the folder.
        splits: Files, as paths relative to the folder, and labels of "train"
            and "test", or of "all".
        class_names: Names of the subfolders, in alphabetical order.
        image_shape: Height, width and channels of the decoded images.
    """

    path: pathlib.Path
    splits: dict[str, tuple[list[str], np.ndarray]]
    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]

    def split(self, name: str) -> tuple[DiskImages, np.ndarray]:
        """Returns the images, which are read when indexed, and the labels."""
        names, labels = self.splits[name]
        reader = FolderReader(str(self.path), names, self.image_shape)
        return DiskImages(reader), labels


def is_folder(name: str) -> bool:
    """Returns whether the name of a data set is the path of a folder.

    The path of a folder must contain a separator, as in ./pets or pets/. A
    name without one is a data set of TensorFlow Datasets.
    """
    separators = [s for s in (os.sep, os.altsep) if s]
    has_separator = any(separator in name for separator in separators)
    return has_separator and os.path.isdir(os.path.expanduser(name))


def find(name: str, image_size: tuple[int, int] | None = None) -> ImageFolder:
    """Finds and checks the image files of a folder.

    Args:
        name: Path of the folder.
        image_size: Height and width to resize all images to; None if all have
            the same size.
    """
    path = pathlib.Path(name).expanduser()
    names = _subfolders(path)
    sources = {"all": path}
    if {"train", "test"} <= set(names):
        sources = {split: path / split for split in ("train", "test")}
    elif "train" in names or "test" in names:
        raise ValueError(
            f"{path} has a subfolder train or test, but not both: it must "
            "have both, or a subfolder for each class."
        )
    classes = {split: _subfolders(source) for split, source in sources.items()}
    class_names = classes.get("train") or classes["all"]
    if len(class_names) < 2:
        raise ValueError(
            f"{next(iter(sources.values()))} must have a subfolder of images "
            "for each of two or more classes. Received: "
            f"{', '.join(class_names) or 'no subfolder'}"
        )
    unknown = sorted(set(classes.get("test", ())) - set(class_names))
    if unknown:
        raise ValueError(
            f"{path}/test has classes that {path}/train lacks: "
            f"{', '.join(unknown)}"
        )
    splits = {
        split: _files(path, "" if split == "all" else split, class_names)
        for split in sources
    }
    sizes, are_grey = _headers(
        os.path.join(path, name)
        for names, _ in splits.values()
        for name in names
    )
    if image_size is None:
        if len(sizes) > 1:
            raise ValueError(
                f"The images in {path} have {len(sizes)} sizes, such as "
                f"{_listed(sizes)}: set the size to resize them to, as in "
                "--image_size=64,64 (`image_size=(64, 64)`)."
            )
        image_size = next(iter(sizes))
    shape = (*image_size, 1 if are_grey else 3)
    return ImageFolder(path, splits, class_names, shape)


def count_undivided(name: str) -> int | None:
    """Returns the number of images of a folder, None if it is divided.

    A divided folder has the subfolders train/ and test/.
    """
    path = pathlib.Path(name).expanduser()
    class_names = _subfolders(path)
    if {"train", "test"} <= set(class_names):
        return None
    return len(_files(path, "", class_names)[1])


def _subfolders(path: pathlib.Path) -> tuple[str, ...]:
    return tuple(
        sorted(
            entry.name
            for entry in os.scandir(path)
            if entry.is_dir() and not entry.name.startswith(".")
        )
    )


def _files(
    root: pathlib.Path, folder: str, class_names: Sequence[str]
) -> tuple[list[str], np.ndarray]:
    """Returns the image files in a folder of the root, and their labels."""
    names, labels = [], []
    for label, class_name in enumerate(class_names):
        source = root / folder / class_name
        if not source.is_dir():
            continue  # A class may be missing from the test split.
        # A str takes a fifth of the memory of a pathlib.Path.
        class_files = [
            os.path.relpath(os.path.join(place, name), root)
            for place, _, files in os.walk(source)
            for name in files
            if name.lower().endswith(_SUFFIXES) and not name.startswith(".")
        ]
        class_files = [
            n for n in class_files if os.path.isfile(os.path.join(root, n))
        ]
        if not class_files:
            raise ValueError(
                f"{source} contains no images. The name of an image file must "
                f"end in one of {', '.join(_SUFFIXES)}."
            )
        names += sorted(class_files, key=lambda name: name.split(os.sep))
        labels += [label] * len(class_files)
    return names, np.array(labels, np.int32)


def _headers(
    paths: Iterable[str],
) -> tuple[dict[tuple[int, int], None], bool]:
    """Returns all sizes, in order, and whether all images are grey."""
    sizes: dict[tuple[int, int], None] = {}
    are_grey = True
    for path in paths:
        size, is_grey = decoding.header(path, name=path)
        sizes[size] = None
        are_grey &= is_grey
    return sizes, are_grey


def _listed(sizes: dict[tuple[int, int], None]) -> str:
    return ", ".join(f"{h}x{w}" for h, w in list(sizes)[:3])

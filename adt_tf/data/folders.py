"""Folders of image files, one subfolder for each class.

    pets/train/cat/1.jpg  pets/train/dog/7.png  pets/test/cat/3.jpg ...
    pets/cat/1.jpg        pets/dog/7.png ...    (a fifth becomes the test split)

    folder = find("pets", image_size=(64, 64))
    images, labels = folder.read("train")
    folder.class_names                       # ("cat", "dog")

The headers of all files are read first, so that a file that is no image, a
missing class or images of several sizes are reported before any work is done.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import numpy as np
from PIL import Image

from adt_tf.files import first_line

_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")
_GREY = ("1", "L", "LA", "I", "I;16", "F")
# What Pillow raises for a file that is damaged, too large or no image.
_UNREADABLE = (
    OSError,
    ValueError,
    SyntaxError,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)


@dataclasses.dataclass(frozen=True)
class ImageFolder:
    """The files of a folder, with the class of each.

    Attributes:
        path: The folder.
        splits: For "train" and "test", or for "all", the files and labels.
        class_names: The names of the subfolders, in alphabetical order.
        image_size: Height and width that all images are brought to.
        is_grey: Whether images are read with one channel, not with three.
    """

    path: pathlib.Path
    splits: dict[str, list[tuple[pathlib.Path, int]]]
    class_names: tuple[str, ...]
    image_size: tuple[int, int]
    is_grey: bool

    def read(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns the images [N, H, W, C] of a split as uint8, and labels."""
        files = self.splits[split]
        height, width = self.image_size
        shape = (len(files), height, width, 1 if self.is_grey else 3)
        images = np.empty(shape, np.uint8)
        for index, (path, _) in enumerate(files):
            images[index] = self._decoded(path)
        return images, np.array([label for _, label in files], np.int32)

    def _decoded(self, path: pathlib.Path) -> np.ndarray:
        height, width = self.image_size
        try:
            with Image.open(path) as image:
                image = _eight_bits(image).convert(
                    "L" if self.is_grey else "RGB"
                )
                if image.size != (width, height):
                    # Pillow's bilinear filter averages where it shrinks.
                    image = image.resize(
                        (width, height), Image.Resampling.BILINEAR
                    )
                array = np.asarray(image)
        except _UNREADABLE as error:
            raise _no_image(path, error) from error
        return array[..., np.newaxis] if self.is_grey else array


def is_folder(name: str) -> bool:
    """Tells whether the name of a data set is the path of a folder.

    A path has a separator, as in ./pets or pets/: without one it is the name
    of a data set of TensorFlow Datasets.
    """
    separators = [s for s in (os.sep, os.altsep) if s]
    has_separator = any(separator in name for separator in separators)
    return has_separator and os.path.isdir(os.path.expanduser(name))


def find(name: str, image_size: tuple[int, int] | None = None) -> ImageFolder:
    """Looks at the files of a folder.

    Args:
        name: Path of the folder.
        image_size: Height and width to resize all images to; None where all
            have one size.
    """
    path = pathlib.Path(name).expanduser()
    names = _subfolders(path)
    sources = {"all": path}
    if {"train", "test"} <= set(names):
        sources = {split: path / split for split in ("train", "test")}
    elif "train" in names or "test" in names:
        raise ValueError(
            f"{path} has a subfolder train or test, but not both: give both, "
            "or one subfolder for each class."
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
        split: _files(source, class_names) for split, source in sources.items()
    }
    files = [file for pairs in splits.values() for file, _ in pairs]
    sizes, modes = _headers(files)
    if image_size is None:
        if len(sizes) > 1:
            raise ValueError(
                f"The images in {path} have {len(sizes)} sizes, such as "
                f"{_listed(sizes)}: say which one to resize them to, as in "
                "--image_size=64,64 (`image_size=(64, 64)`)."
            )
        image_size = next(iter(sizes))
    return ImageFolder(
        path, splits, class_names, image_size, modes <= set(_GREY)
    )


def count_undivided(name: str) -> int | None:
    """Returns the number of images of a folder without train/ and test/."""
    path = pathlib.Path(name).expanduser()
    class_names = _subfolders(path)
    if {"train", "test"} <= set(class_names):
        return None
    return len(_files(path, class_names))


def _subfolders(path: pathlib.Path) -> tuple[str, ...]:
    return tuple(
        sorted(
            entry.name
            for entry in os.scandir(path)
            if entry.is_dir() and not entry.name.startswith(".")
        )
    )


def _files(
    source: pathlib.Path, class_names: Sequence[str]
) -> list[tuple[pathlib.Path, int]]:
    files = []
    for label, name in enumerate(class_names):
        if not (source / name).is_dir():
            continue  # A class may be missing from the test split.
        found = sorted(
            path
            for path in (source / name).rglob("*")
            if path.suffix.lower() in _SUFFIXES
            and not path.name.startswith(".")
            and path.is_file()
        )
        if not found:
            raise ValueError(
                f"{source / name} holds no image: a file must end in one of "
                f"{', '.join(_SUFFIXES)}."
            )
        files += [(path, label) for path in found]
    return files


def _headers(
    files: Sequence[pathlib.Path],
) -> tuple[dict[tuple[int, int], None], set[str]]:
    """Returns the sizes, in the order in which they appear, and the modes."""
    sizes, modes = {}, set()
    for path in files:
        try:
            with Image.open(path) as image:
                sizes[image.height, image.width] = None
                modes.add(image.mode)
        except _UNREADABLE as error:
            raise _no_image(path, error) from error
    return sizes, modes


def _eight_bits(image: Image.Image) -> Image.Image:
    """Brings 16 bits a pixel to 8, which Pillow would cut off at 255."""
    if image.mode not in ("I", "I;16"):
        return image
    values = np.asarray(image, np.float64)
    return Image.fromarray((values / 257).round().clip(0, 255).astype("uint8"))


def _no_image(path: pathlib.Path, error: Exception) -> ValueError:
    return ValueError(
        f"{path} cannot be read as an image: {first_line(error)}. Remove or "
        "replace it."
    )


def _listed(sizes: dict[tuple[int, int], None]) -> str:
    return ", ".join(f"{h}x{w}" for h, w in list(sizes)[:3])

"""A directory of versions, each a SavedModel with all that is known of it.

    version = bundle.write(classifier, "models/digits", complete)
    bundle.newest("models/digits")                   # models/digits/1

TensorFlow Serving takes `models/digits` as a base path: it serves the version
of the highest number, and ignores other names. Each version is written beside
its place and then renamed, so that a server never loads half of one.

    models/digits/1/saved_model.pb, variables/       what is served
                    assets.extra/                    warm-up requests
                    robustness.json                  what is known of it
                    README.md, robustbench.json      the same for others
                    model.onnx, model.tflite, ...    where asked for

What is known of a version lies inside of it, for the next one has other
numbers: a version can be copied, or rolled back, as a whole.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import keras

from adt_tf import files
from adt_tf.serving import saved_model


def write(
    classifier: keras.Model,
    path: str | os.PathLike,
    complete: Callable[[pathlib.Path, int], None] = lambda folder, version: (
        None
    ),
    *,
    class_names: tuple[str, ...] | None = None,
    resize: bool = False,
) -> pathlib.Path:
    """Writes a classifier as the next version of a bundle.

    Args:
        classifier: A Keras model from images to logits.
        path: Directory of the versions; it may be new. Its name is that of
            the model.
        complete: Is called with the directory of the SavedModel and the
            number of the version, before that is in its place, and adds other
            files. Where it raises, nothing is left.
        class_names: A name for each class, or None.
        resize: Whether files of other sizes are resized.

    Returns:
        The directory of the version.
    """
    # Whoever only reads a bundle does without TensorFlow Serving's messages.
    from adt_tf.serving import warmup

    path = pathlib.Path(path)
    _refuse_others(path)
    while True:
        number = max(_versions(path), default=0) + 1
        target = path / str(number)
        try:
            with files.atomic_write(target) as partial:
                saved_model.export(
                    classifier, partial, class_names=class_names, resize=resize
                )
                shape = saved_model.image_shape(classifier)
                warmup.write(partial, path.resolve().name, shape)
                complete(partial, number)
        except OSError:
            if not target.exists():  # else another process was faster
                raise
        else:
            return target


def newest(path: str | os.PathLike) -> pathlib.Path | None:
    """Returns the directory of the newest version, or None without any.

    Args:
        path: Directory of the versions, or anything else.
    """
    versions = _versions(pathlib.Path(path))
    return versions[max(versions)] if versions else None


def _versions(path: pathlib.Path) -> dict[int, pathlib.Path]:
    """Returns all that has a version's name, by its number."""
    if not path.is_dir():
        return {}
    return {
        int(inside.name): inside
        for inside in path.iterdir()
        if inside.name.isascii() and inside.name.isdecimal()
    }


def _refuse_others(path: pathlib.Path) -> None:
    """Raises where a directory is there that holds no versions."""
    if not files.is_taken(path):
        return
    known = set(_versions(path).values())
    if not path.is_dir() or any(
        inside not in known and not files.is_leftover(inside)
        for inside in path.iterdir()
    ):
        raise ValueError(
            "Argument `path` must be a new or an empty directory, or one that "
            "holds nothing but versions (1/, 2/) of a model, so that nothing "
            f"is overwritten. Received: path={str(path)!r}; choose another "
            "--output."
        )

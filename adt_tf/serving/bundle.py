"""Writes a directory of versions, each a SavedModel with its description.

    version = bundle.write(classifier, "models/digits", complete)
    bundle.newest("models/digits")                   # models/digits/1

TensorFlow Serving takes `models/digits` as a base path: it serves the version
of the highest number and ignores other names. Each version is written under
another name and then renamed, so that a server never loads an incomplete one.

    models/digits/1/saved_model.pb, variables/       the served model
                    assets.extra/                    warm-up requests
                    robustness.json                  evaluations and origin
                    README.md, robustbench.json      the same for others
                    model.onnx, model.tflite, ...    other runtimes, on request

The description of a version is inside its directory, because the next version
has other numbers. So a version can be copied or rolled back as a whole.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable, Sequence

import keras

from adt_tf import files
from adt_tf.serving import saved_model

# Results of adt-evaluate and adt-lint, which lie beside the version measured.
_RESULT = re.compile(r"[0-9]+-(evaluation|lint)\b.*")


def write(
    classifier: keras.Model,
    path: str | os.PathLike,
    complete: Callable[[pathlib.Path, int], None] = lambda folder, version: (
        None
    ),
    *,
    class_names: Sequence[str] | None = None,
    resize: bool = False,
) -> pathlib.Path:
    """Writes a classifier as the next version of a bundle.

    Args:
        classifier: A Keras model from images to logits.
        path: Directory of the versions, which may be new. Its name is the
            name of the model.
        complete: Function that adds other files. It is called with the
            directory of the SavedModel and the number of the version, before
            the directory is renamed. If it raises, nothing is written.
        class_names: A name for each class, or None.
        resize: Whether files of other sizes are resized.

    Returns:
        The directory of the version.
    """
    # Reading a bundle does not need TensorFlow Serving's messages.
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
            if not target.exists():  # otherwise another process was faster
                raise
        else:
            return target


def newest(path: str | os.PathLike) -> pathlib.Path | None:
    """Returns the directory of the newest version, or None if there is none.

    Args:
        path: Any path, such as the directory of the versions.
    """
    versions = _versions(pathlib.Path(path))
    return versions[max(versions)] if versions else None


def _versions(path: pathlib.Path) -> dict[int, pathlib.Path]:
    """Returns the paths with a version's name, by their numbers."""
    if not path.is_dir():
        return {}
    return {
        int(child.name): child
        for child in path.iterdir()
        if child.name.isascii() and child.name.isdecimal()
    }


def _refuse_others(path: pathlib.Path) -> None:
    """Raises if a path exists and is not a directory of versions only."""
    if not files.is_taken(path):
        return
    versions = set(_versions(path).values())
    if not path.is_dir() or any(
        child not in versions
        and not files.is_leftover(child)
        and not _RESULT.fullmatch(child.name)
        for child in path.iterdir()
    ):
        raise ValueError(
            "Argument `path` must be a new or an empty directory, or one that "
            "holds nothing but versions (1/, 2/) of a model, so that nothing "
            f"is overwritten. Received: path={str(path)!r}; choose another "
            "--output."
        )

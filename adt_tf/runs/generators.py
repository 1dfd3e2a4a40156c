"""Trains the generators of amortised attacks for an evaluation.

    with trained_generators(attacks, classifier, load_train, epochs=10,
                            directory="build/run"):
        ...                                 # evaluate with the attacks

The trained weights stay on disk until the block ends without an error, so that
a resumed evaluation continues with the same attacks.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from adt_tf import configs, data
from adt_tf.array_files import read_arrays, write_arrays
from adt_tf.attacks import Attack
from adt_tf.evaluation import state


@contextlib.contextmanager
def trained_generators(
    attacks: Sequence[Attack],
    classifier: Any,
    load_train: Callable[[], data.ImageData],
    *,
    epochs: int,
    directory: str | pathlib.Path,
    batch_size: int = 64,
    seed: int = 0,
) -> Iterator[None]:
    """Trains the generators of amortised attacks against the classifier.

    Args:
        attacks: Attacks; those without generators stay as they are.
        classifier: Classifier to attack.
        load_train: Function that returns the training images. It is called
            only if an attack has a generator.
        epochs: Number of epochs.
        directory: Directory for the trained weights.
        batch_size: Number of images in a step.
        seed: Seed of the data order and the noise.
    """
    paths = []
    amortized = [attack for attack in attacks if attack.networks]
    if amortized:
        train = load_train()
    for attack in amortized:
        settings = (configs.fingerprint(attack), epochs, batch_size, seed)
        examples = data.as_examples(train)
        key = state.fingerprint(
            [classifier, *attack.models], *examples, settings
        )
        path = pathlib.Path(directory) / f"unfinished-networks-{key[:16]}.npz"
        logits = state.probe([classifier], examples[0])
        if not _restore(attack, path, logits):
            _train(attack, classifier, train, epochs, batch_size, seed)
            arrays = {k: np.asarray(v) for k, v in _weights(attack).items()}
            write_arrays(path, {"probe": logits, **arrays})
        paths.append(path)
    yield
    for path in paths:
        path.unlink(missing_ok=True)


def _weights(attack: Attack) -> dict[str, Any]:
    variables = [v for model in attack.networks for v in model.variables]
    return {f"weight{i}": variable for i, variable in enumerate(variables)}


def _restore(attack: Attack, path: pathlib.Path, logits: np.ndarray) -> bool:
    """Restores stored weights; returns False if there are none to use."""
    weights = _weights(attack)
    size = sum(np.asarray(weight).nbytes for weight in weights.values())
    size += logits.nbytes + (1 << 20)  # 1 MiB for the headers of the archive.
    arrays = read_arrays(path, largest=size)
    if arrays is None or arrays.keys() != {"probe", *weights}:
        return False
    if any(arrays[k].shape != tuple(v.shape) for k, v in weights.items()):
        return False
    if not all(np.isfinite(arrays[name]).all() for name in weights):
        return False
    if not state.agree(arrays["probe"], logits):
        return False
    print(f"Using the stored weights of {attack.name}.")
    for name, variable in weights.items():
        variable.assign(arrays[name])
    return True


def _train(
    attack: Attack,
    classifier: Any,
    train: data.ImageData,
    epochs: int,
    batch_size: int,
    seed: int,
) -> None:
    print(f"Training {attack.name} against the classifier ...")
    batch_size = min(batch_size, len(train))
    steps = data.steps_per_epoch(train, batch_size)
    batches = data.train_pipeline(train, batch_size=batch_size, seed=seed)
    amortized: Any = attack  # Not every attack has `fit`.
    amortized.fit(classifier, batches.take(epochs * steps), epochs=1, seed=seed)

"""One training run from a configuration, kept in a workdir.

    run = Experiment.from_config(config)         # the flags, as a dict
    run.train("build/run")                       # goes on where it stopped
    evaluate_workdir("build/run", config, attacks=["pgd-20"])
    export_workdir("build/run", config)

A workdir holds metrics.csv, tensorboard/, checkpoints/, classifier.keras and,
once evaluated, evaluation.json. Everything is built, and all input checked,
before a file is written.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf import attacks as attack_recipes
from adt_tf import (
    callbacks,
    data,
    evaluation,
    methods,
    networks,
    saved_model,
)
from adt_tf.optimizers import SGD
from adt_tf.trainer import AdversarialTrainer

CLASSIFIER = "classifier.keras"
BEST = "best.keras"
EVALUATION = "evaluation.json"

_METHOD_ARGUMENTS = (
    "epsilon",
    "num_steps",
    "step_size",
    "num_samples",
    "entropy_weight",
    "entropy_reduction",
    "entropy_threshold",
    "gradient_decay",
    "beta",
    "pairing_weight",
    "label_smoothing",
    "width_factor",
)


@dataclasses.dataclass
class Experiment:
    """A compiled trainer with its data.

    Args:
        trainer: Ready for `fit`.
        train_data: The training set.
        validation_data: Attacked after each epoch, or None.
        epochs: Passes over the training set.
        batch_size: Of a step.
        seed: Of order and augmentation.
        augment: Whether images are cropped and flipped at random.
        keep_best: Whether the best epoch by robust accuracy is kept.
        epsilon_warmup: Epochs over which epsilon grows to its value.
        epsilon: Radius of the attack that chooses the best epoch.
    """

    trainer: AdversarialTrainer
    train_data: data.ImageData
    validation_data: data.ImageData | None
    epochs: int
    batch_size: int
    seed: int
    augment: bool
    keep_best: bool = False
    epsilon_warmup: int = 0
    epsilon: float = 8 / 255

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Experiment:
        """Builds a run from the values of the flags in scripts/common.py."""
        for name in ("epochs", "batch_size"):
            if config[name] < 1:
                raise ValueError(
                    f"--{name} must be at least 1. Received: {config[name]}"
                )
        for name in ("learning_rate", "weight_decay", "epsilon_warmup"):
            if config[name] < 0:
                raise ValueError(
                    f"--{name} must not be negative. Received: {config[name]}"
                )
        if config["keep_best"] and not config["validation_examples"]:
            raise ValueError(
                "--keep_best chooses by a part held out of the training set: "
                "say how large, as in --validation_examples=1000."
            )
        arguments = {
            name: config[name]
            for name in _METHOD_ARGUMENTS
            if config[name] is not None
        }
        taken = methods.arguments(config["method"])
        train_data = _load(config, "train", config["train_examples"])
        for name, value in (
            ("input_shape", train_data.input_shape),
            ("seed", config["seed"]),
        ):
            if name in taken:
                arguments[name] = value
        method = methods.get(config["method"], **arguments)
        held_out = config["validation_examples"]
        validation = _load(config, "validation") if held_out else None
        classifier = networks.get(
            config["network"],
            input_shape=train_data.input_shape,
            num_classes=train_data.num_classes,
            seed=config["seed"],
        )
        trainer = AdversarialTrainer(
            classifier,
            method.attack,
            method.loss,
            seed=config["seed"],
            outer_samples=config["outer_samples"],
        )
        steps = data.steps_per_epoch(train_data, config["batch_size"])
        jit = {"auto": "auto", "true": True, "false": False}
        trainer.compile(
            SGD(
                _schedule(config, steps),
                momentum=config["momentum"],
                l2=config["weight_decay"],
                use_ema=config["ema_momentum"] is not None,
                ema_momentum=0.99
                if config["ema_momentum"] is None
                else config["ema_momentum"],
            ),
            jit_compile=jit[config["jit_compile"]],
        )
        augment = config["augment"]
        if augment is None:
            augment = data.default_augment(config["dataset"])
        return cls(
            trainer,
            train_data,
            validation,
            config["epochs"],
            config["batch_size"],
            config["seed"],
            augment,
            config["keep_best"],
            config["epsilon_warmup"],
            config["epsilon"],
        )

    def train(self, workdir: str | pathlib.Path) -> None:
        """Trains to the end, from the last finished epoch in the workdir."""
        workdir = pathlib.Path(workdir)
        trainer, steps = self.trainer, self._steps()
        checkpoint = trainer.checkpoint()
        manager = tf.train.CheckpointManager(
            checkpoint, str(workdir / "checkpoints"), max_to_keep=2
        )
        if manager.latest_checkpoint:
            checkpoint.restore(manager.latest_checkpoint).assert_consumed()
        done = int(trainer.optimizer.iterations)
        epoch = done // steps
        if epoch >= self.epochs and (workdir / CLASSIFIER).exists():
            print(f"{workdir} is finished: {epoch} epochs.")
            return
        if done:
            print(f"Going on after epoch {epoch} of {self.epochs}.")
        _drop_rows(workdir / "metrics.csv", epoch)
        start = time.time()
        self.trainer.fit(
            data.train_pipeline(
                self.train_data,
                batch_size=self.batch_size,
                seed=self.seed,
                augment=self.augment,
                start_step=done,
            ),
            validation_data=self.validation_data
            and data.eval_pipeline(self.validation_data, self.batch_size),
            steps_per_epoch=steps,
            shuffle=False,
            initial_epoch=epoch,
            epochs=self.epochs,
            callbacks=self._callbacks(workdir, manager),
        )
        _save(trainer.classifier, workdir / CLASSIFIER)
        print(
            f"Trained in {time.time() - start:.0f} s. The classifier is "
            f"{workdir / CLASSIFIER}"
        )

    def _callbacks(self, workdir, manager) -> list[keras.callbacks.Callback]:
        """In order: averaged weights, the state, measures, logs.

        The state is saved when the next epoch begins, and at the end: after
        all that an epoch leaves behind is on the disk, and after averaged
        weights have been swapped back for those that are trained.
        """
        start = int(self.trainer.optimizer.iterations) // self._steps()
        chosen = []
        if self.trainer.optimizer.use_ema:
            chosen.append(keras.callbacks.SwapEMAWeights(swap_on_epoch=True))
        chosen.append(
            keras.callbacks.LambdaCallback(
                on_epoch_begin=lambda epoch, logs: (
                    manager.save(epoch) if epoch > start else None
                ),
                on_epoch_end=_check_finite,
                on_train_end=lambda logs: manager.save(self.epochs),
            )
        )
        if self.epsilon_warmup:
            chosen.append(callbacks.EpsilonWarmup(self.epsilon_warmup))
        if self.keep_best:
            chosen.append(
                callbacks.RobustCheckpoint(
                    self.validation_data, self.epsilon, workdir / BEST
                )
            )
        return [
            *chosen,
            keras.callbacks.TensorBoard(
                str(workdir / "tensorboard"), write_graph=False
            ),
            keras.callbacks.CSVLogger(
                str(workdir / "metrics.csv"), append=True
            ),
        ]

    def _steps(self) -> int:
        return data.steps_per_epoch(self.train_data, self.batch_size)


def evaluate_workdir(
    workdir: str | pathlib.Path,
    config: dict[str, Any],
    *,
    attacks: Sequence[str],
    test_examples: int | None = None,
    batch_size: int = 128,
    output: str | None = None,
    given: Sequence[str] = (),
) -> evaluation.Report:
    """Attacks the classifier of a workdir and writes evaluation.json.

    `given` are flags that differ from the run's, for the command it records.
    """
    chosen = [attack_recipes.get(n, config["epsilon"]) for n in attacks]
    classifier = load_classifier(workdir)
    test = _load(config, "test", test_examples)
    report = evaluation.evaluate(
        classifier, test, chosen, batch_size=batch_size, seed=config["seed"]
    )
    print(f"{config['method']} on {test.name}")
    print(report)
    path = pathlib.Path(output or pathlib.Path(workdir) / EVALUATION)
    command = [
        "python scripts/evaluate.py",
        f"--workdir={workdir}",
        f"--attacks={','.join(attacks)}",
        *given,
    ]
    if test_examples:
        command.append(f"--test_examples={test_examples}")
    details = {"command": " ".join(command)} | {
        name: config[name]
        for name in ("method", "dataset", "data_dir", "network", "epsilon")
    }
    _write_text(
        path, json.dumps({**details, **report.to_dict()}, indent=2) + "\n"
    )
    print(f"Written to {path}")
    return report


def export_workdir(
    workdir: str | pathlib.Path,
    config: dict[str, Any],
    *,
    output: str | None = None,
) -> None:
    """Exports the classifier of a workdir, and loads it back elsewhere."""
    classifier = load_classifier(workdir)
    path = pathlib.Path(output or pathlib.Path(workdir) / "saved_model")
    images, _ = data.as_arrays(_load(config, "test"))
    images = images[:64]
    if path.is_dir() and any(path.iterdir()):
        print(f"{path} is there already; it is checked, not written again.")
    else:
        saved_model.export(classifier, path)
    error = saved_model.verify(path, images, _logits(classifier, images))
    print(
        f"SavedModel in {path}: float, uint8 and PNG/JPEG signatures, loaded "
        f"back in a process without adt_tf, largest logit error {error:.1e}"
    )


def load_classifier(workdir: str | pathlib.Path) -> keras.Model:
    """Loads the classifier of a finished run: the best kept, or the last."""
    path = pathlib.Path(workdir) / CLASSIFIER
    if not path.is_file():
        raise ValueError(
            f"{path} does not exist: the run has not finished. Train it with "
            "scripts/train.py first."
        )
    best = path.with_name(BEST)
    return keras.saving.load_model(
        best if best.exists() else path, safe_mode=True, compile=False
    )


def _load(
    config: dict[str, Any], split: str, num_examples: int | None = None
) -> data.ImageData:
    return data.load(
        config["dataset"],
        split=split,
        data_dir=config["data_dir"],
        num_examples=num_examples,
        validation_examples=config["validation_examples"],
        seed=config["seed"],
        download=config["download"],
    )


def _schedule(config: dict[str, Any], steps: int) -> Any:
    rate = config["learning_rate"]
    try:
        drops = [int(epoch) for epoch in config["drop_after"]]
    except ValueError as error:
        raise ValueError(
            "--drop_after must be whole numbers of epochs, as in 100,150. "
            f"Received: {','.join(config['drop_after'])}"
        ) from error
    if drops != sorted(set(drops)) or min(drops, default=1) < 1:
        raise ValueError(
            "--drop_after must be increasing numbers of epochs from 1 on, as "
            f"in 100,150. Received: {','.join(config['drop_after'])}"
        )
    if not drops:
        return rate
    # Keras keeps the first rate while iterations <= boundary; step n is taken
    # at iterations == n, so the first step of the next epoch is steps * epoch.
    return keras.optimizers.schedules.PiecewiseConstantDecay(
        [steps * epoch - 1 for epoch in drops],
        [rate * 0.1**n for n in range(len(drops) + 1)],
    )


def _check_finite(epoch: int, logs: dict[str, Any]) -> None:
    """Stops a run that has diverged before its state is saved."""
    if not np.isfinite(logs["loss"]):
        raise ValueError(
            f"The loss of epoch {epoch + 1} is not finite. The state before "
            "it is kept in checkpoints/. Try a smaller --learning_rate, or "
            "--epsilon_warmup, in another --workdir."
        )


def _drop_rows(path: pathlib.Path, epoch: int) -> None:
    """Drops what a killed run has logged of epochs that are run again."""
    if path.exists():
        header, *rows = path.read_text().splitlines(keepends=True)
        kept = [row for row in rows if int(row.split(",")[0]) < epoch]
        _write_text(path, "".join([header, *kept]))


def _logits(classifier: keras.Model, images: np.ndarray) -> np.ndarray:
    return np.asarray(classifier(images, training=False))


def _save(classifier: keras.Model, path: pathlib.Path) -> None:
    """Saves beside, then renames: a killed process leaves no broken file."""
    partial = path.with_name(f"partial-{path.name}")
    classifier.save(partial)
    os.replace(partial, path)


def _write_text(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{path.name}")
    partial.write_text(text)
    os.replace(partial, path)

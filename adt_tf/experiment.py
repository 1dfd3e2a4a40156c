"""One training run from a configuration, kept in a workdir.

    run = Experiment.from_config(config)         # the flags, as a dict
    run.train("build/run")                       # goes on where it stopped

Everything is built, and all input checked, before a file is written.
"""

from __future__ import annotations

import dataclasses
import pathlib
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf import callbacks, data, methods, networks
from adt_tf import workdir as workdirs
from adt_tf.files import write_text
from adt_tf.optimizers import SGD
from adt_tf.trainer import AdversarialTrainer

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
        train_data = workdirs.load_data(
            config, "train", config["train_examples"]
        )
        for name, value in (
            ("input_shape", train_data.input_shape),
            ("seed", config["seed"]),
        ):
            if name in taken:
                arguments[name] = value
        method = methods.get(config["method"], **arguments)
        held_out = config["validation_examples"]
        validation = (
            workdirs.load_data(config, "validation") if held_out else None
        )
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
        if epoch >= self.epochs and (workdir / workdirs.CLASSIFIER).exists():
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
        workdirs.save_classifier(
            trainer.classifier, workdir / workdirs.CLASSIFIER
        )
        print(
            f"Trained in {time.time() - start:.0f} s. The classifier is "
            f"{workdir / workdirs.CLASSIFIER}"
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
                    self.validation_data, self.epsilon, workdir / workdirs.BEST
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
        write_text(path, "".join([header, *kept]))

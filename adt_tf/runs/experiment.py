"""One training run from a configuration, kept in a workdir.

    run = Experiment.from_config(Config(method="at_pgd"))
    run.train("build/run")                       # goes on where it stopped

Everything is built, and all input checked, before a file is written.
"""

from __future__ import annotations

import dataclasses
import os
import time
import zlib
from collections.abc import Callable
from typing import Any

import keras

from adt_tf import callbacks, data, methods, precision
from adt_tf.optimizers import SGD, innermost
from adt_tf.runs import inputs, provenance, strategies
from adt_tf.runs.checkpoint_schedule import Policy, SaveState
from adt_tf.runs.config import Config
from adt_tf.runs.training import train_to_the_end
from adt_tf.runs.workdir import Workdir
from adt_tf.threat_models import Linf, ThreatModel
from adt_tf.trainer import AdversarialTrainer

# By --on_nonfinite.
_MAX_ROLLBACKS = {"stop": 0, "rollback": 3}


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
        threat_model: Ball of the attack that chooses the best epoch.
        policy: When the state is saved, and how much of it is kept.
        max_rollbacks: How often to go back to the last epoch's end, with other
            noise, after a loss or gradient that is not finite.
        network_file: Name and fingerprint of the file that the classifier
            comes from, or None.
        crop: How images are cropped: "shift" or "resized".
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
    threat_model: ThreatModel = Linf(8 / 255)
    policy: Policy = Policy()
    max_rollbacks: int = 0
    network_file: dict[str, str] | None = None
    crop: str = "shift"

    @classmethod
    def from_config(
        cls,
        config: Config,
        *,
        build_network: Callable[..., keras.Model] | None = None,
    ) -> Experiment:
        """Builds a run from its configuration.

        Args:
            config: Configuration of the run.
            build_network: Function that builds the classifier, where --network
                is package.module:function; called with `input_shape` and
                `num_classes`.
        """
        # First of all: other machines are to be met before anything is done.
        strategy = strategies.get(config.distribute)
        strategies.check_divisible(
            strategy,
            batch_size=config.batch_size,
            validation_examples=config.validation_examples,
        )
        same = dataclasses.replace(config, data_dir=None, download=False)
        strategies.check_equal(
            strategy, "flags", zlib.crc32(same.to_flags().encode())
        )
        with strategy.scope(), precision.policy(config.precision):
            return cls._from_config(config, build_network)

    @classmethod
    def _from_config(
        cls, config: Config, build_network: Callable[..., keras.Model] | None
    ) -> Experiment:
        policy = Policy(
            config.checkpoint_steps,
            config.checkpoint_minutes,
            config.keep_checkpoints,
        )
        threat_model = inputs.threat_model(config)
        arguments = {**config.method_arguments(), "epsilon": threat_model}
        taken = methods.arguments(config.method)
        train_data = inputs.load_data(config, "train", config.train_examples)
        for name, value in (
            ("input_shape", train_data.input_shape),
            ("seed", config.seed),
        ):
            if name in taken:
                arguments[name] = value
        method = methods.get(config.method, **arguments)
        held_out = config.validation_examples
        validation = (
            inputs.load_data(config, "validation") if held_out else None
        )
        network_file = provenance.network_file(
            config.network_file or config.weights
        )
        classifier = inputs.start_network(config, train_data, build_network)
        trainer = AdversarialTrainer(
            classifier,
            method.attack,
            method.loss,
            seed=config.seed,
            outer_samples=config.outer_samples,
        )
        steps = data.steps_per_epoch(train_data, config.batch_size)
        jit = {"auto": "auto", "true": True, "false": False}
        trainer.compile(
            SGD(
                _schedule(config, steps),
                momentum=config.momentum,
                l2=config.weight_decay,
                use_ema=config.ema_momentum is not None,
                ema_momentum=0.99
                if config.ema_momentum is None
                else config.ema_momentum,
            ),
            jit_compile=jit[config.jit_compile],
        )
        augment = config.augment
        if augment is None:
            augment = data.default_augment(config.dataset)
            augment = augment or config.crop != "shift"
        return cls(
            trainer,
            train_data,
            validation,
            config.epochs,
            config.batch_size,
            config.seed,
            augment,
            config.keep_best,
            config.epsilon_warmup,
            threat_model,
            policy,
            _MAX_ROLLBACKS[config.on_nonfinite],
            network_file,
            config.crop,
        )

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one of all workers that writes."""
        return strategies.is_chief(self.trainer.distribute_strategy)

    def train(
        self, workdir: str | os.PathLike, *, flags: str | None = None
    ) -> None:
        """Trains to the end, from the newest checkpoint in the workdir.

        A run may be given more epochs than it had, finished or not: data
        order, noise and learning rate of an epoch depend on its number alone,
        so that it ends as if it had been longer from the start.

        Args:
            workdir: Directory of the run.
            flags: Resolved flags of the run, which the workdir keeps; it is
                refused if it holds those of another run. None neither keeps
                nor compares any.
        """
        workdir = Workdir(workdir)
        previous_epochs = workdir.epochs_to_extend(flags)
        if previous_epochs is not None:
            self._check_origin(workdir)
            self._announce_more_epochs(workdir, previous_epochs)
        elif workdir.is_finished:
            workdir.check_flags(flags)
            self._check_origin(workdir)
            print(f"{workdir.path} is finished: {self.epochs} epochs.")
            return
        with workdir.claim(flags, writes=self.is_chief):
            self._check_origin(workdir)
            self._train(workdir)

    def _announce_more_epochs(self, workdir: Workdir, previous: int) -> None:
        """Says what more epochs mean for the learning rate, or refuses them."""
        optimizer = innermost(self.trainer.optimizer)
        if optimizer.use_ema:
            # Keras replaces the weights by their averages in the last epoch.
            raise ValueError(
                f"The run in {workdir.path} has --epochs={previous} and "
                "averages its weights (--ema_momentum), so it cannot be made "
                "longer and nothing was changed. Choose another --workdir."
            )
        steps = data.steps_per_epoch(self.train_data, self.batch_size)
        first, last = (
            _learning_rate(optimizer, steps * epoch)
            for epoch in (previous, self.epochs - 1)
        )
        change = f" and {last:g} at the end" if last != first else ""
        if self.is_chief:
            print(
                f"Going on from {previous} to {self.epochs} epochs, with the "
                f"learning rate {first:g}{change} in the new ones, since "
                "--drop_after counts from the first: as if there had been "
                f"{self.epochs} from the start."
            )

    def _check_origin(self, workdir: Workdir) -> None:
        provenance.check_data(
            workdir.provenance, self.train_data, self.validation_data
        )
        provenance.check_network_file(workdir.provenance, self.network_file)

    def _train(self, workdir: Workdir) -> None:
        if self.is_chief:
            provenance.record(
                workdir.provenance,
                self.train_data,
                self.validation_data,
                network_file=self.network_file,
            )
        start = time.time()
        train_to_the_end(
            self, workdir, lambda save: self._callbacks(workdir, save)
        )
        if not self.is_chief:
            return
        workdir.save_classifier(self.trainer.classifier)
        print(
            f"Trained in {time.time() - start:.0f} s. The classifier is "
            f"{workdir.classifier}"
        )

    def _callbacks(
        self, workdir: Workdir, save: SaveState
    ) -> list[keras.callbacks.Callback]:
        """In order: averaged weights, the state, measures, logs."""
        chosen = []
        if innermost(self.trainer.optimizer).use_ema:
            chosen.append(keras.callbacks.SwapEMAWeights(swap_on_epoch=True))
        chosen.append(save)
        if self.epsilon_warmup:
            chosen.append(callbacks.EpsilonWarmup(self.epsilon_warmup))
        if not self.is_chief:
            return chosen
        if self.keep_best:
            chosen.append(
                callbacks.RobustCheckpoint(
                    self.validation_data, self.threat_model, workdir.best
                )
            )
        return [
            *chosen,
            keras.callbacks.TensorBoard(
                str(workdir.tensorboard), write_graph=False
            ),
            keras.callbacks.CSVLogger(str(workdir.metrics), append=True),
        ]


def _learning_rate(optimizer: keras.optimizers.Optimizer, step: int) -> float:
    """Returns the learning rate of a step, counted from 0."""
    rate = optimizer.get_config()["learning_rate"]
    if isinstance(rate, dict):
        rate = keras.optimizers.schedules.deserialize(rate)(step)
    return float(rate)


def _schedule(config: Config, steps: int) -> Any:
    rate, drops = config.learning_rate, config.drop_after
    if not drops:
        return rate
    # Keras keeps the first rate while iterations <= boundary; step n is taken
    # at iterations == n, so the first step of the next epoch is steps * epoch.
    return keras.optimizers.schedules.PiecewiseConstantDecay(
        [steps * epoch - 1 for epoch in drops],
        [rate * 0.1**n for n in range(len(drops) + 1)],
    )

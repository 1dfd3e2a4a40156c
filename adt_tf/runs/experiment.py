"""A training run that is built from a configuration and kept in a workdir.

    run = Experiment.from_config(Config(method="at_pgd"))
    run.train("build/run")                       # resumes where it stopped

All parts are built, and all input is checked, before a file is written.
"""

from __future__ import annotations

import dataclasses
import os
import time
import zlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from adt_tf import callbacks, data, precision
from adt_tf.runs import inputs, progress, provenance, recipes, strategies
from adt_tf.runs.checkpoint_schedule import Policy, SaveState
from adt_tf.runs.config import Config
from adt_tf.runs.method_flags import takes
from adt_tf.runs.training import train_to_the_end
from adt_tf.runs.workdir import Workdir
from adt_tf.threat_models import Linf, ThreatModel
from adt_tf.training.trainer import AdversarialTrainer

# Values of --on_nonfinite.
_MAX_ROLLBACKS = {"stop": 0, "rollback": 3}


@dataclasses.dataclass
class Experiment:
    """A compiled trainer with its data.

    Args:
        trainer: Compiled trainer.
        train_data: Training set.
        validation_data: Examples that are attacked after each epoch, or None.
        epochs: Number of epochs.
        batch_size: Number of examples in a step.
        seed: Seed of the data order and the augmentation.
        augment: Whether to crop and flip images at random.
        keep_best: Whether to keep the epoch with the best robust accuracy.
        epsilon_warmup: Number of epochs over which epsilon rises to its value.
        threat_model: Threat model of the attack that selects the best epoch.
        policy: Times of checkpoints, and the number to keep.
        max_rollbacks: Number of times to roll back to the end of an epoch,
            with other noise, after a loss or gradient that is not finite.
        network_file: Name and hash of the initial classifier's file, or None.
        crop: Kind of random crop, "shift" or "resized".
        augmentation: Augmentation after crops and flips.
        extra_data: Extra training data, or None.
        extra_fraction: Fraction of a batch that is extra data.
        can_be_longer: Whether additional epochs leave the first ones unchanged.
        config: Configuration of the run, with all "auto" values resolved, or
            None.
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
    augmentation: data.Augmentation = data.Augmentation()
    extra_data: data.ImageData | None = None
    extra_fraction: float = 0.0
    can_be_longer: bool = True
    config: Config | None = None

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
            build_network: Function that builds the classifier if --network is
                package.module:function. It is called with `input_shape` and
                `num_classes`.
        """
        # Connecting to other machines must come before any TensorFlow op.
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
            experiment = cls._from_config(config, build_network)
        # Each machine resolves "auto" for its own CPU.
        choice = (experiment.config or config).search_precision
        strategies.check_equal(
            strategy, "--search_precision", zlib.crc32(choice.encode())
        )
        return experiment

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
        train_data = inputs.load_data(config, "train", config.train_examples)
        extra_data = inputs.load_extra_data(config, train_data)
        network_file = provenance.network_file(
            config.network_file or config.weights
        )
        classifier = inputs.start_network(config, train_data, build_network)
        config = _resolved(config, classifier)
        method = recipes.method(config, train_data, threat_model)
        held_out = config.validation_examples
        validation = (
            inputs.load_data(config, "validation") if held_out else None
        )
        steps = data.steps_per_epoch(train_data, config.batch_size)
        trainer = AdversarialTrainer(
            classifier,
            method.attack,
            method.loss,
            seed=config.seed,
            outer_samples=config.outer_samples,
            outer_step=recipes.outer_step(config, steps),
            average=recipes.average(config),
        )
        jit: dict[str, bool | str] = {
            "auto": "auto",
            "true": True,
            "false": False,
        }
        trainer.compile(
            recipes.optimizer(config, steps),
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
            data.Augmentation(config.randaugment, config.cutout, config.cutmix),
            extra_data,
            config.extra_fraction or 0.0,
            config.schedule == "steps",
            config,
        )

    def batches(self, start_step: int = 0) -> tf.data.Dataset:
        """Returns an infinite data set of training batches.

        Args:
            start_step: Step of the first batch.
        """
        arguments: dict[str, Any] = {
            "batch_size": self.batch_size,
            "seed": self.seed,
            "augment": self.augment,
            "crop": self.crop,
            "start_step": start_step,
        }
        if self.extra_data is None:
            batches = data.train_pipeline(self.train_data, **arguments)
        else:
            batches = data.mixed_pipeline(
                self.train_data,
                self.extra_data,
                fraction=self.extra_fraction,
                **arguments,
            )
        return data.augmented(
            batches,
            self.augmentation,
            num_classes=self.train_data.num_classes,
            seed=self.seed,
            start_step=start_step,
        )

    def batch_indices(self, step: int) -> list[int]:
        """Returns the indices of the training examples of a step."""
        size = self.batch_size
        if self.extra_data is not None:
            size, _ = data.split_batch(size, self.extra_fraction)
        indices = data.batch_indices(
            self.train_data, batch_size=size, seed=self.seed, step=step
        )
        return indices.tolist()

    @property
    def is_chief(self) -> bool:
        """Whether this process is the worker that writes files."""
        return strategies.is_chief(self.trainer.distribute_strategy)

    @property
    def flags(self) -> str | None:
        """The resolved flags of the run as text, or None."""
        return self.config.to_flags() if self.config else None

    def train(
        self, workdir: str | os.PathLike, *, flags: str | None = None
    ) -> None:
        """Trains until the last epoch, from the newest checkpoint on.

        A run can be extended to more epochs, whether it is finished or not.
        The data order, noise and learning rate of an epoch depend only on its
        number, so the result equals that of a run that was longer from the
        start.

        Args:
            workdir: Directory of the run.
            flags: Resolved flags, which are stored in the workdir. A workdir
                with the flags of another run is refused. None neither stores
                nor compares flags.
        """
        run = Workdir(workdir)
        previous_epochs = run.epochs_to_extend(flags)
        if previous_epochs is not None:
            self._check_origin(run)
            self._announce_more_epochs(run, previous_epochs)
        elif run.is_finished:
            run.check_flags(flags)
            self._check_origin(run)
            print(f"{run.path} is finished: {self.epochs} epochs.")
            return
        with run.claim(flags, writes=self.is_chief):
            self._check_origin(run)
            self._train(run)

    def _announce_more_epochs(self, workdir: Workdir, previous: int) -> None:
        """Prints the learning rate of the additional epochs, or raises."""
        if not self.can_be_longer:
            raise ValueError(
                f"The run in {workdir.path} has --epochs={previous}, and its "
                "learning rate depends on that number (--schedule), so it "
                "cannot be extended and nothing was changed. Choose another "
                "--workdir."
            )
        steps = data.steps_per_epoch(self.train_data, self.batch_size)
        first, last = (
            recipes.learning_rate(self.trainer.optimizer, steps * epoch)
            for epoch in (previous, self.epochs - 1)
        )
        change = f" and {last:g} at the end" if last != first else ""
        if self.is_chief:
            print(
                f"Extending the run from {previous} to {self.epochs} epochs. "
                f"The learning rate of the new epochs is {first:g}{change}, as "
                f"in a run of {self.epochs} epochs from the start, since "
                "--drop_after counts from the first epoch."
            )

    def _check_origin(self, workdir: Workdir) -> None:
        provenance.check_data(
            workdir.provenance,
            self.train_data,
            self.validation_data,
            self.extra_data,
        )
        provenance.check_network_file(workdir.provenance, self.network_file)

    def _train(self, workdir: Workdir) -> None:
        if self.is_chief:
            provenance.record(
                workdir.provenance,
                self.train_data,
                self.validation_data,
                self.extra_data,
                network_file=self.network_file,
            )
            print(progress.data_summary(self))
        start = time.time()
        train_to_the_end(
            self, workdir, lambda save: self._callbacks(workdir, save)
        )
        if not self.is_chief:
            return
        if self.trainer.average:
            self.trainer.average.swap()
        workdir.save_classifier(self.trainer.classifier)
        print(
            f"Trained in {time.time() - start:.0f} s. The classifier is "
            f"{workdir.classifier}"
        )

    def _callbacks(
        self, workdir: Workdir, save: SaveState
    ) -> list[keras.callbacks.Callback]:
        """Returns the callbacks: average, checkpoints, measurements, logs."""
        all_workers = []
        if self.trainer.average:
            all_workers.append(callbacks.AveragedWeights())
        all_workers.append(save)
        if self.epsilon_warmup:
            all_workers.append(callbacks.EpsilonWarmup(self.epsilon_warmup))
        if not self.is_chief:
            return all_workers
        measurements = []
        if self.keep_best:
            measurements.append(
                callbacks.RobustCheckpoint(
                    self.validation_data, self.threat_model, workdir.best
                )
            )
        return [
            *all_workers,
            *measurements,
            keras.callbacks.TensorBoard(
                str(workdir.tensorboard), write_graph=False
            ),
            keras.callbacks.CSVLogger(str(workdir.metrics), append=True),
            progress.Bar(),
        ]


def _resolved(config: Config, classifier: keras.Model) -> Config:
    """Returns the configuration with --search_precision=auto resolved."""
    choice = config.search_precision
    if choice == "auto" and not takes(config.method, "search_precision"):
        choice = "float32"
    choice = precision.of_search(choice, classifier)
    return dataclasses.replace(config, search_precision=choice)

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

import keras
import tensorflow as tf

from adt_tf import callbacks, data, precision
from adt_tf.runs import inputs, provenance, recipes, strategies
from adt_tf.runs.checkpoint_schedule import Policy, SaveState
from adt_tf.runs.config import Config
from adt_tf.runs.method_flags import takes
from adt_tf.runs.training import train_to_the_end
from adt_tf.runs.workdir import Workdir
from adt_tf.threat_models import Linf, ThreatModel
from adt_tf.training.trainer import AdversarialTrainer

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
        augmentation: What images go through after crops and flips.
        extra_data: Further training data, or None.
        extra_fraction: Share of a batch that is extra data.
        can_be_longer: Whether more epochs leave the first ones as they are.
        config: The configuration it was built from, with all that this leaves
            to the machine resolved; None where there is none.
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
            experiment = cls._from_config(config, build_network)
        # Each machine has resolved it by its own CPU.
        choice = experiment.config.search_precision
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
        jit = {"auto": "auto", "true": True, "false": False}
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
        """Returns the endless batches of training.

        Args:
            start_step: Step of the first batch.
        """
        arguments = {
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
        """Returns which examples of the training set a step reads."""
        size = self.batch_size
        if self.extra_data is not None:
            size, _ = data.split_batch(size, self.extra_fraction)
        indices = data.batch_indices(
            self.train_data, batch_size=size, seed=self.seed, step=step
        )
        return indices.tolist()

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one of all workers that writes."""
        return strategies.is_chief(self.trainer.distribute_strategy)

    @property
    def flags(self) -> str | None:
        """The text of the flags of the run, all of them resolved."""
        return self.config.to_flags() if self.config else None

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
        if not self.can_be_longer:
            raise ValueError(
                f"The run in {workdir.path} has --epochs={previous} and a "
                "learning rate that depends on their number (--schedule), so "
                "it cannot be made longer and nothing was changed. Choose "
                "another --workdir."
            )
        steps = data.steps_per_epoch(self.train_data, self.batch_size)
        first, last = (
            recipes.learning_rate(self.trainer.optimizer, steps * epoch)
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
        """In order: averaged weights, the state, measures, logs."""
        chosen = []
        if self.trainer.average:
            chosen.append(callbacks.AveragedWeights())
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


def _resolved(config: Config, classifier: keras.Model) -> Config:
    """Returns the configuration with the precision of the search resolved."""
    choice = config.search_precision
    if choice == "auto" and not takes(config.method, "search_precision"):
        choice = "float32"
    choice = precision.of_search(choice, classifier)
    return dataclasses.replace(config, search_precision=choice)

"""Compilation of a trainer: its two optimisers, metrics and state.

The classifier's weights descend with the optimiser of `compile`, the attack's
own weights ascend with `attack_optimizer`.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from adt_tf import checks, optimizers
from adt_tf.attacks.tracing import use_xla
from adt_tf.training.accuracy import Accuracy, as_metrics
from adt_tf.training.averaging import WeightAverage


class CompiledModel(keras.Model):
    """A Keras model with an optimiser for the attack's own weights.

    Subclasses have a `classifier`, `attack_networks`, `average` and
    `rollbacks`.
    """

    classifier: keras.Model
    attack_networks: list[keras.Model]
    average: WeightAverage | None
    rollbacks: tf.Variable

    def compile(
        self,
        optimizer: Any = "sgd",
        attack_optimizer: Any = None,
        metrics: Any = ("accuracy",),
        jit_compile: bool | str = "auto",
        **arguments: Any,
    ) -> None:
        """Configures `fit`.

        Args:
            optimizer: Optimiser of the classifier's weights, which descend.
            attack_optimizer: Optimiser of the attack's own weights, which
                ascend; by default Adam(2e-4, beta_1=0.5). Unused if the attack
                has no weights.
            metrics: Metrics on the adversarial images: a list, one metric, or
                a dictionary with the name of the output. They receive labels
                in the form of the data.
            jit_compile: Whether XLA compiles the step of the inner problem.
                "auto" compiles on accelerators; on a CPU oneDNN is faster.
            **arguments: Further arguments of `keras.Model.compile`, except
                `loss`.
        """
        if arguments.pop("loss", None) is not None:
            raise ValueError(
                "Argument `loss` does not belong in `compile`: pass the "
                "robust loss to `AdversarialTrainer(classifier, attack, "
                "loss)`."
            )
        metrics = as_metrics(metrics)
        self._takes_any_labels = all(
            isinstance(metric, Accuracy) for metric in metrics
        )
        # XLA may compile a step of the inner loop, but not the loop, so the
        # train_step as a whole is not compiled.
        self.jit_choice = jit_compile
        self.inner_jit_compile = use_xla(jit_compile)
        super().compile(
            optimizer=optimizer,
            metrics=metrics,
            jit_compile=False,
            **arguments,
        )
        with self.distribute_strategy.scope():
            self.attack_optimizer = optimizers.scaled_like(
                self.optimizer,
                keras.optimizers.get(
                    attack_optimizer or keras.optimizers.Adam(2e-4, beta_1=0.5)
                ),
            )

    def make_train_function(self, force: bool = False) -> Any:
        """Builds the training function, after all variables.

        TensorFlow traces a function twice if its first trace creates variables.
        """
        # A rebuilt function has its variables, and metrics may be in mid-epoch.
        is_first = self.train_function is None
        replicas = self.distribute_strategy.num_replicas_in_sync
        # A subclassed model has no weights before it has seen an image.
        if is_first and replicas == 1 and self.classifier.built:
            self.build_optimizers()
            classes = checks.num_classes(self.classifier)
            # Other metrics depend on the form of the labels, not known here.
            if classes is not None and self._takes_any_labels:
                self.compute_metrics(
                    None, tf.zeros([1], tf.int32), tf.zeros([1, classes])
                )
                self.reset_metrics()
        return super().make_train_function(force)

    def build_optimizers(self) -> None:
        """Creates the variables of both optimisers and of the average."""
        parts = [(self.optimizer, self.classifier.trainable_variables)]
        if self.attack_networks:
            parts.append((self.attack_optimizer, self._attack_variables()))
        with self.distribute_strategy.scope():
            for optimizer, variables in parts:
                # Building again would reset the scale of a loss scaler.
                if not optimizer.built:
                    optimizer.build(variables)
            if self.average:
                self.average.build(self.classifier)

    def checkpoint(self) -> tf.train.Checkpoint:
        """Returns the complete state of training as a checkpoint.

        After it is restored into a trainer of the same parts and compilation,
        the next step is the same, bit for bit.
        """
        parts = {
            "classifier": self.classifier,
            "optimizer": self.optimizer,
            "rollbacks": self.rollbacks,
        }
        self.build_optimizers()
        if self.attack_networks:
            parts["attack_optimizer"] = self.attack_optimizer
            for i, network in enumerate(self.attack_networks):
                parts[f"attack_network_{i}"] = network
        if self.average:
            parts["average"] = self.average.variables
        states = _random_states([self.classifier, *self.attack_networks])
        if states:
            parts["random_states"] = states
        return tf.train.Checkpoint(**parts)

    def _attack_variables(self) -> list[Any]:
        return [v for n in self.attack_networks for v in n.trainable_variables]


def _random_states(models: list[keras.Model]) -> list[tf.Variable]:
    """Returns the states of random generators, such as that of a dropout.

    A `tf.train.Checkpoint` does not find them in a Keras model.
    """
    states = []
    for model in models:
        weights = {id(weight) for weight in model.weights}
        states += [v.value for v in model.variables if id(v) not in weights]
    return states

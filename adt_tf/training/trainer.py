"""The only train_step: solve the inner problem, then one step of theta.

    trainer = AdversarialTrainer(classifier, method.attack, method.loss)
    trainer.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9))
    trainer.fit(train, validation_data=validation, epochs=3)

The classifier stays an ordinary Keras model that you own: after `fit`, save,
evaluate or export it as such.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from adt_tf import checks, losses, optimizers, replication, seeds
from adt_tf.attacks import Attack
from adt_tf.attacks.base import use_xla
from adt_tf.checks.arguments import error
from adt_tf.kernels import winograd
from adt_tf.training.accuracy import Accuracy, as_metrics
from adt_tf.training.averaging import WeightAverage
from adt_tf.training.fitting import FittedModel, as_model
from adt_tf.training.outer_steps import AWP, Descent
from adt_tf.training.saving import SavedModel
from adt_tf.training.step_metrics import MeasuredModel, make_trackers

# Streams of randomness that must not meet.
_TRAIN, _TEST, _SOLVE, _SAMPLE = 1, 2, 3, 4


@keras.saving.register_keras_serializable("adt_tf")
class AdversarialTrainer(FittedModel, MeasuredModel, SavedModel):
    """Trains a classifier on the worst distributions that an attack finds.

        min_theta max_phi  mean_i E_{p_phi_i}[loss(x_i + delta, y_i; theta)]
                           + entropy_weight * H(p_phi_i)

    The attack solves the inner problem with the classifier in inference mode
    (its batch-norm statistics are not touched); the outer step runs it in
    training mode, on fresh samples. The noise of step n is a function of
    (seed, n, image), and of `rollbacks`: how often training has gone back to
    an earlier state, so that it does not meet the same noise again. A step
    whose loss or gradient is not finite, or whose attack has left its threat
    model, fails before it changes a weight.

    Metrics: `loss`; those given to `compile` (by default `accuracy`), on the
    adversarial images; `clean_accuracy`, in training only where the loss runs
    the clean images anyway; `entropy` of the distributions; `perturbation`,
    the mean of |delta| / epsilon, or what the threat model takes for it.

    `epsilon_share`, a variable, is the share of epsilon that the attack may
    use, 1 unless `scale_epsilon` sets it, as a warm-up does.

    Images, labels and outputs may have any form that Keras takes; see
    docs/keras.md. Weights of examples and classes count in the outer problem:
    a weight of 2 is the example twice in the batch's mean.

    Args:
        classifier: A Keras model from images in [0, 1] to logits; any such
            function where it is not trained.
        attack: The inner maximiser, of `adt_tf.attacks`.
        loss: The outer loss, of `adt_tf.losses`; or a loss of Keras that
            takes logits, or a function that `losses.get` takes.
        seed: Of all noise in training.
        outer_samples: Samples of the distribution in the outer step.
        train_classifier: False leaves the classifier as it is, in inference
            mode, and trains the attack's own networks against it.
        clip_images: Whether images that leave the bounds of the threat model,
            as augmentation may make them, are clipped rather than refused.
        outer_step: Where the weights' gradient is taken, of
            `adt_tf.training`: `AWP(0.005)` perturbs them first.
        average: Moving average of the classifier's weights, or None;
            `callbacks.AveragedWeights` measures and keeps it.
    """

    def __init__(
        self,
        classifier: Any,
        attack: Attack,
        loss: Callable[..., losses.RobustLoss] = losses.cross_entropy,
        *,
        seed: int = 0,
        outer_samples: int = 1,
        train_classifier: bool = True,
        clip_images: bool = False,
        outer_step: Descent | AWP | None = None,
        average: WeightAverage | None = None,
    ):
        if not train_classifier and callable(classifier):
            classifier = as_model(classifier)
        if not isinstance(classifier, keras.Model):
            raise error("be a model of Keras 3", classifier=classifier)
        if not isinstance(attack, Attack):
            raise ValueError(
                "Argument `attack` must be an attack such as "
                "`adt_tf.attacks.pgd(8 / 255)`. Received: "
                f"attack={attack!r}"
            )
        if attack.threat_model.epsilon == 0:
            raise ValueError(
                "An epsilon of 0 allows no perturbation, so there is nothing "
                "to train against: choose one above 0 (8/255 is usual), or "
                f"`methods.standard()`. Received: attack={attack!r}"
            )
        if not isinstance(outer_samples, int) or outer_samples < 1:
            raise ValueError(
                "Argument `outer_samples` must be a positive integer. "
                f"Received: outer_samples={outer_samples}"
            )
        if not train_classifier and not attack.networks:
            raise ValueError(
                "Argument `train_classifier` must be True for an attack "
                f"without networks: {attack} has nothing to train."
            )
        outer_step = outer_step or Descent()
        if not callable(getattr(outer_step, "gradients", None)):
            raise error(
                "be an outer step such as `adt_tf.training.AWP(0.005)`",
                outer_step=outer_step,
            )
        if not isinstance(average, WeightAverage | None):
            raise error(
                "be `adt_tf.training.WeightAverage(...)` or None",
                average=average,
            )
        checks.check_classifier(classifier)
        # Images reach the classifier in float32 whatever it computes in.
        super().__init__(
            name="adversarial_trainer",
            dtype=classifier.dtype_policy,
            autocast=False,
        )
        self.classifier = classifier
        self.attack = attack
        self.robust_loss = losses.get(loss)
        self.seed = seed
        self.outer_samples = outer_samples
        self.train_classifier = train_classifier
        self.clip_images = clip_images
        self.outer_step = outer_step
        self.average = average
        self.built = classifier.built
        self.attack_networks = list(attack.networks)
        self.rollbacks = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.epsilon_share = tf.Variable(1.0, trainable=False)
        self._scales_epsilon = False
        self.trackers = make_trackers()

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns what the classifier does."""
        return self.classifier(x, training=training)

    def get_parts(self) -> dict[str, Any]:
        """Returns the constructor's arguments other than the classifier."""
        return {
            "attack": self.attack,
            "loss": self.robust_loss,
            "seed": self.seed,
            "outer_samples": self.outer_samples,
            "train_classifier": self.train_classifier,
            "clip_images": self.clip_images,
            "outer_step": self.outer_step,
            "average": self.average,
        }

    def compile(
        self,
        optimizer: Any = "sgd",
        attack_optimizer: Any = None,
        metrics: Any = ("accuracy",),
        jit_compile: bool | str = "auto",
        **arguments: Any,
    ) -> None:
        """Configures `fit`; arguments as in `keras.Model.compile`.

        Args:
            optimizer: Of the classifier's weights, which descend.
            attack_optimizer: Of the attack's own weights, which ascend; by
                default Adam(2e-4, beta_1=0.5). Unused where it has none.
            metrics: Computed on the adversarial images: a list, one metric, or
                a dictionary with the name of the output. They get labels in
                the form that they have in the data.
            jit_compile: Whether XLA compiles the step of the inner problem.
                "auto" does so on accelerators; on a CPU oneDNN is faster.
            **arguments: Further ones of `keras.Model.compile`, except `loss`.
        """
        if arguments.pop("loss", None) is not None:
            raise ValueError(
                "Argument `loss` does not belong in `compile`: the robust "
                "loss is given to `AdversarialTrainer(classifier, attack, "
                "loss)`."
            )
        metrics = as_metrics(metrics)
        self._takes_any_labels = all(
            isinstance(metric, Accuracy) for metric in metrics
        )
        # The loop runs in graph mode around a step that XLA may compile, so
        # the train_step as a whole is not jitted.
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
        """Makes all variables first: a trace that makes some is done twice."""
        # What is made again has them, and its metrics may be in mid-epoch.
        new = self.train_function is None
        replicas = self.distribute_strategy.num_replicas_in_sync
        # A subclassed model has no weights before it has seen an image.
        if new and replicas == 1 and self.classifier.built:
            self.build_optimizers()
            classes = checks.num_classes(self.classifier)
            # What a metric makes of labels depends on their form, unknown yet.
            if classes is not None and self._takes_any_labels:
                self.compute_metrics(
                    None, tf.zeros([1], tf.int32), tf.zeros([1, classes])
                )
                self.reset_metrics()
        return super().make_train_function(force)

    def build_optimizers(self) -> None:
        """Makes the variables of both optimisers, and of the average."""
        parts = [(self.optimizer, self.classifier.trainable_variables)]
        if self.attack_networks:
            parts.append((self.attack_optimizer, self._attack_variables()))
        with self.distribute_strategy.scope():
            for optimizer, variables in parts:
                # Built again, one that scales the loss would forget its scale.
                if not optimizer.built:
                    optimizer.build(variables)
            if self.average:
                self.average.build(self.classifier)

    def scale_epsilon(self, share: float) -> None:
        """Lets the attack use a share of its epsilon from now on.

        In training and in the validation that `fit` runs. The share is in no
        checkpoint: who sets it knows it from the epoch.

        Args:
            share: A number from 0 to 1.
        """
        if not self._scales_epsilon:
            # What was traced before this call does not read the share.
            self._scales_epsilon = True
            self.make_train_function(force=True)
            self.make_test_function(force=True)
        self.epsilon_share.assign(share)

    def checkpoint(self) -> tf.train.Checkpoint:
        """Returns all that the next step depends on, ready to save.

        Restored into a trainer that is composed and compiled alike, it gives
        the same next step, bit for bit.
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
        return tf.train.Checkpoint(**parts)

    def _attack_variables(self) -> list[Any]:
        return [v for n in self.attack_networks for v in n.trainable_variables]

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """One step of the outer problem, after the inner one is solved.

        The classifier's weights descend, and the attack's own weights ascend,
        one scalar: one forward and one backward pass serve both.
        """
        theta = self.classifier.trainable_variables
        theta = theta if self.train_classifier else []
        phi = self._attack_variables()
        clock = self.optimizer if theta else self.attack_optimizer
        clock = optimizers.counter(clock)
        seed = seeds.fold(seeds.make(self.seed), _TRAIN)
        step = tf.convert_to_tensor(clock)
        seed = seeds.fold(seed, step)
        seed += tf.stack([0, tf.cast(self.rollbacks, tf.int32)])
        x, y, weights = self._unpack(data)
        # Optimisers sum the gradients of replicas, so each gives its share.
        share, replicas = replication.share_of_batch(x)
        attack = self._scaled_attack()
        solution = self._solve(attack, x, y, seed)
        scale = optimizers.common_scale(
            ([self.optimizer] if theta else [])
            + ([self.attack_optimizer] if phi else [])
        )

        def saddle():
            batch, outcome = self._outer(
                attack, x, y, solution, seed, training=True
            )
            loss = _weighted_mean(outcome.value, weights)
            penalties = self.classifier.losses
            penalty = tf.add_n(penalties) if penalties else 0.0
            scalar = loss + _weighted_mean(batch.regularizer, weights)
            total = share * scalar + penalty / replicas
            return scale * total, (total, loss + penalty, batch, outcome)

        with self._fast_forms():
            gradients, found = self.outer_step.gradients(
                saddle, self.classifier, theta, phi, step
            )
        total, loss, batch, outcome = found
        gradients = checks.assert_finite(
            [total, *optimizers.to_check(gradients, scale)], then=gradients
        )
        descent, ascent = gradients[: len(theta)], gradients[len(theta) :]
        optimizers.apply(self.optimizer, descent, theta, scale)
        optimizers.apply(
            self.attack_optimizer, [-g for g in ascent], phi, scale
        )
        # A step that loss scaling skips counts: data and noise go on.
        clock.assign(step + 1)
        if self.average:
            self.average.build(self.classifier)
            self.average.update(step)
        return self.report(attack, x, y, weights, loss, batch, outcome)

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Attacks a batch; reports clean and adversarial accuracy."""
        seed = seeds.fold(seeds.make(self.seed), _TEST)
        x, y, weights = self._unpack(data)
        attack = self._scaled_attack()
        solution = self._solve(attack, x, y, seed)
        batch, outcome = self._outer(
            attack, x, y, solution, seed, training=False
        )
        if outcome.clean_logits is None:
            clean = self.classifier(x, training=False)
            clean = checks.as_logits(clean, self.classifier)
            outcome = outcome._replace(clean_logits=clean)
        loss = _weighted_mean(outcome.value, weights)
        return self.report(attack, x, y, weights, loss, batch, outcome)

    def predict_step(self, data: Any) -> Any:
        """Returns what the classifier does for images in any form."""
        x = keras.utils.unpack_x_y_sample_weight(data)[0]
        if isinstance(x, dict):
            x = checks.unpack((x, x))[0]
        outputs = self.classifier(self._images(x), training=False)
        checks.assert_logits(checks.as_logits(outputs, self.classifier))
        return outputs

    def _fast_forms(self) -> Any:
        """Returns the block in which the outer step is traced."""
        if winograd.pays():
            return winograd.convolutions(
                self.classifier, *self.attack_networks, trained=True
            )
        return contextlib.nullcontext()

    def _unpack(self, data):
        x, y, weights = checks.unpack(data)
        x, y = checks.as_batch(x, y, self.attack.threat_model.bounds)
        x = self._images(x)
        classes = checks.num_classes(self.classifier)
        if classes is not None:
            y = checks.assert_labels(y, classes)
        if weights is not None:
            weights = tf.reshape(weights, [-1])
        return x, y, weights

    def _images(self, x: Any) -> tf.Tensor:
        bounds = self.attack.threat_model.bounds
        x = checks.as_images(x, bounds)
        return checks.assert_images(x, bounds, clip=self.clip_images)

    def _scaled_attack(self) -> Attack:
        """Returns the attack at the share of epsilon that is set."""
        if not self._scales_epsilon:
            return self.attack
        return self.attack.scaled(tf.convert_to_tensor(self.epsilon_share))

    def _solve(self, attack, x, y, seed):
        return attack.solve(
            self.classifier,
            x,
            y,
            seed=seeds.fold(seed, _SOLVE),
            jit_compile=self.inner_jit_compile,
        )

    def _outer(self, attack, x, y, solution, seed, *, training):
        batch = attack.sample(
            x,
            solution,
            num_samples=self.outer_samples,
            seed=seeds.fold(seed, _SAMPLE),
            training=training,
        )
        x_adv = attack.threat_model.assert_inside(x, batch.x_adv, attack.name)
        batch = batch._replace(x_adv=x_adv)
        outcome = self.robust_loss(
            self.classifier,
            x,
            x_adv,
            y,
            training=training and self.train_classifier,
        )
        outcome = losses.as_robust_loss(outcome, self.classifier, x_adv)
        # Before the update, so that nothing is lost where they fail.
        logits = checks.assert_logits(outcome.adversarial_logits)
        y = checks.assert_labels(y, logits.shape[-1])
        with tf.control_dependencies([logits, y]):
            value = tf.identity(outcome.value)
        return batch, outcome._replace(value=value, adversarial_logits=logits)


def _weighted_mean(value: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """The mean of values [batch, ...], each times its example's weight."""
    if weights is not None:
        ones = [1] * (len(value.shape) - 1)
        weights = tf.reshape(weights, [-1, *ones])
        value = value * tf.cast(weights, value.dtype)
    return tf.reduce_mean(value)

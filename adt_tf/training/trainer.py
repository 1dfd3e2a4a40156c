"""The only train_step: solves the inner problem, then updates theta.

    trainer = AdversarialTrainer(classifier, method.attack, method.loss)
    trainer.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9))
    trainer.fit(train, validation_data=validation, epochs=3)

The classifier remains an ordinary Keras model: after `fit`, save, evaluate or
export it as usual.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from adt_tf import checks, losses, optimizers, replication, seeds
from adt_tf.attacks import AdversarialBatch, Attack
from adt_tf.checks.arguments import error, integer_at_least
from adt_tf.kernels import winograd
from adt_tf.training.compiling import CompiledModel
from adt_tf.training.fitting import FittedModel, as_model
from adt_tf.training.options import TrainerOptions, complete
from adt_tf.training.outer_steps import Pass
from adt_tf.training.saving import SavedModel
from adt_tf.training.step_metrics import MeasuredModel, make_trackers

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Indices of independent streams of randomness.
_TRAIN, _TEST, _SOLVE, _SAMPLE = 1, 2, 3, 4


@keras.saving.register_keras_serializable("adt_tf")
class AdversarialTrainer(CompiledModel, FittedModel, MeasuredModel, SavedModel):
    """Trains a classifier against the distributions of an attack.

        min_theta max_phi  mean_i E_{p_phi_i}[loss(x_i + delta, y_i; theta)]
                           + entropy_weight * H(p_phi_i)

    The attack solves the inner problem with the classifier in inference mode,
    which does not change its batch-norm statistics; the outer step runs the
    classifier in training mode, on fresh samples. The noise of step n is a
    function of (seed, n, image) and of `rollbacks`, the number of returns to
    an earlier state, so that a repeated step has other noise. A step whose
    loss or gradient is not finite, or whose attack has left its threat model,
    fails before it changes a weight.

    Metrics: `loss`; the metrics of `compile` (by default `accuracy`), on the
    adversarial images; `clean_accuracy`, in training only if the loss uses the
    clean images; `entropy` of the distributions; `perturbation`, the mean of
    |delta| / epsilon, or the threat model's `relative_size`.

    The variable `epsilon_share` is the share of epsilon that the attack uses:
    1, unless `scale_epsilon` sets it, for example in a warm-up.

    Images, labels and outputs may have any form that Keras accepts; see
    docs/keras.md. Weights of examples and classes count in the outer problem:
    an example of weight 2 counts twice in the batch's mean.

    Args:
        classifier: Keras model from images in [0, 1] to logits; any such
            function if it is not trained.
        attack: Inner maximiser, from `adt_tf.attacks`.
        loss: Outer loss, from `adt_tf.losses`; or a loss of Keras that takes
            logits, or a function that `losses.get` accepts.
        seed: Seed of all noise in training.
        outer_samples: Number of samples of the distribution in the outer step.
        train_classifier: If False, the classifier is not changed and runs in
            inference mode, and the attack's own networks are trained against
            it.
        **options: `clip_images`, whether images outside the bounds of the
            threat model, as augmentation may produce them, are clipped instead
            of rejected; `outer_step`, how the weights' gradients are computed,
            from `adt_tf.training`, where `AWP(0.005)` perturbs the weights
            first; `average`, a `WeightAverage` of the classifier's weights,
            which `callbacks.AveragedWeights` measures and saves.
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
        **options: Unpack[TrainerOptions],
    ) -> None:
        settings = complete(options)
        if not train_classifier and callable(classifier):
            classifier = as_model(classifier)
        if not isinstance(classifier, keras.Model):
            raise error("be a Keras 3 model", classifier=classifier)
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
        integer_at_least(1, outer_samples=outer_samples)
        if not train_classifier and not attack.networks:
            raise ValueError(
                "Argument `train_classifier` must be True for an attack "
                f"without networks: {attack} has nothing to train."
            )
        checks.check_classifier(classifier)
        # Images reach the classifier in float32, whatever its precision.
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
        self.clip_images = settings["clip_images"]
        self.outer_step = settings["outer_step"]
        self.average = settings["average"]
        self.built = classifier.built
        self.attack_networks = list(attack.networks)
        self.rollbacks = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.epsilon_share = tf.Variable(1.0, trainable=False)
        self._scales_epsilon = False
        self.trackers = make_trackers()

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Runs the classifier."""
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

    def scale_epsilon(self, share: float) -> None:
        """Sets the share of epsilon that the attack uses from now on.

        It holds in training and in the validation that `fit` runs. The share
        is not saved in checkpoints: the caller derives it from the epoch.

        Args:
            share: A number from 0 to 1.
        """
        if not self._scales_epsilon:
            # Functions traced before this call do not read the share.
            self._scales_epsilon = True
            self.make_train_function(force=True)
            self.make_test_function(force=True)
        self.epsilon_share.assign(share)

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Solves the inner problem, then takes one step of the outer one.

        The classifier's weights descend and the attack's own weights ascend
        one scalar: one forward and one backward pass serve both.
        """
        theta = self.classifier.trainable_variables
        theta = theta if self.train_classifier else []
        phi = self._attack_variables()
        if not theta and not phi:
            raise ValueError(
                "The classifier must have a weight that is trained, but all "
                "are frozen: set `trainable = True` on some of its layers."
            )
        clock = self.optimizer if theta else self.attack_optimizer
        clock = optimizers.counter(clock)
        seed = seeds.fold(seeds.make(self.seed), _TRAIN)
        step = tf.convert_to_tensor(clock)
        seed = seeds.fold(seed, step)
        seed += tf.stack([0, tf.cast(self.rollbacks, tf.int32)])
        examples = x, y, weights = self._unpack(data)
        # Optimisers sum the gradients of replicas, so each adds its share.
        share, replicas = replication.share_of_batch(x)
        attack = self._scaled_attack()
        solution = self._solve(attack, x, y, seed)
        scale = optimizers.common_scale(
            ([self.optimizer] if theta else [])
            + ([self.attack_optimizer] if phi else [])
        )

        def saddle() -> tuple[tf.Tensor, Any]:
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
            gradients, results = self.outer_step.gradients(
                Pass(saddle, self.classifier, theta, phi, step)
            )
        total, loss, batch, outcome = results
        gradients = checks.assert_finite(
            [total, *optimizers.to_check(gradients, scale)], then=gradients
        )
        descent, ascent = gradients[: len(theta)], gradients[len(theta) :]
        optimizers.apply(self.optimizer, descent, theta, scale)
        optimizers.apply(
            self.attack_optimizer, [-g for g in ascent], phi, scale
        )
        # A step that loss scaling skips counts, so that data and noise advance.
        clock.assign(step + 1)
        if self.average:
            self.average.build(self.classifier)
            self.average.update(step)
        return self.report(attack.threat_model, examples, loss, batch, outcome)

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Attacks a batch; returns the clean and the adversarial metrics."""
        seed = seeds.fold(seeds.make(self.seed), _TEST)
        examples = x, y, weights = self._unpack(data)
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
        return self.report(attack.threat_model, examples, loss, batch, outcome)

    def predict_step(self, data: Any) -> Any:
        """Runs the classifier on images in any form."""
        x = keras.utils.unpack_x_y_sample_weight(data)[0]
        x = self._images(checks.images_of(x))
        outputs = self.classifier(x, training=False)
        checks.assert_logits(checks.as_logits(outputs, self.classifier))
        return outputs

    def _fast_forms(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the context in which the outer step is traced."""
        if winograd.pays():
            return winograd.convolutions(
                self.classifier, *self.attack_networks, trained=True
            )
        return contextlib.nullcontext()

    def _unpack(
        self, data: Any
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        x, y, weights = checks.unpack(data)
        x, y = checks.as_batch(x, y, self.attack.threat_model.bounds)
        x = self._images(x)
        classes = checks.num_classes(self.classifier)
        if classes is not None:
            y = checks.assert_labels(y, classes)
        if weights is not None:
            weights = checks.assert_weights(weights)
        return x, y, weights

    def _images(self, x: Any) -> tf.Tensor:
        bounds = self.attack.threat_model.bounds
        x = checks.as_images(x, bounds)
        return checks.assert_images(x, bounds, clip=self.clip_images)

    def _scaled_attack(self) -> Attack:
        """Returns the attack with the current share of epsilon."""
        if not self._scales_epsilon:
            return self.attack
        return self.attack.scaled(tf.convert_to_tensor(self.epsilon_share))

    def _solve(
        self, attack: Attack, x: tf.Tensor, y: tf.Tensor, seed: tf.Tensor
    ) -> Any:
        return attack.solve(
            self.classifier,
            x,
            y,
            seed=seeds.fold(seed, _SOLVE),
            jit_compile=self.inner_jit_compile,
        )

    def _outer(
        self,
        attack: Attack,
        x: tf.Tensor,
        y: tf.Tensor,
        solution: Any,
        seed: tf.Tensor,
        *,
        training: bool,
    ) -> tuple[AdversarialBatch, losses.RobustLoss]:
        """Draws samples and computes their loss."""
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
        # These checks fail before the update, so that no weight changes.
        logits = checks.assert_logits(outcome.adversarial_logits)
        y = checks.assert_labels(y, logits.shape[-1])
        with tf.control_dependencies([logits, y]):
            value = tf.identity(outcome.value)
        return batch, outcome._replace(value=value, adversarial_logits=logits)


def _weighted_mean(value: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """Returns the mean of values [batch, ...] times the examples' weights."""
    if weights is not None:
        ones = [1] * (len(value.shape) - 1)
        weights = tf.reshape(weights, [-1, *ones])
        value = value * tf.cast(weights, value.dtype)
    return tf.reduce_mean(value)

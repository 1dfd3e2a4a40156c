"""`threat_models.check` finds the errors in a norm, and no others."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import adt_tf
from adt_tf import attacks, configs, linting, threat_models
from adt_tf.threat_models import L2, Linf
from tests.support import euclidean
from tests.support.euclidean import Euclidean
from tests.support.models import make_linear

tfb = tfp.bijectors


class Channels(Linf):
    """An l-infinity ball with a radius for each channel."""

    def __init__(self, epsilon, shares=(1.0, 0.5, 0.1), bounds=(0.0, 1.0)):
        super().__init__(epsilon, bounds)
        self.shares = shares

    def norm(self, delta):
        return super().norm(delta / self.shares)

    def limit(self, delta):
        return super().limit(delta / self.shares) * self.shares

    project = threat_models.ThreatModel.project
    squash = threat_models.ThreatModel.squash

    def steepest(self, gradient):
        return super().steepest(gradient) * self.shares

    def random_direction(self, x, seed):
        return super().random_direction(x, seed) * self.shares

    def random_surface(self, x, seed):
        return self.from_unit(x, self.random_direction(x, seed))

    def random_start(self, x, seed):
        return self.perturb(x, super().random_start(x, seed) - x)

    def largest_epsilon(self, event_shape):
        return super().largest_epsilon(event_shape) / min(self.shares)

    bijector = threat_models.ThreatModel.bijector


class Registered(Channels):
    """The same, for the registry of Keras."""


class Flipped(Euclidean):
    def steepest(self, gradient):
        return -super().steepest(gradient)


class Sign(Euclidean):
    def steepest(self, gradient):
        return super().steepest(tf.sign(gradient))


class Undefined(Euclidean):
    def steepest(self, gradient):
        return gradient / self.norm(gradient)[:, None, None, None]


class Small(Euclidean):
    def limit(self, delta):
        return super().limit(delta) / 10


class Large(Linf):
    def limit(self, delta):
        return super().limit(delta) * 2


class Squares(Linf):
    def norm(self, delta):
        return tf.square(super().norm(delta))


class FirstAxes(Linf):
    def norm(self, delta):
        return tf.reduce_max(tf.abs(delta), axis=[1, 2, 3])


class Escaping(Linf):
    def random_start(self, x, seed):
        return self.clip(x + 2 * self.epsilon * self.random_direction(x, seed))


class Inner(Linf):
    def random_surface(self, x, seed):
        return self.from_unit(x, 0.5 * self.random_direction(x, seed))


class WrongRadial(euclidean._Radial):
    def _forward_log_det_jacobian(self, u):
        return 0.5 * super()._forward_log_det_jacobian(u)


class WrongDensity(Euclidean):
    def bijector(self, event_shape):
        rank = len(event_shape)
        return tfb.Chain([tfb.Scale(self.epsilon), WrongRadial(rank)])


class Stale(Channels):
    def __init__(self, epsilon, shares=(1.0, 0.5, 0.1)):
        super().__init__(epsilon, shares)
        self.radii = epsilon * tf.constant(shares)

    def limit(self, delta):
        return tf.clip_by_value(delta, -self.radii, self.radii)


class Forgetful(Linf):
    def __init__(self, epsilon, shares=(1.0, 0.5, 0.1)):
        super().__init__(epsilon)


class Raising(Linf):
    def limit(self, delta):
        raise KeyError("radius")


@pytest.mark.parametrize(
    "threat_model",
    [
        Linf(0.1),
        Linf(1.0),
        Linf(8.0, bounds=(0.0, 255.0)),
        L2(0.5),
        L2(2.0, bounds=(-1.0, 1.0)),
        Euclidean(0.5),
        Channels(0.1),
    ],
    ids=repr,
)
def test_norms_without_errors(threat_model):
    threat_models.check(threat_model, (4, 4, 3))


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (Flipped, "steepest: must rise along the gradient"),
        (Sign, "steepest: must rise most of all unit vectors"),
        (Undefined, "steepest: must be 0 for a gradient of 0"),
        (Small, "limit: .* but its norm is 0.1 epsilon"),
        (Large, "limit: leaves the ball"),
        (Squares, "norm: must be absolutely homogeneous"),
        (FirstAxes, "norm: must be that of each sample"),
        (Escaping, "random_start: must stay in the ball"),
        (Inner, "random_surface: must reach a norm of epsilon"),
        (WrongDensity, "bijector: its log-determinant is"),
        (Stale, "scaled: by a tensor, it sets `epsilon` alone"),
        (Forgetful, r"get_config: raises ValueError: .*\['shares'\]"),
        (Raising, "limit: raises KeyError: 'radius'"),
    ],
)
def test_errors_are_found(kind, fault):
    with pytest.raises(ValueError, match=fault) as told:
        threat_models.check(kind(0.1), (4, 4, 3))
    assert "\n" not in str(told.value)


def test_all_errors_are_listed():
    class Both(Flipped, Small):
        pass

    with pytest.raises(ValueError, match=r"limit: .*; steepest: .*"):
        threat_models.check(Both(0.5), (4, 4, 1))


@pytest.mark.parametrize("what", [0.1, Linf(0.0)])
def test_what_cannot_be_checked(what):
    with pytest.raises(ValueError, match="Argument `(threat_model|epsilon)`"):
        threat_models.check(what, (4, 4, 1))


def test_copies_keep_the_arguments_of_a_norm_of_ones_own():
    ball = Channels(0.1, shares=[1.0, 0.2, 0.2])
    for other in (ball.with_epsilon(0.2), ball.scaled(0.5)):
        assert other.shares == [1.0, 0.2, 0.2]
        assert other != ball and type(other) is Channels
    assert "shares=[1.0, 0.2, 0.2]" in repr(ball)
    assert ball == Channels(0.1, shares=(1.0, 0.2, 0.2)) != Channels(0.1)
    arrays = [Channels(0.1, np.array([1.0, s, s], "f4")) for s in (0.5, 0.1)]
    assert arrays[0] == arrays[0].scaled(1.0) != arrays[1]
    with pytest.raises(ValueError, match=r"set self.shares in the constr"):
        Forgetful(0.1).scaled(0.5)


def test_arguments_may_be_passed_on_to_the_class_above():
    class Passing(Linf):
        def __init__(self, shares, **arguments):
            super().__init__(**arguments)
            self.shares = shares

    ball = Passing(3, epsilon=0.1).scaled(0.5)
    assert repr(ball) == "Passing(shares=3, epsilon=0.05, bounds=(0.0, 1.0))"


def trainer(ball):
    model = keras.Sequential(
        [
            keras.Input((4, 4, 3)),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    return adt_tf.AdversarialTrainer(model, attacks.fgsm(ball))


def test_files_hold_registered_norms_only(tmp_path):
    path = tmp_path / "trainer.keras"
    with pytest.raises(ValueError, match="register_keras_serializable") as told:
        trainer(Channels(0.1)).save(path)
    assert "\n" not in str(told.value) and not path.exists()
    keras.saving.register_keras_serializable("test_norms")(Registered)
    ball = Registered(0.1, shares=(1.0, 0.2, 0.2))
    trainer(ball).save(path)
    assert keras.models.load_model(path).attack.threat_model == ball
    name = keras.saving.get_registered_name(Registered)
    custom = keras.saving.get_custom_objects()
    registered = custom.pop(name)
    try:
        with pytest.raises(ValueError, match="import the module") as told:
            keras.models.load_model(path)
    finally:
        custom[name] = registered
    assert name in str(told.value) and "\n" not in str(told.value)
    with pytest.raises(ValueError, match="register_keras_serializable"):
        configs.deserialize({"class": "__main__:Ball", "config": {}})


def test_an_attack_refuses_a_norm_without_a_bijector():
    with pytest.raises(ValueError, match=r"TanhGaussian .* \['bijector'\]"):
        attacks.exp(Channels(0.1))
    assert attacks.exp(Euclidean(0.1))


def test_lint_skips_the_check_that_the_norm_has_no_methods_for():
    random = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = np.eye(3)[y][:, None, None, :] * random.uniform(0.8, 1, (60, 4, 4, 3))
    model = make_linear((4, 4, 3))
    model.set_weights([np.tile(np.eye(3), (16, 1)), np.zeros(3)])
    (finding,) = linting.lint(
        model,
        (x.astype("float32"), y),
        epsilon=Euclidean(0.1),
        checks=["black_box"],
        verbose=False,
    ).findings
    assert finding.status == "skipped"
    assert "the l2 norm has no methods square_start" in finding.evidence.lower()

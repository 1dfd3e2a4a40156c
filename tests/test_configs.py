"""The identity of a part is its configuration, not its `repr`."""

import json
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import (
    attacks,
    configs,
    evaluation,
    gradients,
    losses,
    objectives,
    step_rules,
)
from adt_tf.threat_models import L2, Linf
from tests.support import tables
from tests.support.models import make_convolutional

BALL = Linf(0.1)
PARTS = {
    **{
        name: tables.make_attack(name, BALL)
        for name in tables.ATTACKS
        if name not in tables.NOT_SAVED
    },
    "l2": attacks.pgd(L2(0.3), num_steps=2),
    "mim-random": attacks.get("mim-random-3", BALL),
    "mim-last": attacks.get("mim-last-3", BALL),
    "adam's epsilon": attacks.exp(BALL, num_steps=2, adam_epsilon=1.28e-7),
    "gaussian": attacks.exp(BALL, num_steps=2, entropy="gaussian"),
    "gradient scale": attacks.l2l(
        BALL, input_shape=(8, 8, 1), width_factor=0.02, gradient_scale=1 / 64
    ),
    "momentum": step_rules.momentum(0.1),
    "accumulate": step_rules.accumulate(step_rules.adam(0.3), 1.0),
    "margin": objectives.margin(1 / 3),
    "spsa": gradients.spsa(16, 0.01),
    "trades": losses.trades(6.0),
    "alp": losses.alp(0.5),
    "smoothed": losses.smoothed_cross_entropy(0.1),
    "function": losses.cross_entropy,
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_made_again_from_plain_data(name):
    part = PARTS[name]
    text = json.dumps(configs.serialize(part), allow_nan=False)
    again = configs.deserialize(json.loads(text))
    assert configs.fingerprint(again) == configs.fingerprint(part)
    assert repr(again).split(" at 0x")[0] == repr(part).split(" at 0x")[0]


@pytest.mark.parametrize("name", ["pgd", "exp", "apgd_t", "square"])
def test_what_is_made_again_finds_the_same_images(name, images):
    classifier = make_convolutional()
    again = configs.deserialize(configs.serialize(PARTS[name]))
    np.testing.assert_array_equal(
        PARTS[name](classifier, *images).x_adv,
        again(classifier, *images).x_adv,
    )


def test_all_parts_differ():
    prints = {configs.fingerprint(part) for part in PARTS.values()}
    assert len(prints) == len(PARTS)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: attacks.pgd(0.1, step_size=0.01 + x),
        lambda x: attacks.pgd(0.1 + x),
        lambda x: attacks.cw(0.1, confidence=50.0 + x),
        lambda x: attacks.exp(0.1, entropy_weight=0.01 + x),
        lambda x: attacks.fea(
            0.1, targets=(np.full([2, 4, 4, 1], x, "float32"), np.array([0, 1]))
        ),
    ],
)
def test_every_digit_counts(make):
    one, other = make(0.0), make(1e-7)
    assert configs.fingerprint(one) == configs.fingerprint(make(0.0))
    assert configs.fingerprint(one) != configs.fingerprint(other)


def objective_one(classifier, x, y, *, seed):
    return objectives.cross_entropy(classifier, x, y, seed=seed)


def edited():
    def objective_one(classifier, x, y, *, seed):
        value = objectives.cross_entropy(classifier, x, y, seed=seed)
        return lambda x_adv: [2 * value(x_adv)[0], value(x_adv)[1]]

    objective_one.__qualname__ = "objective_one"
    return objective_one


def test_a_function_of_a_user_is_known_by_its_code():
    one = attacks.pgd(0.1, objective=objective_one)
    other = attacks.pgd(0.1, objective=edited())
    assert repr(one) == repr(other)
    assert configs.fingerprint(one) != configs.fingerprint(other)
    with pytest.raises(ValueError, match="Only parts of adt_tf"):
        configs.serialize(one)


def written(source):
    """Returns the function `mine` of a module with this text."""
    module = {"__name__": "mine", "tf": tf}
    exec(source, module)
    return module["mine"]


class Scorer:
    """An object whose methods are objectives, with a private argument."""

    def __init__(self, scale, label=None):
        self._scale = scale
        self.label = label
        self._num_calls = 0

    def __call__(self, logits, y):
        return self._scale * logits[:, 0]

    def first(self, logits, y):
        return logits[:, 0]

    def second(self, logits, y):
        return logits[:, 1]


HELPED = """
def helper(z):
    return {}
def mine(logits, y):
    return helper(logits)[:, 0]
"""
READING = """
SCALE = {}
def mine(logits, y):
    return (lambda z: SCALE * z)(logits)[:, 0]
"""
ALONE = "def mine(logits, y):\n    return {}"


@pytest.mark.parametrize(
    "make",
    [
        lambda i: written(HELPED.format(("z", "-z")[i])),
        lambda i: written(READING.format(i)),
        lambda i: tf.function(written(ALONE.format(f"logits[:, {i}]"))),
        lambda i: (Scorer(1).first, Scorer(1).second)[i],
        lambda i: Scorer(1 + i),
        lambda i: Scorer(1, label={i}),
        lambda i: Scorer(1, label=bytes([i])),
    ],
    ids=[
        "helper",
        "global",
        "tf.function",
        "method",
        "private argument",
        "set",
        "bytes",
    ],
)
def test_what_a_users_objective_depends_on_counts(make):
    one, same, other = (
        configs.fingerprint(objectives.of_logits(make(i), name="mine"))
        for i in (0, 0, 1)
    )
    assert one == same and one != other


def test_functions_that_call_each_other_have_a_fingerprint():
    mine = written(
        "def other(z):\n    return mine(z, 0)\n"
        "def mine(logits, y):\n    return other(logits)"
    )
    assert configs.fingerprint(mine) == configs.fingerprint(mine)


def test_an_edited_objective_resumes_no_verdicts(images, tmp_path):
    classifier = make_convolutional()

    settings = evaluation.Settings(directory=tmp_path, verbose=False)
    for objective in (objective_one, edited()):
        attack = attacks.pgd(0.1, num_steps=2, objective=objective)
        with (
            pytest.raises(OSError, match="no room"),
            evaluation.evaluated(classifier, images, attack, settings),
        ):
            raise OSError("no room")
    assert len(list(tmp_path.glob("unfinished-*"))) == 2


@pytest.mark.parametrize(
    "data",
    [
        {"function": "os:system"},
        {"class": "subprocess:Popen", "config": {}},
        {"made_by": "builtins:eval", "arguments": {}},
        {"function": "adt_tf.files:os.system"},
        {"function": "adt_tf.files:os"},
        {"class": "adt_tf.files:write_text", "config": {}},
        {"made_by": "adt_tf.files:remove_tree", "arguments": {}},
        {"function": "adt_tf.losses:nothing"},
    ],
)
def test_nothing_else_is_looked_up(data):
    with pytest.raises(ValueError, match="adt_tf"):
        configs.deserialize(data)


def test_a_trainers_file_calls_no_other_function(tmp_path):
    precious, path = tmp_path / "precious", tmp_path / "trainer.keras"
    precious.write_text("mine")
    trainer = adt_tf.AdversarialTrainer(make_convolutional(), attacks.pgd(0.1))
    trainer.compile("sgd")
    trainer.save(tmp_path / "good.keras")
    with (
        zipfile.ZipFile(tmp_path / "good.keras") as good,
        zipfile.ZipFile(path, "w") as spoiled,
    ):
        for name in good.namelist():
            content = good.read(name)
            if name == "config.json":
                values = json.loads(content)
                values["config"]["attack"] = {
                    "made_by": "adt_tf.files:write_text",
                    "arguments": {"path": str(precious), "text": "theirs"},
                }
                content = json.dumps(values).encode()
            spoiled.writestr(name, content)
    for load in (adt_tf.load_classifier, keras.saving.load_model):
        with pytest.raises(ValueError, match="only what makes a part"):
            load(path)
    assert precious.read_text() == "mine"

"""What Keras accepts, a trainer accepts; the rest it refuses in one line.

    python -m tests.test_keras_user > docs/keras.md

The cases are in support/keras_cases.py.
"""

import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, checks, methods, objectives
from tests.support import in_process
from tests.support.keras_cases import CASES, PRELUDE
from tests.support.models import make_convolutional, make_linear

ROWS = [row for rows in CASES.values() for row in rows]


@pytest.fixture(scope="module")
def names():
    return run_prelude()


def run_prelude():
    names = {"__name__": "snippets"}
    exec(PRELUDE, names)
    return names


def result_of(snippet, names):
    """The text of a snippet's value, or of its error."""
    tree = ast.parse(snippet.strip())
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    names = dict(names)
    try:
        exec(compile(tree, "snippet", "exec"), names)
        if last is None:
            return "None"
        return str(eval(compile(ast.Expression(last.value), "", "eval"), names))
    except ValueError as error:
        # A function's representation ends in its address.
        return f"ValueError: {re.sub(' at 0x[0-9a-f]+', '', str(error))}"


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_case(row, names, tmp_path, monkeypatch):
    _, snippet, expected = row
    monkeypatch.chdir(tmp_path)
    assert result_of(snippet, names) == expected


def test_document_has_every_case():
    text = (in_process.ROOT / "docs" / "keras.md").read_text()
    assert text == "\n".join(document()) + "\n"


HEAD = """# Use your own Keras model

An `AdversarialTrainer` wraps your classifier and is a Keras model itself, so
`compile`, `fit`, callbacks, metrics and saving work as usual. The classifier

- takes images in [0, 1], [batch, height, width, channels], and returns logits
  (no softmax). `adt_tf.as_classifier(model, pixels=(0, 255))` adds the scaling
  and removes a softmax;
- stays your own model: after `fit`, save or export `trainer.classifier`.

Each row below is a snippet that the tests run, and its result: the value of its
last line, or the error that refuses it before the first step.
`python -m tests.test_keras_user > docs/keras.md` writes this page.

**Labels.** If the data hold classes, metrics and losses receive classes; if
they hold one-hot or soft labels, metrics and losses receive those.

**Weights.** A weight of an example or of a class counts in the outer problem:
an example with weight 2 counts twice in the mean of the batch. The inner
problem solves each example separately, so a weight has no effect there. Feature
scattering moves a batch as a whole: each image has the same share of the
transport, and its weight counts in the outer loss alone. Weights of examples
are the argument `sample_weight`, the third part of (images, labels, weights) or
the field `sample_weight` of a dictionary; other fields, such as `weight`, have
no effect. `adt_tf.evaluate` counts each example once.

**Files.** `keras.models.load_model` reads a saved trainer after
`import adt_tf`. A function or class of your own, such as an objective, a loss
or a norm, is saved by its name if it is registered with
`keras.saving.register_keras_serializable`. Without that, `save` refuses it
before it opens the file.

All snippets begin with:
"""


def document():
    yield HEAD
    yield f"```python{PRELUDE}```"
    for group, rows in CASES.items():
        yield f"\n## {group}\n"
        yield "| what | snippet | result |\n| --- | --- | --- |"
        for name, snippet, result in rows:
            lines = snippet.strip().replace("|", "\\|").splitlines()
            # A space of its own keeps the indent of code in a cell.
            lines = [line.replace("  ", "\u00a0\u00a0") for line in lines]
            code = "<br>".join(f"`{line}`" for line in lines)
            yield f"| {name} | {code} | {result.replace('`', '')} |"


class TestSaving:
    def test_networks_and_their_optimizer_go_on(self, tmp_path):
        """A step after a reload is the step without it, bit for bit."""
        x = np.random.default_rng(0).uniform(size=(4, 8, 8, 1))
        y = np.arange(4)
        method = methods.adt_exp_am(
            0.1, input_shape=(8, 8, 1), width_factor=0.03
        )
        first = adt_tf.AdversarialTrainer(
            make_convolutional(), method.attack, method.loss, seed=3
        )
        first.compile(
            keras.optimizers.SGD(0.1, momentum=0.9),
            attack_optimizer=keras.optimizers.Adam(1e-3),
        )
        first.train_on_batch(x, y)
        first.rollbacks.assign(2)
        first.save(tmp_path / "trainer.keras")
        second = keras.models.load_model(tmp_path / "trainer.keras")
        assert float(second.attack_optimizer.learning_rate) == pytest.approx(
            1e-3
        )
        for trainer in (first, second):
            trainer.train_on_batch(x, y)
        assert len(first.variables) == len(second.variables)
        for one, other in zip(first.variables, second.variables, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_registered_functions_are_saved(self, tmp_path):
        name = "tests>away"
        keras.saving.register_keras_serializable("tests")(away)
        try:
            trainer = adt_tf.AdversarialTrainer(
                make_linear(), attacks.fgsm(0.1, objective=away)
            )
            trainer.compile()
            trainer.save(tmp_path / "t.keras")
            again = keras.models.load_model(tmp_path / "t.keras")
        finally:
            keras.saving.get_custom_objects().pop(name)
        assert again.attack.objective.function is away

    def test_a_subclassed_model_needs_no_first_call(self, tmp_path):
        x = np.full([4, 4, 4, 1], 0.5, "float32")
        trainer = adt_tf.AdversarialTrainer(Subclassed(), attacks.fgsm(0.1))
        trainer.compile()
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        path = tmp_path / "weights" / "t.weights.h5"
        save = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
        trainer.fit(x, np.arange(4) % 3, callbacks=[backup, save], verbose=0)
        assert path.exists()

    def test_a_model_without_a_config_is_refused(self, tmp_path):
        trainer = adt_tf.AdversarialTrainer(
            Unsaved(make_linear()), attacks.fgsm(0.1)
        )
        trainer.compile()
        trainer.built = True
        with pytest.raises(ValueError, match="must have a `get_config`"):
            trainer.save(tmp_path / "t.keras")


def away(logits, y):
    return -logits[:, 0]


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.flatten = keras.layers.Flatten()
        self.dense = keras.layers.Dense(3)

    def call(self, x):
        return self.dense(self.flatten(x))


class Unsaved(keras.Model):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x):
        return self.inner(x)


@pytest.mark.slow
def test_weights_are_examples_several_times():
    """In the networks' scalar as in the classifier's."""
    x = np.random.default_rng(0).uniform(size=(4, 8, 8, 1)).astype("float32")
    y = np.arange(4)
    twice = np.array([0, 0, 1, 3])

    def gradient(x, y, weights):
        method = methods.adt_exp_am(
            0.1, input_shape=(8, 8, 1), width_factor=0.03, entropy_weight=1.0
        )
        trainer = adt_tf.AdversarialTrainer(
            make_convolutional(), method.attack, method.loss
        )
        # No statistics of a batch, which differ where an image is twice in it.
        for model in (trainer.classifier, *trainer.attack_networks):
            for layer in model.layers:
                if isinstance(layer, keras.layers.BatchNormalization):
                    layer.trainable = False
        trainer.compile("sgd", attack_optimizer=keras.optimizers.SGD(1.0))
        before = trainer.get_weights()
        trainer.train_on_batch(x, y, sample_weight=weights)
        return [
            np.abs(a - b).sum()
            for a, b in zip(before, trainer.get_weights(), strict=True)
        ]

    np.testing.assert_allclose(
        gradient(x, y, np.array([2.0, 1.0, 0.0, 1.0])),
        gradient(x[twice], y[twice], None),
        rtol=1e-3,
        atol=1e-5,
    )


def test_soft_labels_of_objectives():
    """One-hot labels give what classes give; shares mix the cross-entropy."""
    random = np.random.default_rng(0)
    logits = tf.constant(random.normal(size=(5, 2, 4)), tf.float32)
    y = random.integers(0, 4, 5).astype("int32")
    one_hot = np.eye(4, dtype="float32")[y]
    for function in (
        objectives.cross_entropy_of,
        objectives.margin_of,
        objectives.dlr_of,
    ):
        np.testing.assert_allclose(
            function(logits, one_hot), function(logits, y), rtol=1e-5
        )
    shares = 0.75 * one_hot + 0.25 * np.roll(one_hot, 1, axis=1)
    np.testing.assert_allclose(
        objectives.cross_entropy_of(logits, shares),
        0.75 * objectives.cross_entropy_of(logits, y)
        + 0.25 * objectives.cross_entropy_of(logits, (y + 1) % 4),
        rtol=1e-5,
    )
    np.testing.assert_array_equal(checks.classes_of(shares), y)


@pytest.mark.parametrize("name", ["apgd-ce-2", "fab-t-2", "square-3"])
def test_any_attack_trains_with_one_hot_labels(name):
    x = np.random.default_rng(0).uniform(size=(4, 4, 4, 1)).astype("float32")
    trainer = adt_tf.AdversarialTrainer(make_linear(), attacks.get(name, 0.1))
    trainer.compile()
    logs = trainer.test_on_batch(x, np.eye(3)[[0, 1, 2, 0]], return_dict=True)
    assert np.isfinite(logs["loss"])


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({"KERAS_BACKEND": "jax"}, "ImportError: adt_tf requires the"),
        ({"KERAS_BACKEND": "tensorflow"}, ""),
    ],
)
def test_import(environment, expected):
    """Says which backend it needs, or nothing at all."""
    done = subprocess.run(
        [sys.executable, "-c", "import adt_tf; adt_tf.__all__"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=in_process.ROOT,
    )
    assert done.stdout == ""
    last = (done.stderr.strip().splitlines() or [""])[-1]
    assert last.startswith(expected) and bool(last) == bool(expected)


@pytest.mark.parametrize(
    "imports", ["import adt_tf, keras", "import keras, adt_tf"]
)
def test_a_trainer_loads_after_the_import_alone(imports, tmp_path):
    """Keras finds the classes although their modules are not imported."""
    path = tmp_path / "trainer.keras"
    classifier = keras.Sequential(
        [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]
    )
    trainer = adt_tf.AdversarialTrainer(classifier, attacks.fgsm(0.1))
    trainer.compile(adt_tf.optimizers.SGD(0.1, l2=1e-4), metrics=["accuracy"])
    trainer.save(path)
    code = (
        f"{imports}; import sys; assert 'adt_tf.training' not in sys.modules;"
        f"trainer = keras.saving.load_model({str(path)!r});"
        "print(type(trainer).__name__, type(trainer.optimizer).__module__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=in_process.ROOT,
    )
    expected = "AdversarialTrainer adt_tf.optimizers"
    assert done.stdout.strip() == expected, done.stderr


def test_a_model_of_keras_2_is_refused():
    import tf_keras

    model = tf_keras.Sequential([tf_keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="must be a Keras 3 model"):
        adt_tf.AdversarialTrainer(model, attacks.fgsm(0.1))


def test_failures_of_others_are_left_alone():
    error = tf.errors.InvalidArgumentError(None, None, "assertion failed: [x]")
    kind = tf.errors.InvalidArgumentError
    with pytest.raises(kind), checks.failures_told():
        raise error


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        if "--results" in sys.argv:
            shared = run_prelude()
            os.chdir(pathlib.Path(folder))
            for title, code, _ in ROWS:
                print(f"{title}: {result_of(code, shared)}")
        else:
            print("\n".join(document()))

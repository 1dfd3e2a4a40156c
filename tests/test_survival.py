"""One process: stopped runs, states that are not finite, and going back."""

import contextlib
import csv
import dataclasses
import errno
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import data, methods, precision
from adt_tf.attacks.base import PointAttack
from adt_tf.runs import lock, provenance
from adt_tf.runs.checkpoint_schedule import Policy
from adt_tf.runs.experiment import Experiment
from adt_tf.runs.workdir import Workdir
from adt_tf.threat_models import Linf
from tests.support.locks import held_elsewhere
from tests.support.models import make_convolutional
from tests.support.runs import differences

STEPS = 4  # of an epoch


class Noisy:
    """A loss that is not a number at one step, unless the noise is good."""

    def __init__(self, step, rollbacks):
        self.step, self.rollbacks = step, rollbacks

    def __call__(self, *arguments, **options):
        outcome = methods.standard().loss(*arguments, **options)
        bad = (self.trainer.optimizer.iterations == self.step) & (
            self.trainer.rollbacks < self.rollbacks
        )
        value = tf.where(bad, np.nan, outcome.value)
        return outcome._replace(value=value)


class Steep(Noisy):
    """A finite loss whose gradient is not a number."""

    def __call__(self, *arguments, **options):
        @tf.custom_gradient
        def steep(value):
            return tf.identity(value), lambda upstream: upstream * np.nan

        outcome = methods.standard().loss(*arguments, **options)
        return outcome._replace(value=steep(outcome.value))


def make_run(
    *,
    bad_step=-1,
    good_after=0,
    max_rollbacks=3,
    every=0,
    rate=0.05,
    loss=Noisy,
    attack=None,
    **arguments,
):
    loss = loss(bad_step, good_after)
    trainer = adt_tf.AdversarialTrainer(
        make_convolutional(),
        attack or methods.at_pgd(0.1, num_steps=1).attack,
        loss,
        seed=5,
    )
    loss.trainer = trainer
    trainer.compile(keras.optimizers.SGD(rate, momentum=0.9))
    digits = data.load("digits", num_examples=50)
    return Experiment(
        trainer,
        digits,
        None,
        *(3, 12, 0, True),
        policy=Policy(steps=every),
        max_rollbacks=max_rollbacks,
        **arguments,
    )


class Killed(BaseException):
    """Ends a run as suddenly as can be within one process."""


def train(run, workdir, *, kill_at=None):
    """Trains; returns the numbers that are left, or None if it was killed."""
    original = run._callbacks

    class Kill(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if int(run.trainer.optimizer.iterations) == kill_at:
                raise Killed

    run._callbacks = lambda *a: [*original(*a), Kill()]
    try:
        run.train(workdir)
    except Killed:
        return None
    trainer = run.trainer
    variables = [*trainer.classifier.variables, *trainer.optimizer.variables]
    end = {str(i): v.numpy() for i, v in enumerate(variables)}
    path = pathlib.Path(workdir) / "metrics.csv"
    return {**end, "metrics": path.read_bytes()}


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    return train(make_run(), tmp_path_factory.mktemp("never_stopped"))


@pytest.mark.parametrize("every", [1, 3])
def test_goes_on_in_mid_epoch(every, never_stopped, tmp_path, capfd):
    assert train(make_run(every=every), tmp_path, kill_at=7) is None
    with open(tmp_path / "metrics.csv", "a") as file:
        file.write("1,0.25,0.0")  # a row that was cut off
    end = train(make_run(every=every), tmp_path)
    step = 7 if every == 1 else 6
    assert f"Resuming after step {step} of 12" in capfd.readouterr().out
    assert differences(end, never_stopped) == []


def test_goes_on_in_mid_epoch_while_epsilon_grows(tmp_path):
    """A new epsilon has the step made anew, and not the metrics."""
    whole = train(make_run(epsilon_warmup=2), tmp_path / "whole")
    killed = tmp_path / "killed"
    for kill_at in (2, 6):
        run = make_run(every=1, epsilon_warmup=2)
        assert train(run, killed, kill_at=kill_at) is None
    end = train(make_run(every=1, epsilon_warmup=2), killed)
    assert differences(end, whole) == []


def contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("part", ["train", "validation"])
def test_does_not_go_on_with_other_data(finished, part, tmp_path):
    """As where the file of the data is replaced after a kill."""

    def make(changed=False):
        run = make_run(every=1)
        run.validation_data = data.load("digits", split="test", num_examples=20)
        if changed:
            old = getattr(run, f"{part}_data")
            labels = old.labels.copy()
            labels[0] = (labels[0] + 1) % 10
            new = dataclasses.replace(old, labels=labels)
            setattr(run, f"{part}_data", new)
        return run

    end = train(make(), tmp_path, kill_at=None if finished else 7)
    assert (end is not None) == finished
    before = contents(tmp_path)
    other = make(changed=True)
    with pytest.raises(ValueError, match="was started on other") as caught:
        other.train(tmp_path)
    message = str(caught.value)
    assert "\n" not in message and "digits" in message
    for run in (make(), other):
        described = provenance.describe(getattr(run, f"{part}_data"))
        assert described["sha256"] in message
    assert contents(tmp_path) == before
    assert train(make(), tmp_path) is not None  # the data are back


def test_saves_by_the_clock(tmp_path, monkeypatch):
    run = make_run()
    run.policy = Policy(minutes=1e-9, keep=1)
    assert train(run, tmp_path, kill_at=2) is None
    names = {path.name for path in tmp_path.glob("checkpoints/*")}
    # The last epoch's end stays, to go back to.
    assert names == {"step-00000000", "step-00000002"}


def test_what_is_not_finite_stops_the_run(tmp_path):
    run = make_run(bad_step=6, good_after=9, max_rollbacks=0, every=1)
    with pytest.raises(ValueError) as caught:
        train(run, tmp_path)
    message = str(caught.value)
    assert "The loss or a gradient of step 7 is not finite." in message
    assert "--on_nonfinite=rollback" in message and "\n" not in message
    # The examples are those of the seventh batch that a run reads.
    batches = data.train_pipeline(run.train_data, batch_size=12, seed=0)
    *_, (images, labels) = batches.take(7)
    found = message.split("examples ")[1].split(" of the")[0]
    indices = [int(index) for index in found.split(", ")]
    assert run.train_data.labels[indices].tolist() == labels.numpy().tolist()
    # The state before is the newest, and is good.
    names = sorted(path.name for path in tmp_path.glob("checkpoints/*"))
    assert names[-1] == "step-00000006"
    reader = tf.train.load_checkpoint(
        str(tmp_path / "checkpoints" / names[-1] / "state")
    )
    for name in reader.get_variable_to_shape_map():
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH":
            assert np.isfinite(reader.get_tensor(name)).all()


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    """A last step that overflows has no next one to notice it."""
    run = make_run(rate=1e38, max_rollbacks=0, every=1)
    with pytest.raises(ValueError, match="of step . is not finite"):
        train(run, tmp_path)
    assert list(tmp_path.glob("checkpoints/step-*"))
    assert not (tmp_path / "classifier.keras").exists()


# A scale of 4 is halved twice; one of 0 is not even saved.
@pytest.mark.parametrize("scale, step", [(4.0, 3), (0.0, 0)])
def test_loss_scaling_does_not_skip_for_ever(scale, step, tmp_path):
    with precision.policy("mixed_float16"):
        run = make_run(loss=Steep, max_rollbacks=0)
    run.trainer.checkpoint()
    run.trainer.optimizer.dynamic_scale.assign(scale)
    with pytest.raises(ValueError, match=f"of step {step} is not finite"):
        train(run, tmp_path)


def test_a_full_disk_that_tensorflow_meets(tmp_path):
    """As TensorBoard's writer does: no OSError, and a text of many lines."""
    run = make_run()
    original = run._callbacks

    class Full(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise tf.errors.ResourceExhaustedError(
                None, None, f"{tmp_path}; No space left on device\nFlush failed"
            )

    run._callbacks = lambda *a: [*original(*a), Full()]
    with pytest.raises(OSError, match=r"^No space left on device: the files"):
        run.train(tmp_path)


def test_a_workdir_is_one_processs_at_a_time(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with held_elsewhere(folder / ".lock"):
        before = sorted(folder.rglob("*"))
        with pytest.raises(ValueError, match="Another process is training in"):
            make_run().train(folder, flags="--epochs=3\n")
        assert sorted(folder.rglob("*")) == before
        # One that only reads, as workers other than the chief do, may come in.
        with Workdir(folder).claim(writes=False):
            pass
    with Workdir(folder).claim("--epochs=3\n"):
        assert Workdir(folder).is_run


def test_a_file_system_without_locks_is_no_reason_to_stop(
    tmp_path, monkeypatch
):
    def flock(*_):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr("fcntl.flock", flock)
    trained = []
    with Workdir(tmp_path).claim():
        trained.append(tmp_path)
    assert trained and (tmp_path / ".lock").exists()


def test_the_flags_are_written_and_compared_under_the_lock(
    tmp_path, monkeypatch
):
    """Another process writes its flags just before this one has the lock."""
    workdir = Workdir(tmp_path / "run")
    held = lock.held

    @contextlib.contextmanager
    def other_was_faster(path, **arguments):
        with held(path, **arguments):
            workdir.flags.write_text("--seed=9\n")
            yield

    monkeypatch.setattr(lock, "held", other_was_faster)
    with (
        pytest.raises(ValueError, match="another configuration"),
        workdir.claim("--epochs=3\n"),
    ):
        pytest.fail("it was claimed")
    assert workdir.flags.read_text() == "--seed=9\n"


def test_flags_without_a_format_are_read_and_newer_ones_refused(tmp_path):
    workdir = Workdir(tmp_path / "run")
    with workdir.claim("--epochs=3\n"):
        pass
    text = workdir.flags.read_text()
    assert text == "# Flags of a run of adt_tf, format 1\n--epochs=3\n"
    workdir.flags.write_text("--epochs=3\n--data_dir=elsewhere\n")  # 0.1.0
    with workdir.claim("--epochs=3\n"):
        pass
    workdir.flags.write_text(text.replace("format 1", "format 2"))
    with pytest.raises(ValueError, match="format 1 only. Received: format 2"):
        workdir.check_flags("--epochs=3\n")


@pytest.mark.parametrize("name", ["thesis.tex", ".adt_tf-mine.partial"])
def test_a_folder_with_other_files_is_not_claimed(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with (
        pytest.raises(ValueError, match="is not empty and is not the workdir"),
        Workdir(tmp_path).claim("--epochs=3\n"),
    ):
        pytest.fail("it was claimed")
    assert [path.name for path in tmp_path.iterdir()] == [name]


class Escaping(PointAttack):
    """Leaves the ball, the box or the numbers by what it is given."""

    def __init__(self, away):
        super().__init__(Linf(0.1), "Runaway")
        self.away = away

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        return x + self.away


@pytest.mark.parametrize(
    "away, jit_compile, message",
    [
        (0.2, False, "Runaway left its threat model .*0.1.* in step 1"),
        (-0.05, True, "Runaway left its threat model"),
        (
            np.nan,
            False,
            r"image \(Runaway\) of step 1 is not finite. The batch",
        ),
    ],
)
def test_an_attack_that_escapes_is_not_trained_on(
    away, jit_compile, message, tmp_path
):
    run = make_run(attack=Escaping(away), max_rollbacks=0)
    run.trainer.compile(keras.optimizers.SGD(0.1), jit_compile=jit_compile)
    before = run.trainer.classifier.get_weights()
    with pytest.raises(ValueError, match=message):
        run.train(tmp_path)
    for a, b in zip(before, run.trainer.classifier.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("bound", [0, 1])
def test_weights_that_overflow_in_an_epochs_last_step(bound, tmp_path, capsys):
    """They are noticed before the best epoch is measured."""
    held_out = data.load("digits", split="test", num_examples=20)
    run = make_run(max_rollbacks=bound, keep_best=True)
    run.validation_data = held_out
    original = run._callbacks

    class Overflow(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            first = int(run.trainer.rollbacks.numpy()) == 0
            if first and int(run.trainer.optimizer.iterations) == STEPS:
                weight = run.trainer.classifier.trainable_variables[0]
                weight.assign(weight * np.inf)

    run._callbacks = lambda *a: [Overflow(), *original(*a)]
    if bound:
        assert train(run, tmp_path) is not None
        assert "Rolling back to step 0" in capsys.readouterr().err
        return
    with pytest.raises(ValueError) as caught:
        train(run, tmp_path)
    assert "A weight of step 4 is not finite. The batch holds" in str(
        caught.value
    )


def test_goes_back_with_other_noise(never_stopped, tmp_path, capsys):
    arguments = {"bad_step": 6, "good_after": 2}
    end = train(make_run(**arguments), tmp_path / "once")
    told = capsys.readouterr().err
    assert told.count("Rolling back to step 4 with other noise") == 2
    assert "rollback 2 of at most 3" in told
    changed = differences(end, never_stopped)
    assert "0" in changed and "metrics" in changed
    rows = list(csv.DictReader(end["metrics"].decode().splitlines()))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    first = never_stopped["metrics"].splitlines()[:2]
    assert end["metrics"].splitlines()[:2] == first
    # The same where it is killed on the way, and saved at other moments.
    for kill_at in (5, 10):
        train(
            make_run(**arguments, every=kill_at // 5),
            tmp_path / "again",
            kill_at=kill_at,
        )
    assert (
        differences(train(make_run(**arguments), tmp_path / "again"), end) == []
    )


@pytest.mark.slow
def test_goes_back_a_bounded_number_of_times(tmp_path, capsys):
    run = make_run(bad_step=2, good_after=9, max_rollbacks=2)
    with pytest.raises(ValueError, match="2 rollbacks did not help"):
        train(run, tmp_path)
    assert capsys.readouterr().err.count("Rolling back to step 0") == 2
    # The count is part of the state: the same command does not go back again.
    run = make_run(bad_step=2, good_after=9, max_rollbacks=2)
    with pytest.raises(ValueError, match="2 rollbacks did not help"):
        train(run, tmp_path)
    assert "Rolling back" not in capsys.readouterr().err

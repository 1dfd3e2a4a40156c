"""Many devices give the weights of one, to rounding: real processes."""

import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import losses, methods, networks
from adt_tf.runs import fit_loop, strategies
from tests.support import runs
from tests.test_every_method import METHODS

ROOT = pathlib.Path(__file__).parents[1]
# Ten steps, from a start at which all gradients are large.
RUN = ["--train_examples=640", "--epochs=1", "--epsilon=0.15"]
SHORT = ["--train_examples=128", "--epochs=1", "--epsilon=0.15"]
# An ascent by signs makes a whole step of a rounding error wherever a gradient
# is nearly zero. Small steps keep that small, and leave all else as it is.
SMALL = {
    "at_pgd": ["--step_size=0.0001"],
    "alp": ["--step_size=0.00001"],
    "trades": ["--step_size=0.0001"],
    "adt_exp": ["--step_size=0.001"],
    "adt_exp_am": ["--width_factor=0.05"],
    "adt_imp_am": ["--width_factor=0.05"],
    "l2l": ["--width_factor=0.05"],
}


def start(output, flags, **environment):
    """Starts one process of a run; its workdir is beside its output.

    Without a suffix there is no output, and it is adt-train that runs.
    """
    return subprocess.Popen(
        [
            sys.executable,
            "tests/support/distributed_run.py",
            output if output.suffix else "-",
            output.with_suffix(""),
            *flags,
        ],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def start_workers(output, flags, **environment):
    """Starts two workers that meet on this machine."""
    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for one in sockets:
        one.close()
    return [
        start(
            output,
            [*flags, "--distribute=multiworker"],
            TF_CONFIG=json.dumps(
                {
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                }
            ),
            **environment,
        )
        for index in range(2)
    ]


def finish(*processes):
    for process in processes:
        text, _ = process.communicate(timeout=1500)
        assert process.returncode == 0, text


def largest_difference(path, other):
    with np.load(path) as first, np.load(other) as second:
        assert first["steps"] == second["steps"]
        return max(np.abs(first[n] - second[n]).max() for n in first.files)


def run_mirrored(path, flags, **environment):
    one, two = path / "none.npz", path / "mirrored.npz"
    mirrored = [*flags, "--distribute=mirrored"]
    finish(
        start(one, flags, **environment),
        start(two, mirrored, LOGICAL_DEVICES="2", **environment),
    )
    return largest_difference(one, two)


@pytest.mark.slow
def test_two_devices_give_the_weights_of_one(tmp_path):
    """Two steps, with validation."""
    flags = [
        *SHORT,
        "--method=at_pgd",
        "--validation_examples=32",
        *SMALL["at_pgd"],
    ]
    assert run_mirrored(tmp_path, flags) < 2e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", sorted(set(methods.list()) - {"fea_scatter"})
)
def test_two_devices_give_the_weights_of_one_for_every_method(method, tmp_path):
    """Networks of the attack are trained by SGD.

    Adam divides by the size of a gradient, so its steps amplify the rounding
    of gradients near zero: by up to 2e-4 in two steps of ADT-IMP-AM.
    """
    flags = [*SHORT, f"--method={method}", *SMALL.get(method, [])]
    amortized = "--width_factor" in " ".join(flags)
    environment = {"ATTACK_RATE": "0.01"} if amortized else {}
    assert run_mirrored(tmp_path, flags, **environment) < 5e-6


@pytest.mark.slow
def test_two_devices_with_the_modern_recipe(tmp_path):
    """Weights perturbed alike on both, an average of both, mixed labels."""
    flags = [
        *SHORT,
        "--method=at_pgd",
        *SMALL["at_pgd"],
        "--awp_size=0.01",
        "--ema_momentum=0.9",
        "--cutmix=0.5",
        "--label_smoothing=0.1",
        "--activation=silu",
    ]
    assert run_mirrored(tmp_path, flags) < 5e-6


@pytest.mark.slow
def test_two_devices_in_mixed_precision(tmp_path):
    """In methods without Adam, which makes whole steps of rounding errors."""
    flags = [*SHORT, "--method=at_pgd", *SMALL["at_pgd"]]
    difference = run_mirrored(tmp_path, [*flags, "--precision=mixed_bfloat16"])
    print(f"\nmixed_bfloat16: {difference:.1e}")
    # A bfloat16 has 8 bits; weights are of the order of 0.1.
    assert difference < 2e-3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adt_exp", "adt_exp_am"])
def test_ten_steps_are_those_of_one_device(method, tmp_path):
    flags = [*RUN, f"--method={method}", *SMALL[method]]
    one, two = tmp_path / "none.npz", tmp_path / "multiworker.npz"
    mirrored = run_mirrored(tmp_path, flags)
    finish(*start_workers(two, flags))
    workers = largest_difference(one, two)
    apart = largest_difference(tmp_path / "mirrored.npz", two)
    print(
        f"\n{method}, from one device: mirrored {mirrored:.1e}, multiworker "
        f"{workers:.1e}; from each other {apart:.1e}"
    )
    assert apart < 1e-6
    # Rounding errors in the generator's gradient grow with the steps: see
    # `test_each_step_on_two_devices_is_that_of_one`.
    assert method == "adt_exp_am" or max(mirrored, workers) < 2e-5
    # Only the chief writes.
    assert len(list((tmp_path / "multiworker" / "tensorboard").iterdir())) == 1


@pytest.mark.slow
def test_an_overflow_on_one_replica_is_skipped_by_all():
    done = subprocess.run(
        [sys.executable, "tests/support/distributed_overflow.py"],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    whole, skipped = json.loads(done.stdout)
    # The sum of the gradients 0.5 and 0.5, times the rate 0.1.
    np.testing.assert_allclose(whole["weights"], [0.9, 0.9], rtol=1e-6)
    assert skipped["weights"] == whole["weights"]
    assert skipped["scale"] == whole["scale"] / 2


def test_the_hinge_of_the_entropy_is_that_of_the_global_batch():
    """Neither of a replica's own mean nor of single examples."""
    done = subprocess.run(
        [sys.executable, "tests/support/distributed_hinge.py"],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    # 2 * relu(-m - t) has the slope 2 m = -0.8 where m = -0.4 is below -t.
    expected = [-0.8, -0.8, 0.0, 0.0]
    for slopes in json.loads(done.stdout).values():
        np.testing.assert_allclose(slopes, expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method, steps, network",
    [
        ("adt_exp", 10, "small_cnn"),
        ("adt_exp_am", 10, "small_cnn"),
        ("adt_exp", 1, "wrn-10-2"),
    ],
)
def test_each_step_on_two_devices_is_that_of_one(method, steps, network):
    """The methods with their own optimisers; each step from the same state.

    Over several steps rounding errors grow by chance: where one of them changes
    the sign before a ReLU, the gradient jumps. In one step from the same state
    this happens rarely and changes little. The wide network's convolutions run
    in Winograd's form.
    """
    script = "tests/support/distributed_steps.py"
    done = subprocess.run(
        [sys.executable, script, method, str(steps), network],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    weights, _, moments = np.array(result["differences"]).T
    print(f"\n{method}: weights {weights}, moments {moments}")
    assert len(weights) == steps and weights.max() < 1e-6
    # A fault of the distribution changes every step. Rounding seldom changes a
    # sign, and then moves single entries of gradients of the order of 0.1.
    assert np.median(moments) < 1e-6
    assert moments.max() <= 1e-2 * result["moment"]


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 0], ids=["a worker", "the chief"])
def test_a_killed_worker_ends_the_job_which_then_goes_on(lost, tmp_path):
    flags = [
        "--train_examples=256",
        "--epochs=4",
        "--epsilon=0.15",
        "--method=adt_exp",
        "--num_steps=2",
        "--num_samples=2",
        "--checkpoint_steps=3",
    ]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(*start_workers(whole, flags))
    workers = start_workers(killed, flags)
    deadline = time.time() + 900
    while not list(killed.glob("checkpoints/step-0000000[1-9]")):
        assert time.time() < deadline and workers[0].poll() is None
        time.sleep(0.05)
    workers[lost].send_signal(signal.SIGKILL)
    workers[lost].communicate()
    text, _ = workers[1 - lost].communicate(timeout=900)
    print(text)
    assert workers[1 - lost].returncode not in (0, None), text
    # Of the chief TensorFlow itself may tell first, and end the process.
    if lost:
        assert "error: Another worker has stopped" in text, text
        assert "Start all workers again" in text and "Traceback" not in text
    assert not (killed / "classifier.keras").exists()
    finish(*start_workers(killed, flags))
    ends = [runs.end_of(path) for path in (killed, whole)]
    # A checkpoint holds the sum of the workers' running means, and each goes
    # on from its share: that may round the epoch's means otherwise.
    means = [
        np.genfromtxt(io.BytesIO(end.pop("metrics.csv")), delimiter=",")
        for end in ends
    ]
    np.testing.assert_allclose(*means, rtol=1e-6)
    assert runs.differences(*ends) == []


BAD_RUNS = {
    "no TF_CONFIG": (["--distribute=multiworker"], {}, "TF_CONFIG"),
    "no JSON": (
        ["--distribute=multiworker"],
        {"TF_CONFIG": "host0,host1"},
        "must be JSON",
    ),
    "no such worker": (
        ["--distribute=multiworker"],
        {
            "TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, '
            '"task": {"type": "worker", "index": 1}}'
        },
        "must be JSON",
    ),
    "rollback": (
        ["--distribute=multiworker", "--on_nonfinite=rollback"],
        {
            "TF_CONFIG": '{"cluster": {"worker": ["127.0.0.1:0"]}, '
            '"task": {"type": "worker", "index": 0}}'
        },
        "use --on_nonfinite=stop",
    ),
    "strategy": (["--distribute=tpu"], {}, "--distribute must be one of"),
    "precision": (["--precision=float8"], {}, "--precision must be one of"),
}


@pytest.mark.parametrize("kind", BAD_RUNS)
def test_bad_combinations_get_one_clear_line(kind, tmp_path):
    flags, environment, message = BAD_RUNS[kind]
    done = subprocess.run(
        [
            sys.executable,
            "scripts/train.py",
            *flags,
            f"--workdir={tmp_path}/run",
        ],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert message in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_worker_lost_between_the_steps_is_told_as_well(monkeypatch):
    def gone(_):
        raise tf.errors.UnavailableError(None, None, "Socket closed")

    monkeypatch.setattr(strategies, "is_multiworker", lambda _: True)
    monkeypatch.setattr(strategies, "_gather", lambda _: gone)
    strategy = tf.distribute.get_strategy()
    for call in (
        lambda: strategies.check_equal(strategy, "step", 1),
        lambda: strategies.any_worker(strategy, True),
    ):
        with pytest.raises(OSError, match="Start all workers again"):
            call()


class Replicas:
    num_replicas_in_sync = 4


def test_numbers_must_fit_the_replicas():
    strategies.check_divisible(Replicas, batch_size=64, validation_examples=0)
    with pytest.raises(ValueError, match="--batch_size.*4. Received: 66"):
        strategies.check_divisible(Replicas, batch_size=66)


def test_unknown_strategies_are_refused():
    with pytest.raises(ValueError, match="Received: name='tpu'"):
        strategies.get("tpu")


def test_networks_synchronise_under_a_strategy_only():
    def synchronized(model):
        return {
            layer.synchronized
            for layer in model.layers
            if isinstance(layer, keras.layers.BatchNormalization)
        }

    def build():
        return [
            networks.get("small_cnn", input_shape=(8, 8, 1), width=4),
            networks.get("wrn-10-1"),
            *methods.adt_imp_am(
                0.1, input_shape=(8, 8, 1), width_factor=0.01
            ).attack.networks,
        ]

    assert {s for m in build() for s in synchronized(m)} == {False}
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        assert {s for m in build() for s in synchronized(m)} == {True}


def test_split_keeps_every_example_once_and_in_order():
    batches = tf.data.Dataset.from_tensor_slices(
        (np.arange(20), np.arange(20) * 2)
    ).batch(8)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    parts = list(strategies.split(strategy, batches))
    assert [len(x) for x, _ in parts] == [8, 8, 4]
    np.testing.assert_array_equal(
        np.concatenate([y for _, y in parts]) / 2, range(20)
    )


def test_table_of_methods_is_the_one_tested():
    assert set(SMALL) <= {name.split(" ")[0] for name in METHODS}


def test_one_worker_loop_is_keras_own(images):
    """The loop for many machines, run on one, does what `fit` does."""

    def trained(loop):
        trainer = adt_tf.AdversarialTrainer(
            networks.get("small_cnn", input_shape=(8, 8, 1), width=4),
            adt_tf.attacks.pgd(0.1, num_steps=1),
            losses.cross_entropy,
        )
        trainer.compile(keras.optimizers.SGD(0.1))
        data = tf.data.Dataset.from_tensor_slices(images).batch(6)
        history = loop(
            trainer,
            data.repeat(),
            data,
            steps_per_epoch=2,
            epochs=2,
            callbacks=[adt_tf.callbacks.EpsilonWarmup(2)],
        ).history
        return history, trainer.classifier.get_weights()

    (ours, weights), (theirs, others) = (
        trained(loop) for loop in (fit_loop._loop, fit_loop._keras_loop)
    )
    for a, b in zip(weights, others, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert set(ours) == set(theirs)
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5)

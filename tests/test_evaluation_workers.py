"""Several processes or devices give the verdicts of one."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import adt_tf
from adt_tf import attacks, evaluation
from adt_tf.evaluation.sharing import Workers
from adt_tf.evaluation.state import State
from tests.support import in_process

ROOT = pathlib.Path(__file__).parents[1]
FLAGS = [
    "--preset=digits_small_cnn_at_pgd",
    "--epsilon=0.2",
    "--test_examples=96",
    "--eval_batch_size=32",
    "--attacks=pgd-10,apgd-t-20,square-200",
]


def start(output, *flags, **environment):
    return subprocess.Popen(
        [
            sys.executable,
            "tests/support/distributed_evaluation.py",
            *FLAGS,
            f"--output={output}",
            *flags,
        ],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def start_workers(output, **environment):
    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for one in sockets:
        one.close()
    return [
        start(
            output,
            "--distribute=multiworker",
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
    texts = [process.communicate(timeout=900)[0] for process in processes]
    for process, text in zip(processes, texts, strict=True):
        assert process.returncode == 0, text
    return texts


def outcomes(path):
    return json.loads(path.read_text())["outcomes"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    path = tmp_path_factory.mktemp("alone") / "evaluation.json"
    finish(start(path))
    return outcomes(path)


@pytest.mark.slow
def test_two_processes_give_the_verdicts_of_one(alone, tmp_path):
    path = tmp_path / "evaluation.json"
    chief, worker = finish(*start_workers(path))
    assert outcomes(path) == alone
    assert "A_rob" in chief and "A_rob" not in worker
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".csv", ".md"}


@pytest.mark.slow
def test_two_devices_give_the_verdicts_of_one(alone, tmp_path):
    path = tmp_path / "evaluation.json"
    finish(start(path, "--distribute=mirrored", LOGICAL_DEVICES="2"))
    assert outcomes(path) == alone


@pytest.mark.slow
def test_a_killed_worker_ends_the_job_which_then_goes_on(alone, tmp_path):
    path = tmp_path / "evaluation.json"
    workers = start_workers(path, SLOWLY="0.5")
    deadline = time.time() + 300
    while not list(tmp_path.glob("*.worker-1.batch.npz")):
        assert time.time() < deadline and workers[0].poll() is None
        time.sleep(0.05)
    workers[1].send_signal(signal.SIGKILL)
    workers[1].communicate()
    text, _ = workers[0].communicate(timeout=600)
    assert workers[0].returncode not in (0, None), text
    assert "error: Another worker has stopped" in text, text
    assert "Traceback" not in text
    assert not path.exists()
    assert list(tmp_path.glob("unfinished-evaluation-*"))
    text, _ = finish(*start_workers(path))
    assert "Continuing an evaluation that was interrupted" in text
    assert outcomes(path) == alone
    assert not list(tmp_path.glob("unfinished-*"))


class Second(Workers):
    index, count = 1, 2


class First(Workers):
    index, count = 0, 2


def test_every_example_has_one_worker():
    mask = np.random.default_rng(0).uniform(size=31) < 0.6
    first, second = First().own(mask), Second().own(mask)
    np.testing.assert_array_equal(first | second, mask)
    assert not np.any(first & second)
    assert abs(int(first.sum()) - int(second.sum())) <= 1


def test_files_of_all_workers_are_merged(images, tmp_path):
    x, _ = images

    def state(worker):
        return State(
            ["natural", "a"],
            x,
            keep_examples=False,
            directory=tmp_path,
            key="k",
            worker=worker,
        )

    one, two = state(0), state(1)
    for kept in (one, two):
        kept.outcomes[0], kept.parts_done[0] = 1, 1
    one.outcomes[1, :3], one.parts_done[1, :3] = [1, 1, 0], [2, 1, 1]
    two.outcomes[1, 1:4], two.parts_done[1, 1:4] = [1, 1, 0], [4, 2, 3]
    one.save(now=True)
    two.save(now=True)
    for worker in (0, 1, 2):
        merged = state(worker)
        assert merged.resumed
        np.testing.assert_array_equal(merged.outcomes[1, :5], [1, 1, 0, 0, -1])
        # A wrong verdict is final, whatever another one has seen.
        np.testing.assert_array_equal(merged.parts_done[1, :5], [2, 4, 1, 3, 0])
    one.remove()
    assert not list(tmp_path.iterdir())


def test_processes_need_a_directory_and_the_same_evaluation(images, tmp_path):
    model = adt_tf.from_preset("digits_small_cnn_at_pgd")
    chosen = [attacks.fgsm(0.1)]

    def run(workers, **settings):
        settings = evaluation.Settings(
            workers=workers, verbose=False, **settings
        )
        with evaluation.evaluated(model, images, chosen, settings):
            pass

    with pytest.raises(ValueError, match="share an evaluation through files"):
        run(First())

    class Other(First):
        def merged(self, values):
            return values + 1

    with pytest.raises(ValueError, match="start them with the same command"):
        run(Other(), directory=tmp_path)


BAD_FLAGS = {
    "name": (["--distribute=tpu"], "--distribute must be one of"),
    "images": (
        ["--distribute=mirrored", "--keep_examples"],
        "cannot be combined with --keep_examples",
    ),
    "samples": (
        ["--distribute=mirrored", "--distributions=uniform"],
        "cannot be combined with --distributions",
    ),
    "generators": (
        ["--distribute=mirrored", "--attacks=pgd-20,exp-am"],
        "cannot be combined with --attacks=exp-am",
    ),
}


@pytest.mark.parametrize("kind", BAD_FLAGS)
def test_flags_that_do_not_go_together_are_refused(kind, tmp_path):
    flags, message = BAD_FLAGS[kind]
    process = in_process.run(
        "evaluate",
        "--preset=digits_small_cnn_at_pgd",
        f"--output={tmp_path}/evaluation.json",
        "--attacks=pgd-2",
        *flags,
    )
    assert process.returncode == 1 and message in process.stderr
    assert len(process.stderr.strip().splitlines()) == 1

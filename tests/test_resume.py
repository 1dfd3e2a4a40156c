"""Runs that are killed end as if they had not been, bit for bit."""

import random
import time

import numpy as np
import pytest

from adt_tf import data
from tests.support import runs

METHODS = list(runs.METHODS)
MODERN = ["at_pgd", "adt_exp_am"]
PARTIAL = "checkpoints/.adt_tf-*.partial"
AT_RANDOM = [(m, i) for i, m in enumerate(sorted(METHODS * 4))]
WHILE_WRITING = [(m, i) for i, m in enumerate(sorted(METHODS * 2))]


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    """Returns the end of a method's run that was left alone."""
    ends = {}

    def end(method):
        if method not in ends:
            path = tmp_path_factory.mktemp("never_stopped") / method
            runs.finish(path, *flags(method))
            ends[method] = runs.end_of(path)
            assert sum(name.startswith("state") for name in ends[method]) > 20
        return ends[method]

    return end


@pytest.fixture(scope="module")
def extra(tmp_path_factory):
    """A file of extra data: the test images of the digits."""
    path = tmp_path_factory.mktemp("extra") / "extra.npz"
    test = data.load("digits", split="test")
    np.savez(path, image=test.images, label=test.labels)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("method", MODERN)
def test_every_part_of_the_recipe_is_resumed(method, extra, tmp_path):
    """SIGKILL before the perturbation begins, in it, and at a checkpoint."""
    given = [*flags(method), *runs.MODERN, f"--extra_data={extra}"]
    whole = tmp_path / "whole"
    runs.finish(whole, *given)
    end = runs.end_of(whole)
    assert any("average" in name for name in end)
    path = tmp_path / "run"
    for step, every in ((3, 1), (11, 3), (17, 1)):
        every = f"--checkpoint_steps={every}"
        process = runs.start(path, *given, every)
        runs.kill_when(process, lambda s=step: runs.last_step(path) >= s)
    runs.finish(path, *given)
    assert runs.differences(runs.end_of(path), end) == []


def flags(method):
    return [f"--method={method}", *runs.COMMON, *runs.METHODS[method]]


@pytest.mark.slow
def test_a_search_in_bfloat16_is_resumed(tmp_path):
    """SIGKILL within both epochs of a run that searches in bfloat16."""
    given = [
        "--dataset=digits",
        "--method=at_pgd",
        "--num_steps=1",
        "--search_precision=bfloat16",
        "--train_examples=64",
        "--batch_size=16",
        "--epochs=2",
        "--epsilon=0.15",
    ]
    (tmp_path / "whole").mkdir()
    whole, path = tmp_path / "whole" / "run", tmp_path / "run"
    runs.finish(whole, *given)
    for step in (1, 6):
        process = runs.start(path, *given, "--checkpoint_steps=1")
        runs.kill_when(process, lambda s=step: runs.last_step(path) >= s)
    runs.finish(path, *given)
    assert "--search_precision=bfloat16" in (path / "flags.txt").read_text()
    assert runs.differences(runs.end_of(path), runs.end_of(whole)) == []


@pytest.mark.slow
@pytest.mark.parametrize("method, kill", AT_RANDOM)
def test_killed_at_a_random_moment(method, kill, never_stopped, tmp_path):
    """SIGKILL so many steps and moments after the start; then once more."""
    generator = random.Random(kill)
    step, wait = generator.randrange(-1, 17), generator.uniform(0, 0.3)
    every = f"--checkpoint_steps={generator.choice([1, 3, 100])}"
    path = tmp_path / "run"
    process = runs.start(path, *flags(method), every)

    def now():
        if runs.last_step(path) < step:
            return False
        time.sleep(wait)
        return True

    runs.kill_when(process, now)
    print(f"\n{method}: killed, the last saved is {runs.last_step(path)}")
    runs.finish(path, *flags(method), every)
    assert runs.differences(runs.end_of(path), never_stopped(method)) == []


@pytest.mark.slow
@pytest.mark.parametrize("method, kill", WHILE_WRITING)
def test_killed_while_a_checkpoint_is_written(
    method, kill, never_stopped, tmp_path
):
    """SIGKILL such that a checkpoint is left that is not whole."""
    generator = random.Random(100 + kill)
    step = generator.randrange(10)
    unfinished = generator.choice(["step-*", "step-*/state*"])
    path, left = tmp_path / "run", []
    while not left:  # it may have become whole just before
        process = runs.start(path, *flags(method), "--checkpoint_steps=1")
        runs.kill_when(
            process,
            lambda: (
                runs.last_step(path) >= step
                and any(path.glob(f"{PARTIAL}/{unfinished}"))
            ),
        )
        left = [p.name for p in path.glob(f"{PARTIAL}/*")]
    print(f"\n{method}: killed, which left {left}")
    runs.finish(path, *flags(method), "--checkpoint_steps=1")
    assert not list(path.glob(PARTIAL))
    assert runs.differences(runs.end_of(path), never_stopped(method)) == []

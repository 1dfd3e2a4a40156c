"""Runs that are killed end as if they had not been, bit for bit."""

import random
import time

import pytest

from tests.support import runs

METHODS = list(runs.METHODS)
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


def flags(method):
    return [f"--method={method}", *runs.COMMON, *runs.METHODS[method]]


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

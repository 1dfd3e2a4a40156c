"""Checkpoints are whole or not there, whatever happens to the disk."""

import json
import os
import resource
import shutil

import numpy as np
import pytest
import tensorflow as tf

from adt_tf.runs.checkpoint_schedule import Policy
from adt_tf.runs.checkpoints import Checkpoints
from tests.support.disks import fill

SIZE = 50_000  # floats, in 200 kB


def make_store(directory, **arguments):
    state = tf.train.Checkpoint(weights=tf.Variable(tf.zeros([SIZE])))
    return Checkpoints(directory, state, **arguments)


def save(store, step, rollbacks=0):
    store.state.weights.assign(tf.fill([SIZE], float(step)))
    store.save(step=step, rollbacks=rollbacks, record={"step": step})


def restored(directory, **arguments):
    """Step of the record and of the weights, read into a new state."""
    store = make_store(directory)
    record = store.restore(**arguments)
    values = np.unique(store.state.weights)
    return None if record is None else (record["step"], *values.tolist())


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_newest_is_read_and_the_last_are_kept(tmp_path):
    assert restored(tmp_path / "checkpoints") is None
    store = make_store(tmp_path, keep=3, milestone=100)
    for step in (0, 7, 14, 100, 107, 114, 121):
        save(store, step)
    assert names(tmp_path) == [
        *["step-00000100", "step-00000107"],
        *["step-00000114", "step-00000121"],
    ]
    assert restored(tmp_path) == (121, 121.0)


def test_what_has_gone_back_is_newer(tmp_path):
    store = make_store(tmp_path, keep=1, milestone=100)
    for step in (0, 100, 107):
        save(store, step)
    assert store.restore(milestone=True)["step"] == 100
    save(store, 100, rollbacks=1)
    assert restored(tmp_path) == (100, 100.0)
    save(store, 105, rollbacks=1)
    assert names(tmp_path) == [
        "rollback-1-step-00000100",
        "rollback-1-step-00000105",
    ]


def cut(path):
    file = path / "state.data-00000-of-00001"
    os.truncate(file, file.stat().st_size // 2)


def flip(path):
    file = path / "state.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def lose(path):
    (path / "state.index").unlink()


def forget(path):
    (path / "record.json").write_text("")


def mangle(path):
    record = json.loads((path / "record.json").read_text())
    del record["sha256"]
    (path / "record.json").write_text(json.dumps(record))


def empty(path):
    shutil.rmtree(path)
    path.mkdir()


@pytest.mark.parametrize("damage", [cut, flip, lose, forget, mangle, empty])
def test_a_damaged_one_is_named_and_skipped(damage, tmp_path, capsys):
    store = make_store(tmp_path)
    for step in (1, 2):
        save(store, step)
    damage(tmp_path / "step-00000002")
    assert restored(tmp_path) == (1, 1.0)
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("warning: ") and "step-00000002 is damaged" in told
    assert told.endswith("It was renamed to damaged-step-00000002.")
    # The run comes by again.
    save(store, 2)
    assert restored(tmp_path) == (2, 2.0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "keep, good, damaged, next_step, left",
    [
        (1, [100], [130], 110, [100, 110]),
        (2, [100, 180], [190, 200], 185, [100, 180, 185]),
    ],
)
def test_damaged_ones_push_out_none_that_is_whole(
    keep, good, damaged, next_step, left, tmp_path
):
    store = make_store(tmp_path, keep=9)
    for step in good + damaged:
        save(store, step)
    for step in damaged:
        flip(tmp_path / f"step-{step:08d}")
    store = make_store(tmp_path, keep=keep, milestone=100)
    assert store.restore()["step"] == good[-1]
    save(store, next_step)
    whole = [path.name for path in tmp_path.glob("step-*")]
    assert sorted(whole) == [f"step-{step:08d}" for step in left]
    assert len(list(tmp_path.glob("damaged-*"))) == len(damaged)
    assert restored(tmp_path) == (next_step, next_step)


def test_the_one_just_saved_is_never_dropped(tmp_path):
    store = make_store(tmp_path, keep=1, milestone=100)
    for step in (130, 110):
        save(store, step)
    assert "step-00000110" in names(tmp_path)


def test_few_damaged_ones_are_left(tmp_path):
    store = make_store(tmp_path, keep=2)
    for step in range(5):
        save(store, step)
        save(store, step + 1)
        flip(tmp_path / f"step-{step + 1:08d}")
        assert store.restore()["step"] == step
    assert [n for n in names(tmp_path) if "damaged" in n] == [
        "damaged-step-00000004",
        "damaged-step-00000005",
    ]


def test_goes_back_though_the_last_milestone_is_damaged(tmp_path, capsys):
    store = make_store(tmp_path, milestone=100)
    for step in (0, 100, 107):
        save(store, step)
    store.restore(milestone=True)
    save(store, 100, rollbacks=1)
    forget(tmp_path / "rollback-1-step-00000100")
    assert store.restore()["step"] == 107
    for _ in range(2):  # with a damaged one, and then with none
        assert store.restore(milestone=True)["step"] == 107
    assert capsys.readouterr().err.count("No checkpoint of an epoch's end") == 2


def test_a_reader_renames_nothing(tmp_path, capsys):
    store = make_store(tmp_path)
    for step in (1, 2):
        save(store, step)
    flip(tmp_path / "step-00000002")
    before = names(tmp_path)
    assert make_store(tmp_path, writes=False).restore()["step"] == 1
    assert names(tmp_path) == before
    assert "step-00000002 is damaged" in capsys.readouterr().err


def test_where_all_are_damaged_nothing_is_started_anew(tmp_path):
    save(make_store(tmp_path), 1)
    flip(tmp_path / "step-00000001")
    with pytest.raises(ValueError, match="All checkpoints .* are damaged"):
        restored(tmp_path)


def test_the_state_of_something_else_is_refused(tmp_path):
    save(make_store(tmp_path), 1)
    other = tf.train.Checkpoint(bias=tf.Variable(0.0))
    with pytest.raises(ValueError, match="of another training run or version"):
        Checkpoints(tmp_path, other).restore()


def test_the_files_of_an_earlier_version_are_refused(tmp_path):
    state = tf.train.Checkpoint(weights=tf.Variable(0.0))
    tf.train.CheckpointManager(state, str(tmp_path), max_to_keep=2).save()
    with pytest.raises(ValueError, match="earlier version"):
        restored(tmp_path)


def test_what_a_killed_process_leaves_is_removed(tmp_path):
    save(make_store(tmp_path), 1)
    leftover = tmp_path / ".adt_tf-0a1b2c3d.partial"
    shutil.copytree(tmp_path / "step-00000001", leftover / "step-00000002")
    mine = ["partial-thesis", ".adt_tf-notes", "step-by-step"]
    for name in mine:
        (tmp_path / name).mkdir()
    assert restored(tmp_path) == (1, 1.0)
    assert names(tmp_path) == sorted(["step-00000001", *mine])


def fails_and_keeps(store, reason):
    """The save at step 2 fails in one line, and step 1 is as it was."""
    directory = store.directory
    before = {p: p.stat().st_mtime_ns for p in directory.rglob("*")}
    with pytest.raises(OSError, match=reason) as caught:
        save(store, 2)
    message = str(caught.value)
    assert "step-00000001 is kept" in message and "\n" not in message
    after = {p: p.stat().st_mtime_ns for p in directory.rglob("*")}
    assert after == before
    assert restored(directory) == (1, 1.0)


def test_a_limit_of_the_file_size(tmp_path):
    store = make_store(tmp_path)
    save(store, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        fails_and_keeps(store, "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    save(store, 2)
    assert restored(tmp_path) == (2, 2.0)


@pytest.mark.parametrize("free", [0, 100_000, 201_000])
def test_a_full_disk(free, small_disk):
    """Also where the data fit, but the rest no longer does."""
    store = make_store(small_disk / "checkpoints")
    save(store, 1)
    ballast = fill(small_disk, free)
    fails_and_keeps(store, "No space left on device")
    ballast.unlink()
    save(store, 2)
    assert restored(small_disk / "checkpoints") == (2, 2.0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"steps": -1}, "--checkpoint_steps must be at least 0"),
        ({"minutes": float("nan")}, "--checkpoint_minutes must be at least 0"),
        ({"keep": 0}, "--keep_checkpoints must be at least 1"),
    ],
)
def test_bad_policies_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Policy(**arguments)

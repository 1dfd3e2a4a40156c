"""JSON files are strict and checked, and no reader waits or reads for ever."""

import contextlib
import json
import math
import os
import pathlib
import signal
import zipfile

import numpy as np
import pytest

from adt_tf import array_files, files
from adt_tf.json_files import Each, Maybe, read_json, write_json

SCHEMA = {
    "ok": bool,
    "count": int,
    "share": float,
    "name": Maybe(str),
    "kind": {"good", "bad"},
    "rows": [{"x": float}],
    "by_name": Each([int]),
}
GOOD = {
    "ok": True,
    "count": 3,
    "share": 1,
    "kind": "good",
    "rows": [{"x": 0.5, "more": None}],
    "by_name": {"a": [1, 2]},
    "more": {},
}


def test_what_fits_is_read(tmp_path):
    path = tmp_path / "new" / "file.json"
    write_json(path, GOOD)
    assert read_json(path, SCHEMA) == {"format": 1, **GOOD}
    assert (
        path.read_text() == json.dumps({"format": 1, **GOOD}, indent=2) + "\n"
    )
    path.write_text(json.dumps(GOOD))  # as version 0.1.0 wrote it
    assert read_json(path, SCHEMA) == GOOD
    path.write_text(json.dumps([GOOD]))
    assert read_json(path, [SCHEMA]) == [GOOD]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"ok": 1}, "`ok` must be true or false. Received: 1"),
        ({"count": True}, "`count` must be a whole number. Received: true"),
        ({"count": 3.5}, "`count` must be a whole number. Received: 3.5"),
        ({"count": None}, "`count` must be a whole number. Received: nothing"),
        ({"share": "1"}, '`share` must be a number. Received: "1"'),
        ({"name": 7}, "`name` must be text. Received: 7"),
        ({"kind": []}, "`kind` must be one of ['bad', 'good']. Received: []"),
        ({"rows": {}}, "`rows` must be a list. Received: {}"),
        ({"rows": [{}]}, "`rows[0].x` must be a number. Received: nothing"),
        ({"by_name": []}, "`by_name` must be an object with fields"),
        ({"by_name": {"a": [1, "b"]}}, "`by_name.a[1]` must be a whole number"),
        ({"name": ["y" * 999]}, 'Received: ["yyy'),
        ({"format": 2}, "`format` must be one of [1]. Received: 2"),
        ({"format": "1"}, "`format` must be one of [1]. Received: "),
    ],
)
def test_what_does_not_fit_is_named(change, message, tmp_path):
    path = tmp_path / "file.json"
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(ValueError) as caught:
        read_json(path, SCHEMA)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and message in text
    assert "\n" not in text and len(text) < len(str(path)) + 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"count": 1, "count": 2}',
        b"[" * 100_000,
        b"[" * 50 + b"]" * 50,
        b'{"count": ' + b"9" * 9999 + b"}",
    ],
    ids=lambda content: content[:24].decode(errors="replace"),
)
def test_what_is_no_strict_json_is_refused(content, tmp_path):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"file.json is not a (JSON|text)"
    ) as told:
        read_json(path)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "number, expected",
    [
        ("NaN", "a finite number"),
        ("-Infinity", "a finite number"),
        ("1e999", "a finite number"),
        (str(2**63), "a number of 64 bits"),
        ('"\\ud800"', "text of whole characters"),
    ],
)
def test_what_only_python_reads_is_named(number, expected, tmp_path):
    path = tmp_path / "file.json"
    path.write_text(f'{{"rows": [{{"x": 1, "more": {number}}}]}}')
    with pytest.raises(ValueError) as told:
        read_json(path)
    assert f"{path}: `rows[0].more` must be {expected}. Rec" in str(told.value)


def test_brackets_in_text_are_no_depth(tmp_path):
    path = tmp_path / "file.json"
    write_json(path, {"text": '[{"' * 200 + "\\"})
    assert read_json(path)["text"] == '[{"' * 200 + "\\"


@pytest.mark.parametrize("number", [math.nan, math.inf, np.float64("nan")])
def test_what_json_cannot_hold_is_not_written(number, tmp_path):
    path = tmp_path / "file.json"
    path.write_text("mine")
    with pytest.raises(ValueError, match="file.json was not written, since JS"):
        write_json(path, {"share": [number]})
    assert path.read_text() == "mine"


@contextlib.contextmanager
def within(seconds):
    """Ends what waits or reads for ever."""

    def late(*_):
        raise TimeoutError("it takes for ever")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def endless(kind, folder):
    path = folder / "path"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = pathlib.Path("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 1 << 40)
    return path


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "huge file"])
@pytest.mark.parametrize("read", [read_json, files.read_text, files.read_bytes])
def test_nothing_is_read_for_ever(kind, read, tmp_path):
    path = endless(kind, tmp_path)
    reason = "larger than" if kind == "huge file" else "not a regular file"
    with within(20), pytest.raises(ValueError, match=f"{path} is {reason}"):
        read(path)


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "huge file"])
def test_no_array_is_read_for_ever(kind, tmp_path):
    with within(20):
        assert array_files.read_arrays(endless(kind, tmp_path)) is None


def test_arrays_say_their_format(tmp_path):
    path = tmp_path / "arrays.npz"
    array_files.write_arrays(path, {"x": np.arange(3)})
    with np.load(path, allow_pickle=False) as arrays:
        assert set(arrays) == {"format", "x"} and arrays["format"] == 1
    assert list(array_files.read_arrays(path)) == ["x"]
    np.savez(path, x=np.arange(3))  # as version 0.1.0 wrote it
    assert list(array_files.read_arrays(path)) == ["x"]
    for other in (2, "1", [1, 1]):
        np.savez(path, x=np.arange(3), format=np.array(other))
        assert array_files.read_arrays(path) is None


def test_a_bomb_of_zeros_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(50_000_000))
    assert path.stat().st_size < 100_000
    assert array_files.read_arrays(path, largest=1_000_000) is None

"""Files of weights against the arrays that torch and others say are in them.

tests/data/bridge was written by benchmarks/peers/bridge_references.py, with
torch.
"""

import collections
import io
import pathlib
import pickle
import zipfile

import numpy as np
import pytest

from adt_tf.serving.bridge.reading import array_files, state_dicts
from tests.support.weight_files import (
    call,
    literal,
    state,
    tensor,
    write_legacy,
    write_zip,
)

DATA = pathlib.Path(__file__).parent / "data" / "bridge"


@pytest.fixture(scope="module")
def expected():
    with np.load(DATA / "arrays.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize(
    "name", ["zip.pt", "legacy.pt", "arrays.safetensors", "arrays.npz"]
)
def test_every_form_has_the_same_arrays(name, expected):
    arrays = state_dicts.read(DATA / name)
    assert sorted(arrays) == sorted(expected)
    for entry, array in arrays.items():
        np.testing.assert_array_equal(array, expected[entry], err_msg=entry)
        assert array.dtype == expected[entry].dtype, entry


@pytest.mark.parametrize("name", ["zip.pt", "legacy.pt"])
def test_torch_s_order_is_kept(name):
    entries = list(state_dicts.read(DATA / name))
    assert entries[0] == "module.float.weight"
    assert entries[-1] == "module.bytes.mask"


def test_a_counter_stays_whole():
    arrays = state_dicts.read(DATA / "zip.pt")
    counter = arrays["module.bn.num_batches_tracked"]
    assert counter.dtype == np.int64 and counter == 123456789012


def test_a_compressed_npz(tmp_path, expected):
    np.savez_compressed(tmp_path / "a.npz", **expected)
    arrays = state_dicts.read(tmp_path / "a.npz")
    np.testing.assert_array_equal(
        arrays["module.turned.weight"], expected["module.turned.weight"]
    )


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_of_arrays(tmp_path, protocol):
    arrays = collections.OrderedDict(
        {
            "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
            "b.weight": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            "c.weight": np.arange(6, dtype=">f4").reshape(2, 3),
        }
    )
    saved = {
        "model": arrays,
        "best": np.float32(0.5),
        "args": {"lr": 0.1, "names": ["x"], "seeds": {1, 2}, "big": 2**70},
        "schedule": collections.Counter([75, 90]),
        "log": collections.defaultdict(list, {"loss": [1.0]}),
        "count": collections.defaultdict(int, {"steps": 3}),
        "sum": collections.defaultdict(float, {"loss": 3.0}),
    }
    path = tmp_path / "arrays.pkl"
    path.write_bytes(pickle.dumps(saved, protocol))
    read = state_dicts.read(path)
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)


def save(path, value):
    path.write_bytes(pickle.dumps(value, 2))
    return path


WEIGHT = {"w": np.ones((2, 2), np.float32)}


@pytest.mark.parametrize(
    "nest",
    [
        {"state_dict": WEIGHT},
        {"model": WEIGHT, "epoch": 3},
        {"ema": WEIGHT, "args": {"lr": 0.1}},
        {"last": WEIGHT},
        {"model": {"state_dict": WEIGHT}},
        [WEIGHT, {"lr": 0.1}],
        {"model": WEIGHT, "optimizer": {"state": {0: WEIGHT}}},
    ],
    ids=str,
)
def test_a_nested_state_dict(tmp_path, nest):
    assert list(state_dicts.read(save(tmp_path / "a.pkl", nest))) == ["w"]


def test_of_several_state_dicts_one_is_chosen(tmp_path):
    average = {"w": np.zeros((2, 2), np.float32)}
    path = save(tmp_path / "a.pkl", {"model": WEIGHT, "ema": average})
    with pytest.raises(ValueError, match="pass one of 'model', 'ema'"):
        state_dicts.read(path)
    assert state_dicts.read(path, entry="ema")["w"].max() == 0
    assert state_dicts.read(path, entry="model")["w"].min() == 1
    with pytest.raises(
        ValueError,
        match="no state dict.*under 'best', but under 'model', 'ema'",
    ):
        state_dicts.read(path, entry="best")


def test_a_device_among_the_settings(tmp_path):
    device = call("torch", "device", literal("cuda"), literal(0))
    pickled = state({"model": state({"w": tensor()})[2:-1], "device": device})
    write_zip(tmp_path / "a.pt", pickled)
    arrays = state_dicts.read(tmp_path / "a.pt")
    np.testing.assert_array_equal(arrays["w"], [[1, 2], [3, 4]])


def test_the_legacy_form_in_another_protocol(tmp_path):
    """As of torch.save(..., pickle_protocol=4)."""
    path = tmp_path / "a.pt"
    write_legacy(path, state({"w": tensor()}))
    number = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    content = path.read_bytes().removeprefix(number)
    path.write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C, 4) + content)
    arrays = state_dicts.read(path)
    np.testing.assert_array_equal(arrays["w"], [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        (b"\x1f\x8b\x08\x00", "by gzip: decompress it"),
        (b"\n<!DOCTYPE html><html>", "a web page: download the file"),
        (b"<html><body>", "a web page: download the file"),
    ],
)
def test_other_files_are_told(tmp_path, content, pattern):
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(ValueError, match=pattern):
        state_dicts.read(tmp_path / "a.pt")


def test_what_is_not_asked_for_is_not_read(tmp_path):
    """A storage of the optimiser's may be damaged."""
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(DATA / "zip.pt") as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    *_, last = sorted(
        (name for name in members if "/data/" in name),
        key=lambda name: int(name.split("/")[-1]),
    )
    del members[last]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert "module.float.weight" in state_dicts.read(path)


def test_safetensors_with_metadata(tmp_path):
    content = (
        b'{"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2],'
        b'"data_offsets":[0,4]}}'
    )
    stream = io.BytesIO()
    stream.write(len(content).to_bytes(8, "little") + content)
    stream.write(bytes([0x80, 0x3F, 0x00, 0xC0]))
    (tmp_path / "a.safetensors").write_bytes(stream.getvalue())
    arrays = array_files.safetensors(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(arrays["w"], np.float32([1, -2]))

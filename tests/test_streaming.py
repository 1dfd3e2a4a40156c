"""Data that stay on the disk: the same batches and results as in memory."""

import dataclasses
import itertools
import json
import re

import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, checks, data, seeds
from adt_tf.runs import provenance
from adt_tf.runs.config import Config
from tests.support import disk_data, in_process

FORMS = ("folder", "arrays", "records")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The arguments of `load` for one data set in three forms."""
    root = tmp_path_factory.mktemp("streamed")
    folder = disk_data.write_folder(root / "pets")
    disk_data.write_records(root / "tfds", folder)
    return {
        "folder": {"name": folder},
        "arrays": {"name": disk_data.write_arrays(root / "npy", folder)},
        "records": {"name": "pets", "data_dir": str(root / "tfds")},
    }


def both(arguments, **more):
    """The same data in memory and on the disk."""
    return [
        data.load(**arguments, **more, stream=stream)
        for stream in (False, True)
    ]


@pytest.mark.parametrize("form", FORMS)
def test_like_the_array(form, names):
    memory, disk = both(names[form])
    assert not memory.is_streamed and disk.is_streamed
    assert memory.class_names == disk.class_names == ("cat", "dog")
    assert disk.images.shape == memory.images.shape == (24, *disk_data.SIZE, 3)
    assert disk.images.dtype == memory.images.dtype == np.uint8
    np.testing.assert_array_equal(disk.labels, memory.labels)
    mask = memory.labels == 1
    for key in (3, -1, slice(2, 9), [5, 1, 5], np.array([7]), mask, slice(0)):
        np.testing.assert_array_equal(disk.images[key], memory.images[key])
    some = disk.images.take(mask).take([2, 0])
    np.testing.assert_array_equal(some[:], memory.images[mask][[2, 0]])
    np.testing.assert_array_equal(np.stack(list(some)), some[:])


@pytest.mark.parametrize("form", FORMS)
def test_config_knows_that_it_may_stream(form, names):
    """Commands ask before TensorFlow is imported."""
    dataset, *rest = names[form].values()
    config = Config(dataset=dataset, data_dir=rest[0] if rest else None)
    assert config.may_stream
    assert not dataclasses.replace(config, stream=False).may_stream


def test_config_knows_that_it_cannot_stream(names):
    other = names["records"]["data_dir"]
    assert not Config(dataset="digits", data_dir=other).may_stream
    assert not Config(dataset="cifar10", data_dir=other).may_stream


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_hold_the_same(form, names):
    first = data.load(**names["folder"], split="test", stream=False)
    other = data.load(**names[form], split="test", stream=True)
    np.testing.assert_array_equal(first.images, other.images[:])
    np.testing.assert_array_equal(first.labels, other.labels)


@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.parametrize("form", FORMS)
def test_held_out_alike(form, split, names):
    memory, disk = both(
        names[form], split=split, validation_examples=6, num_examples=5
    )
    assert len(disk) == 5
    np.testing.assert_array_equal(disk.images[:], memory.images)
    np.testing.assert_array_equal(disk.labels, memory.labels)


def equal_batches(one, other, count):
    for a, b in itertools.islice(zip(one, other, strict=False), count):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_batches_of_training(form, augment, names):
    """Over an epoch's end, and from any step on."""
    memory, disk = both(names[form])
    arguments = {"batch_size": 5, "seed": 3, "augment": augment}
    equal_batches(
        data.train_pipeline(memory, **arguments),
        data.train_pipeline(disk, **arguments),
        9,
    )
    equal_batches(
        data.train_pipeline(memory, **arguments).skip(6),
        data.train_pipeline(disk, **arguments, start_step=6),
        2,
    )
    spec = data.train_pipeline(disk, **arguments).element_spec
    assert spec == data.train_pipeline(memory, **arguments).element_spec


def test_batches_of_evaluation(names):
    memory, disk = (data.eval_pipeline(d, 7) for d in both(names["folder"]))
    assert disk.cardinality() == memory.cardinality() == 4
    equal_batches(memory, disk, 9)


def test_random_parts_are_a_function_of_seed_and_step(names):
    memory, disk = both(names["arrays"])
    arguments = {"batch_size": 6, "augment": True, "crop": "resized"}
    run = [
        x.numpy()
        for x, _ in data.train_pipeline(disk, seed=0, **arguments).take(5)
    ]
    # Arrays in memory are cut as those on the disk are.
    equal_batches(
        data.train_pipeline(memory, seed=0, **arguments),
        data.train_pipeline(disk, seed=0, **arguments),
        5,
    )
    resumed = data.train_pipeline(disk, seed=0, **arguments, start_step=3)
    np.testing.assert_array_equal(next(iter(resumed))[0], run[3])
    other = data.train_pipeline(disk, seed=1, **arguments)
    assert not np.array_equal(next(iter(other))[0], run[0])
    # Parts of images that are read again in the next epoch are others.
    assert len({x.tobytes() for batch in run for x in batch}) == 30
    assert min(x.min() for x in run) >= 0 and max(x.max() for x in run) <= 1


def test_boxes_are_those_asked_for():
    boxes = data.random_boxes(seeds.make(1), 20000).numpy()
    top, left, height, width = boxes.T
    assert boxes.min() >= 0
    assert (top + height).max() <= 1 + 1e-9
    assert (left + width).max() <= 1 + 1e-9
    area, ratio = height * width, np.log(width / height)
    assert area.min() >= 0.08 - 1e-9
    assert abs(area.mean() - 0.54) < 0.01  # uniform in [0.08, 1]
    assert np.abs(ratio).max() <= np.log(4 / 3) + 1e-9
    assert abs(ratio.mean()) < 0.01
    # Where there is room, a part lies anywhere.
    places = (top / (1 - height))[height < 0.9]
    assert abs(places.mean() - 0.5) < 0.02 and np.ptp(places) > 0.99


def test_a_part_is_cut_out_of_the_file(tmp_path):
    """A part of a ramp, resized, is the ramp of that part."""
    from PIL import Image

    from adt_tf.data.folders import FolderReader

    ramp = np.tile(np.arange(200, dtype=np.uint8), (100, 1))
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    reader = FolderReader(str(tmp_path), ["ramp.png"], (8, 10, 1))
    part = reader.read(0, (0.25, 0.5, 0.5, 0.25))
    assert part.shape == (8, 10, 1)
    # 50 columns from 100 on, 5 for each pixel.
    expected = 100 + 5 * np.arange(10) + 2
    np.testing.assert_allclose(part[3, 1:-1, 0], expected[1:-1], atol=1)


def test_size_decides(names, monkeypatch):
    from adt_tf.data import sources

    assert not data.load(**names["folder"]).is_streamed
    monkeypatch.setattr(sources, "_LARGEST_IN_MEMORY", 24 * 10 * 9 * 3 - 1)
    assert data.load(**names["folder"]).is_streamed
    assert not data.load(**names["folder"], num_examples=23).is_streamed


def test_floats_in_arrays(names, tmp_path):
    folder = names["folder"]["name"]
    name = disk_data.write_arrays(tmp_path / "f", folder, dtype=np.float64)
    memory, disk = both({"name": name})
    assert disk.images.dtype == np.float32
    np.testing.assert_array_equal(disk.images[:], memory.images)
    pixels = data.load(folder, stream=False).images
    np.testing.assert_array_equal(
        disk.images[:], (pixels / 255).astype(np.float32)
    )


def test_fingerprints(names, tmp_path):
    """One for the files, in memory or not; another for other files."""
    memory, disk = both(names["folder"])
    first = provenance.describe(memory)
    assert provenance.describe(disk) == first
    # The digest of an evaluation is that of the pixels.
    pixels = [data.as_examples(d)[0] for d in (memory, disk)]
    assert isinstance(pixels[1], data.DiskImages)
    assert checks.digest(pixels[0]) == checks.digest(pixels[1])
    folder = disk_data.write_folder(tmp_path / "pets")
    again = data.load(folder, stream=True)
    assert provenance.describe(again) == first
    path = tmp_path / "pets" / "train" / "dog" / "00003.jpg"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    other = provenance.describe(data.load(folder, stream=True))
    assert other["sha256"] != first["sha256"]
    smaller = data.load(names["folder"]["name"], image_size=(8, 8), stream=True)
    assert provenance.describe(smaller)["sha256"] != first["sha256"]


def test_evaluation_and_lint(names):
    shape = (*disk_data.SIZE, 3)
    classifier = adt_tf.networks.get(
        "small_cnn", input_shape=shape, num_classes=2, seed=0
    )
    reports, findings = [], []
    for examples in both(names["folder"], split="test"):
        reports.append(
            adt_tf.evaluate(
                classifier,
                examples,
                [attacks.fgsm(0.05)],
                batch_size=10,
                verbose=False,
            )
        )
        lint = adt_tf.lint(
            classifier,
            examples,
            epsilon=0.05,
            checks=["logits", "input_range", "finite_gradients"],
            verbose=False,
        )
        findings.append(lint.to_dict())
    assert reports[0].to_dict()["outcomes"] == reports[1].to_dict()["outcomes"]
    assert reports[0].digest == reports[1].digest
    assert findings[0] == findings[1]


def train(name, workdir, *more):
    flags = ("--dataset=" + name, "--method=standard")
    return in_process.run(
        "train",
        *flags,
        *("--epochs=1", "--batch_size=8", "--validation_examples=4"),
        *(f"--workdir={workdir}", *more),
    )


def test_commands(names, tmp_path):
    """A run is the same wherever the images lie, and goes on either way."""
    name = names["folder"]["name"]
    weights = []
    for stream in ("--stream", "--nostream"):
        done = train(name, tmp_path / stream, stream)
        assert done.returncode == 0, done.stderr
        content = (tmp_path / stream / "metrics.csv").read_text()
        weights.append(content)
    assert weights[0] == weights[1]
    done = train(name, tmp_path / "--stream", "--nostream")
    assert done.returncode == 0 and "is finished" in done.stdout
    for stream in ("--stream", "--nostream"):
        done = in_process.run(
            "evaluate",
            f"--workdir={tmp_path}/--stream",
            *("--attacks=fgsm", stream),
            f"--output={tmp_path}/{stream}.json",
        )
        assert done.returncode == 0, done.stderr
    results = [
        json.loads((tmp_path / f"{stream}.json").read_text())
        for stream in ("--stream", "--nostream")
    ]
    assert results[0]["outcomes"] == results[1]["outcomes"]


def test_a_damaged_file_in_mid_training(tmp_path):
    """Its header is whole, so it is found when its step comes."""
    name = disk_data.write_folder(tmp_path / "pets", 4)
    path = tmp_path / "pets" / "train" / "cat" / "00001.jpg"
    path.write_bytes(path.read_bytes()[:-150])
    done = train(name, tmp_path / "run", "--stream")
    assert done.returncode == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ") and "00001.jpg cannot be read" in last
    assert "Remove or replace it." in last and "Traceback" not in last


def test_mirrored(names):
    """Replicas get their parts of the batches that one device would read."""
    from adt_tf.runs import strategies

    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    memory, disk = both(names["records"])
    arguments = {"batch_size": 4, "seed": 0, "augment": True}
    split = strategies.split(strategy, data.train_pipeline(disk, **arguments))
    equal_batches(split, data.train_pipeline(memory, **arguments), 4)


def test_the_lines_of_the_document(tmp_path, monkeypatch):
    text = (in_process.ROOT / "docs" / "data.md").read_text()
    arrays, source = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(arrays, {})
    mine = data.load("./mine", stream=True)
    assert len(mine) == 40 and mine.num_classes == 5
    assert len(data.load("./mine", split="test")) == 10
    names = {}
    exec(source, names)
    assert provenance.describe(names["train"])["examples"] == 100
    x, y = names["x"], names["y"]
    np.testing.assert_array_equal(x[:, 0, 0, 0], y)

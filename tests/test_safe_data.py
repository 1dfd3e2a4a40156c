"""A data set names Python code, and no spelling of its name gets it run."""

import json
import re
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

from adt_tf import data
from tests.support import in_process
from tests.support.bad_files import TINY, resolved
from tests.support.models import make_convolutional

IMAGE = "tensorflow_datasets.core.features.image_feature.Image"
REFUSED = "names Python code that is not part of TensorFlow.*'evil_code.Image'"
# A folder that exists is one of images, which holds no code.
NO_NAME = "must be .* or the name of a data set|must have a subfolder of images"


def store(folder, name, config=None, version="1.0.0"):
    """A data set that TFDS itself has written."""
    import tensorflow_datasets as tfds

    images = np.random.default_rng(0).integers(0, 256, [20, 8, 8, 1], np.uint8)
    examples = tf.data.Dataset.from_tensor_slices(
        {"image": images, "label": np.arange(20) % 3}
    )
    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version=version,
        config=config,
        data_dir=folder,
        features=tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(8, 8, 1)),
                "label": tfds.features.ClassLabel(num_classes=3),
            }
        ),
        split_datasets={
            "train": examples.take(20),
            "test": examples.take(6),
        },
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A data_dir whose features.json name a class of evil_code.py."""
    folder = tmp_path_factory.mktemp("hostile")
    store(folder, "evil")
    store(folder, "plain", config="config")
    # A default configuration, which TFDS looks up by itself.
    store(folder, "hidden", config="config")
    # Of data sets that TFDS has code for.
    store(folder, "cifar10", version="3.0.2")
    store(folder, "mnist", config="config", version="3.0.1")
    for path in folder.rglob("features.json"):
        text = path.read_text()
        assert IMAGE in text
        path.write_text(text.replace(IMAGE, "evil_code.Image"))
    # The features stand in dataset_info.json, and features.json has no harm.
    store(folder, "informed")
    (path,) = (folder / "informed").rglob("dataset_info.json")
    features = json.loads((path.parent / "features.json").read_text())
    info = {**json.loads(path.read_text()), "features": features}
    path.write_text(json.dumps(info).replace(IMAGE, "evil_code.Image"))
    return folder


@pytest.fixture
def marker(hostile, tmp_path, monkeypatch):
    """A file that comes into being if evil_code is imported."""
    path = tmp_path / "marker"
    source = f"import pathlib\npathlib.Path({str(path)!r}).touch()\n"
    (tmp_path / "evil_code.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    sys.modules.pop("evil_code", None)
    assert not path.exists(), "the code was run"


def refused(message, name, hostile, **arguments):
    with pytest.raises(ValueError, match=message) as caught:
        data.load(name, data_dir=str(hostile), **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("download", [False, True])
@pytest.mark.parametrize(
    "name", ["evil", "plain/config", "mnist/config", "cifar10", "informed"]
)
def test_what_is_prepared_runs_no_code(name, download, hostile, marker):
    refused(REFUSED, name, hostile, download=download)


@pytest.mark.parametrize(
    "name",
    [
        "evil:1.0.0",
        "evil:1.*.*",
        "evil:*.*.*",
        "plain/config:1.0.0",
        "plain/config:1.*.*",
        "cifar10:3.0.2",
        "mnist/config:3.0.1",
        "evil/version=1.0.0",
        "evil/data_dir=elsewhere",
        "huggingface:evil",
        "kaggle:evil/config",
        "../hostile/evil",
        "evil/..",
        "evil/1.0.0/x",
        "./evil",
        "evil/",
        "/evil",
        "{folder}/evil",
        "{folder}/evil/1.0.0",
        "file://{folder}/evil",
        "gs://bucket/evil",
        "https://example.com/evil",
        "evil\n",
        "evil*",
        "",
    ],
)
def test_no_spelling_of_a_name_runs_code(name, hostile, marker):
    refused(NO_NAME, name.format(folder=hostile), hostile, download=True)


@pytest.mark.parametrize("name", ["Evil", "hidden", "mnist/other", "nothing"])
def test_only_data_sets_that_tfds_has_code_for_are_downloaded(
    name, hostile, marker
):
    """TFDS would look for the files of all of these by rules of its own."""
    refused("cannot be downloaded", name, hostile, download=True)


def test_old_files_are_checked_before_a_download(hostile, marker, tmp_path):
    """Those of another version, which the new one will lie beside."""
    folder = tmp_path / "data"
    old = folder / "cifar10" / "2.0.0"
    shutil.copytree(hostile / "cifar10" / "3.0.2", old)
    (old / "dataset_info.json").unlink()
    refused(REFUSED, "cifar10", folder, download=True)


def test_another_file_system_is_checked_too(hostile, marker):
    """TensorFlow's own, in memory; gs:// is read by the same functions."""
    source = hostile / "evil" / "1.0.0"
    folder = "ram://hostile/evil/1.0.0"
    tf.io.gfile.makedirs(folder)
    for path in source.iterdir():
        tf.io.gfile.copy(str(path), f"{folder}/{path.name}", overwrite=True)
    refused(REFUSED, "evil", "ram://hostile")


@pytest.fixture
def workdir(hostile, tmp_path):
    """Makes a finished run whose flags.txt has more flags."""

    def make(*flags):
        folder = tmp_path / "run"
        folder.mkdir()
        text = resolved(*TINY, f"--data_dir={hostile}", *flags)
        (folder / "flags.txt").write_text(text)
        make_convolutional().save(folder / "classifier.keras")
        return folder

    return make


@pytest.mark.parametrize("script", ["evaluate", "lint", "export"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("evil", REFUSED),
        ("evil:1.0.0", NO_NAME),
        ("plain/config:1.*.*", NO_NAME),
        ("hidden", "There is no data set 'hidden'"),
    ],
)
def test_no_flags_txt_runs_code(script, name, message, workdir, marker):
    folder = workdir(f"--dataset={name}", "--download")
    assert "--download" in (folder / "flags.txt").read_text().splitlines()
    done = in_process.run(script, f"--workdir={folder}")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert re.search(message, line), line


def test_no_flags_txt_downloads(workdir, tmp_path):
    """The data set is TFDS' own and absent, so it would be fetched."""
    folder = workdir("--dataset=svhn_cropped", "--download")
    done = in_process.run("evaluate", f"--workdir={folder}")
    assert "error: There is no data set 'svhn_cropped'" in done.stderr


def test_no_flagfile_downloads(tmp_path):
    path = tmp_path / "mine.flags"
    path.write_text("--download\n--dataset=svhn_cropped\n")
    done = in_process.run(
        "train",
        f"--flagfile={path}",
        f"--data_dir={tmp_path}",
        f"--workdir={tmp_path}/run",
    )
    assert "error: There is no data set 'svhn_cropped'" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.flags"]


def test_no_flags_txt_reads_from_another_machine(workdir):
    folder = workdir("--dataset=evil", "--data_dir=gs://bucket/data")
    done = in_process.run("evaluate", f"--workdir={folder}")
    (line,) = done.stderr.splitlines()
    assert "--data_dir=gs://bucket/data" in line and "command line" in line

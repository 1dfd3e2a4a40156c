"""Streamed runs as real processes: killed, on several devices, in memory."""

import os
import time

import keras
import pytest

from tests import test_distribution
from tests.support import disk_data, processes, runs

FLAGS = [
    "--method=at_pgd",
    "--num_steps=1",
    "--stream",
    "--augment",
    "--batch_size=8",
    "--epochs=3",
    "--validation_examples=8",
    "--epsilon=0.05",
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The flags that name one data set, as a folder and as array_record."""
    root = tmp_path_factory.mktemp("sources")
    folder = disk_data.write_folder(root / "pets", 28)
    disk_data.write_records(root / "tfds", folder)
    return {
        "folder": [f"--dataset={folder}", "--crop=resized"],
        "records": ["--dataset=pets", f"--data_dir={root}/tfds"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "records"])
def test_killed_in_mid_epoch(form, sources, tmp_path):
    """SIGKILL at steps 3 and 10 of 18; 6 are an epoch."""
    flags = [*FLAGS, *sources[form], "--checkpoint_steps=1"]
    (tmp_path / "alone").mkdir()
    (tmp_path / "killed").mkdir()
    runs.finish(tmp_path / "alone" / "run", *flags)
    path = tmp_path / "killed" / "run"
    for step in (3, 10):
        process = runs.start(path, *flags)
        runs.kill_when(process, lambda step=step: runs.last_step(path) >= step)
        at = runs.last_step(path)
        print(f"\n{form}: killed, the last saved is {at}")
        assert at % 6, "the kill was at an epoch's end"
    runs.finish(path, *flags)
    expected = runs.end_of(tmp_path / "alone" / "run")
    assert runs.differences(runs.end_of(path), expected) == []


@pytest.mark.slow
def test_going_on_with_other_files_is_refused(sources, tmp_path):
    folder = disk_data.write_folder(tmp_path / "pets", 28)
    flags = [*FLAGS, f"--dataset={folder}"]
    path = tmp_path / "run"
    process = runs.start(path, *flags, "--checkpoint_steps=1")
    runs.kill_when(process, lambda: runs.last_step(path) >= 2)
    file = tmp_path / "pets" / "train" / "dog" / "00003.jpg"
    os.replace(file.with_name("00004.jpg"), file)
    told = runs.finish(path, *flags, code=1)
    assert "was started on other" in told


@pytest.mark.slow
def test_two_devices_and_two_workers(sources, tmp_path):
    """The weights of one device, which has all images in memory."""
    flags = [
        *(flag for flag in FLAGS if flag != "--epochs=3"),
        *sources["records"],
        "--epochs=1",
        "--learning_rate=0.01",
    ]
    memory = [flag for flag in flags if flag != "--stream"]
    one, two = tmp_path / "none.npz", tmp_path / "mirrored.npz"
    test_distribution.finish(
        test_distribution.start(one, memory),
        test_distribution.start(
            two, [*flags, "--distribute=mirrored"], LOGICAL_DEVICES="2"
        ),
    )
    workers = tmp_path / "workers.npz"
    test_distribution.finish(*test_distribution.start_workers(workers, flags))
    for path in (two, workers):
        assert test_distribution.largest_difference(one, path) < 2e-6


def anonymous_megabytes(pid):
    with open(f"/proc/{pid}/status") as status:
        lines = [line.split() for line in status]
    return next(int(w[1]) / 1024 for w in lines if w[0] == "RssAnon:")


def peak_of(process):
    """The largest anonymous memory of a process up to its end."""
    peak = 0.0
    while process.is_alive():
        try:
            peak = max(peak, anonymous_megabytes(process.pid))
        except (OSError, StopIteration):
            break
        time.sleep(0.01)
    process.join()
    return peak


@pytest.fixture(scope="module")
def large_folders(tmp_path_factory):
    """2,000 and 20,000 JPEG files of 224x224, in train/ and in test/."""
    root = tmp_path_factory.mktemp("large")
    disk_data.write_jpegs(root / "some", 100, size=(224, 224))
    for count in (2_000, 20_000):
        for split in ("train", "test"):
            for name in ("cat", "dog"):
                folder = root / str(count) / split / name
                folder.mkdir(parents=True)
                for number in range(count // 2):
                    # Links, so that the disk holds each image once.
                    file = root / "some" / name / f"{number % 100:05d}.jpg"
                    os.link(file, folder / f"{number:05d}.jpg")
    model = keras.Sequential(
        [
            keras.Input((224, 224, 3)),
            keras.layers.Conv2D(8, 8, strides=8, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(2),
        ]
    )
    model.save(root / "tiny.keras")
    return root


@pytest.mark.slow
def test_memory_does_not_grow_with_the_data(large_folders, tmp_path):
    peaks = {"train": [], "evaluate": []}
    for count in (2_000, 20_000):
        workdir = tmp_path / str(count)
        train = [
            f"--dataset={large_folders}/{count}/",
            *("--stream", "--method=standard", "--batch_size=32"),
            *(f"--network={large_folders}/tiny.keras", "--epochs=1"),
            *("--augment", "--crop=resized", "--learning_rate=0.01"),
        ]
        evaluate = ["--stream", "--attacks=fgsm"]
        for command, flags in (("train", train), ("evaluate", evaluate)):
            process = processes.start(
                command,
                *flags,
                f"--workdir={workdir}",
                stderr=tmp_path / "told.txt",
            )
            peaks[command].append(peak_of(process))
            assert process.exitcode == 0, (tmp_path / "told.txt").read_text()
    for command, (few, many) in peaks.items():
        print(
            f"\n{command}: {few:.0f} MB of anonymous memory at most with "
            f"2,000 images, {many:.0f} MB with 20,000: {many / few - 1:+.1%}"
        )
        assert many < 1.1 * few

"""Folders of images: read, resized, divided, and refused in one line."""

import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from adt_tf import data
from adt_tf.data import decoding
from tests.support import in_process


def write_images(folder, count, size=(6, 5), mode="RGB", seed=0):
    """Writes PNG files; returns their arrays in the order of their names."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    arrays = []
    for k in range(count):
        shape = (*size, 3) if mode == "RGB" else size
        array = generator.integers(0, 256, shape, dtype=np.uint8)
        Image.fromarray(array, mode).save(folder / f"{k:03d}.png")
        arrays.append(array)
    return np.stack(arrays)


@pytest.fixture
def pets(tmp_path):
    """train/ and test/ with two classes each."""
    for split, count in (("train", 4), ("test", 2)):
        for seed, name in enumerate(("cat", "dog")):
            write_images(tmp_path / "pets" / split / name, count, seed=seed)
    return tmp_path / "pets"


def test_splits_of_their_own(pets):
    train, test = (data.load(str(pets), split=s) for s in ("train", "test"))
    assert train.name == "pets" and train.num_classes == 2
    assert train.class_names == test.class_names == ("cat", "dog")
    assert train.images.shape == (8, 6, 5, 3) and test.images.shape[0] == 4
    np.testing.assert_array_equal(train.labels, [0, 0, 0, 0, 1, 1, 1, 1])
    expected = np.random.default_rng(1).integers(0, 256, (6, 5, 3), np.uint8)
    np.testing.assert_array_equal(train.images[4], expected)
    assert data.test_share(str(pets)) is None


def test_one_folder_is_divided(tmp_path):
    arrays = [
        write_images(tmp_path / "all" / name, 10, seed=seed)
        for seed, name in enumerate(("a", "b", "c"))
    ]
    name = f"{tmp_path}/all/"
    train, test = (data.load(name, split=s) for s in ("train", "test"))
    assert np.bincount(test.labels).tolist() == [2, 2, 2]
    assert len(train) == 24 and data.test_share(name) == (6, 30)
    together = np.concatenate([train.images, test.images])
    assert {a.tobytes() for a in together} == {
        a.tobytes() for a in np.concatenate(arrays)
    }


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_few_examples_are_of_all_classes(split, tmp_path):
    for seed, name in enumerate(("a", "b", "c")):
        write_images(tmp_path / "all" / name, 30, seed=seed)
    few = data.load(
        f"{tmp_path}/all",
        split=split,
        num_examples=6,
        validation_examples=12,
    )
    assert np.bincount(few.labels).tolist() == [2, 2, 2]


def test_images_of_any_size_and_kind(tmp_path):
    folder = tmp_path / "mixed"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
    ramp = np.tile(np.arange(0, 256, 2, dtype=np.uint8), (64, 1))
    Image.fromarray(ramp).save(folder / "a" / "grey.png")
    Image.fromarray(ramp.astype(np.uint16) * 257).save(folder / "a" / "16.png")
    Image.fromarray(ramp).convert("P").save(folder / "a" / "palette.gif")
    colour = np.stack([ramp, ramp[:, ::-1], np.zeros_like(ramp)], -1)
    Image.fromarray(colour).save(folder / "b" / "photo.JPG", quality=95)
    opaque = np.concatenate([colour, np.full((64, 128, 1), 255, "u1")], -1)
    Image.fromarray(opaque).save(folder / "b" / "deep.png")
    (folder / "b" / "notes.txt").write_text("no image")
    (folder / "b" / ".hidden.png").write_text("no image")
    with pytest.raises(ValueError, match="such as .*: set the size to resize"):
        Image.fromarray(ramp[:9, :9]).save(folder / "a" / "small.png")
        data.load(f"{folder}/")
    train = data.load(f"{folder}/", image_size=(8, 16))
    test = data.load(f"{folder}/", split="test", image_size=(8, 16))
    assert train.images.shape == (5, 8, 16, 3) and len(test) == 1
    every = np.concatenate([train.images, test.images])
    # A ramp shrunk by averaging is a ramp.
    expected = ramp[0].reshape(16, 8).mean(axis=1)
    ramps = [im for im in every if np.ptp(im[..., 0].astype(int)) > 200]
    assert len(ramps) == 5
    for image in ramps:
        np.testing.assert_allclose(image[0, 1:-1, 0], expected[1:-1], atol=6)


@pytest.mark.parametrize("mode, dtype", [("I;16", "<u2"), ("I;16B", ">u2")])
def test_16_bits_in_either_order(mode, dtype, tmp_path):
    ramp = np.arange(0, 256, 4, dtype=np.uint8).reshape(8, 8)
    deep = (ramp.astype(np.uint16) * 257).astype(dtype)
    path = tmp_path / "deep.tif"
    Image.frombytes(mode, (8, 8), deep.tobytes()).save(path)
    assert decoding.header(path, name="deep") == ((8, 8), True)
    for channels in (1, 3):
        image = decoding.decode(path, (8, 8, channels), name="deep")
        np.testing.assert_array_equal(image[..., 0], ramp)


def test_float_pixels_are_refused(tmp_path):
    for name in ("a", "b"):
        write_images(tmp_path / "floats" / name, 5, mode="L")
    pixels = np.linspace(0, 1, 30, dtype=np.float32).reshape(6, 5)
    Image.fromarray(pixels).save(tmp_path / "floats" / "b" / "x.tif")
    with pytest.raises(ValueError, match="x.tif cannot .* pixels are floats"):
        data.load(f"{tmp_path}/floats")


def test_grey_images_have_one_channel(tmp_path):
    for name in ("a", "b"):
        write_images(tmp_path / "grey" / name, 5, mode="L")
    assert data.load(f"{tmp_path}/grey").input_shape == (6, 5, 1)


def spoil(folder, case):
    """Makes a folder bad in one way; returns what the message must say."""
    if case == "empty":
        return "must have a subfolder of images for each of two or more"
    write_images(folder / "a", 3)
    if case == "one class":
        return "Received: a"
    (folder / "b").mkdir()
    if case == "a class without images":
        return "b contains no images"
    (folder / "b" / "x.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    if case == "an unreadable JPEG":
        return "x.jpg cannot be read as an image"
    (folder / "b" / "x.jpg").unlink()
    write_images(folder / "b", 3)
    if case == "train without test":
        (folder / "a").rename(folder / "train")
        return "a subfolder train or test, but not both"
    if case == "a class that training lacks":
        for split in ("train", "test"):
            for name in ("a", "b"):
                write_images(folder / split / name, 2)
        write_images(folder / "test" / "c", 2)
        return "test has classes that .*train lacks: c"
    content = (folder / "b" / "000.png").read_bytes()
    (folder / "b" / "000.png").write_bytes(content[:60])
    return "000.png cannot be read as an image"


@pytest.mark.parametrize(
    "case",
    [
        "empty",
        "one class",
        "a class without images",
        "an unreadable JPEG",
        "train without test",
        "a class that training lacks",
        "a PNG that is cut off",
    ],
)
def test_bad_folders(case, tmp_path):
    folder = tmp_path / "bad"
    folder.mkdir()
    message = spoil(folder, case)
    with pytest.raises(ValueError, match=message) as raised:
        for split in ("train", "test"):
            data.load(f"{folder}/", split=split)
    assert "\n" not in str(raised.value)


def test_names_are_not_folders(tmp_path, monkeypatch, pets):
    monkeypatch.chdir(pets.parent)
    with pytest.raises(ValueError, match="no data set 'pets'"):
        data.load("pets", data_dir=str(tmp_path))
    assert data.load("./pets").name == "pets"
    with pytest.raises(ValueError, match="Only the images of a folder"):
        data.load("digits", image_size=(4, 4))


def test_from_the_command_line(pets, tmp_path):
    workdir = tmp_path / "run"
    flags = (
        f"--dataset={pets}/",
        *("--image_size=8,8", "--method=at_pgd", "--num_steps=1"),
        *("--epochs=1", "--batch_size=4", f"--workdir={workdir}"),
    )
    done = in_process.run("train", *flags)
    assert done.returncode == 0, done.stderr
    assert (
        "Training on 8 images of 2 classes (8x8x3), 2 steps of 4 per epoch.\n"
    ) in done.stdout
    # The entropy of a point mass is 0, and is not shown.
    assert "entropy" not in done.stdout
    assert "entropy" in (workdir / "metrics.csv").read_text()
    done = in_process.run("evaluate", f"--workdir={workdir}", "--attacks=fgsm")
    assert done.returncode == 0, done.stderr
    result = json.loads((workdir / "evaluation.json").read_text())
    assert result["num_examples"] == 4 and result["image_size"] == [8, 8]
    done = in_process.run(
        "train", *flags[:-1], f"--workdir={tmp_path}/w", "--image_size=8"
    )
    assert done.returncode and "a height and a width" in done.stderr


def test_the_data_of_a_run_are_told(pets, tmp_path):
    arrays = {
        "image": np.zeros((9, 8, 8, 3), "uint8"),
        "label": np.arange(9) % 2,
    }
    np.savez(tmp_path / "extra.npz", **arrays)
    told = "Training on {} images of 2 classes (8x8x3{}), {} steps of {}"
    for name, flags, words in (
        (
            "remainder",
            ["--batch_size=3", "--validation_examples=1"],
            told.format(7, "", 2, 3) + " per epoch; left out of each epoch, at "
            "random: 1; held out for validation: 1.\n",
        ),
        (
            "extra",
            [
                "--batch_size=4",
                "--stream",
                f"--extra_data={tmp_path}/extra.npz",
                "--extra_fraction=0.25",
            ],
            told.format(8, ", read from the disk", 2, 4) + " per epoch: 3 of "
            "these images and 1 of 9 extra ones in a step.\n",
        ),
    ):
        done = in_process.run(
            "train",
            f"--dataset={pets}/",
            *("--image_size=8,8", "--epochs=1", f"--workdir={tmp_path}/{name}"),
            *("--method=adt_exp", "--num_steps=1"),
            *flags,
        )
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
        assert "- entropy: " in done.stdout


def test_the_export_of_resized_images_resizes(pets, tmp_path):
    workdir = tmp_path / "run"
    in_process.run(
        "train",
        f"--dataset={pets}/",
        *("--image_size=8,8", "--method=standard", "--epochs=1"),
        *("--batch_size=4", f"--workdir={workdir}"),
    )
    for number, flags, words in (
        (1, [], "any size, resized to 8 rows and 8 columns"),
        (2, ["--noresize"], "of 8 rows and 8 columns; other sizes are refused"),
    ):
        done = in_process.run("export", f"--workdir={workdir}", *flags)
        assert done.returncode == 0, done.stderr
        assert ("serving_bytes resizes files" in done.stdout) == (number == 1)
        version = workdir / "saved_model" / str(number)
        known = json.loads((version / "robustness.json").read_text())
        assert known["input"]["resize"] == (number == 1)
        assert words in (version / "README.md").read_text()
        serve = tf.saved_model.load(str(version)).signatures["serving_bytes"]
        file = (pets / "test" / "cat" / "000.png").read_bytes()
        if number == 1:
            assert serve(images=tf.constant([file]))["label"].shape == (1,)
        else:
            with pytest.raises(
                tf.errors.InvalidArgumentError, match="--resize"
            ):
                serve(images=tf.constant([file]))


def test_the_page_of_a_folder(pets, tmp_path):
    from adt_tf import report

    workdir = tmp_path / "run"
    in_process.run(
        "train",
        f"--dataset={pets}/",
        *("--image_size=8,8", "--method=standard", "--epochs=1"),
        *("--batch_size=4", f"--workdir={workdir}"),
    )
    in_process.run("evaluate", f"--workdir={workdir}", "--attacks=fgsm")
    page = report.write([workdir], tmp_path, analyses=False, num_images=2)
    text = page.read_text()
    assert "pets" in text and "cat" in text and "dog" in text

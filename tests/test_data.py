"""Tests of adt_tf.data: sources, checks, and batches that can be resumed."""

import itertools
import pathlib
import socket
import time
import zlib

import numpy as np
import pytest
import tensorflow as tf

from adt_tf import data

SHARED = pathlib.Path(__file__).parents[2] / "shared" / "tfds"
needs_cifar10 = pytest.mark.skipif(
    not (SHARED / "cifar10").is_dir(), reason="CIFAR-10 is not prepared"
)


def numbered(count, shape=(4, 4, 1), num_classes=5):
    """Images that all differ, and labels; the index is in two pixels."""
    images = np.zeros([count, *shape], np.uint8)
    images[:, 0, 0, 0] = np.arange(count) % 256
    images[:, 0, 1, 0] = np.arange(count) // 256
    return data.ImageData(
        images, np.arange(count) % num_classes, num_classes, "numbered"
    )


def indices_of(images):
    pixels = np.rint(np.asarray(images) * 255).astype(int)
    return pixels[:, 0, 0, 0] + 256 * pixels[:, 0, 1, 0]


def take(dataset, count):
    return [(x.numpy(), y.numpy()) for x, y in dataset.take(count)]


def same(left, right):
    return len(left) == len(right) and all(
        np.array_equal(a, b)
        for pair, other in zip(left, right, strict=True)
        for a, b in zip(pair, other, strict=True)
    )


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


# Checks.


def test_image_data_keeps_checked_arrays():
    images = np.random.default_rng(0).random([3, 5, 6, 2])
    mine = data.ImageData(images, [[0], [2], [1]], 3, "mine")
    assert (len(mine), mine.input_shape) == (3, (5, 6, 2))
    assert mine.images.dtype == np.float32 and mine.labels.dtype == np.int32
    np.testing.assert_array_equal(mine.labels, [0, 2, 1])
    assert "3 images of shape (5, 6, 2)" in repr(mine)


def test_uint8_images_are_not_copied():
    images = np.zeros([2, 4, 4, 3], np.uint8)
    assert data.validate_images(images) is images


def test_rounding_is_clipped():
    images = np.array([-9e-7, 0.5, 1 + 9e-7]).reshape(1, 1, 3, 1)
    np.testing.assert_array_equal(
        data.validate_images(images).ravel(), np.float32([0, 0.5, 1])
    )


def test_labels_without_bounds():
    labels = data.validate_labels(np.array([7, 0], np.uint8))
    np.testing.assert_array_equal(labels, np.int32([7, 0]), strict=True)


# Digits, and the choice of splits.


def test_digits_splits():
    train, test = data.load("digits"), data.load("digits", split="test")
    assert (len(train), len(test)) == (1297, 500)
    assert train.input_shape == (8, 8, 1) and train.num_classes == 10
    assert train.images.dtype == np.float32
    assert train.images.min() == 0 and train.images.max() == 1
    share = np.bincount(test.labels) / (
        np.bincount(train.labels) + np.bincount(test.labels)
    )
    np.testing.assert_allclose(share, 500 / 1797, atol=1 / 170)


def test_digits_splits_are_fixed():
    sums = {
        split: zlib.crc32(
            np.rint(part.images * 16).astype(np.uint8).tobytes()
            + part.labels.astype(np.uint8).tobytes()
        )
        for split in ("train", "test")
        for part in [data.load("digits", split=split)]
    }
    assert sums == {"train": 3436729574, "test": 4098015869}


def test_digits_splits_are_the_whole():
    from sklearn import datasets

    whole = datasets.load_digits().images.reshape(1797, 64) / 16
    parts = [
        data.load("digits", split=split, validation_examples=100)
        for split in ("train", "validation", "test")
    ]
    assert [len(part) for part in parts] == [1197, 100, 500]
    joined = np.concatenate([part.images for part in parts]).reshape(1797, 64)
    np.testing.assert_array_equal(
        np.unique(joined, axis=0), np.unique(whole.astype("f4"), axis=0)
    )
    assert len(np.unique(joined, axis=0)) == 1797
    assert np.ptp(np.bincount(parts[1].labels)) <= 1


def test_validation_depends_on_the_seed_alone():
    def validation(**options):
        return data.load(
            "digits", split="validation", validation_examples=50, **options
        ).images

    np.testing.assert_array_equal(validation(), validation(seed=0))
    assert not np.array_equal(validation(), validation(seed=1))
    np.testing.assert_array_equal(validation(num_examples=7), validation()[:7])


def test_num_examples_takes_the_first():
    whole, part = data.load("digits"), data.load("digits", num_examples=9)
    np.testing.assert_array_equal(part.images, whole.images[:9])
    np.testing.assert_array_equal(part.labels, whole.labels[:9])


# .npz files.


def test_npz_as_keras_has_them(tmp_path):
    path = str(tmp_path / "mine.npz")
    x = np.random.default_rng(0).integers(0, 256, [30, 6, 5], np.uint8)
    y = np.arange(30)[:, np.newaxis] % 4
    # The last class occurs in the test split only, and still counts.
    np.savez(path, x_train=x, y_train=y % 3, x_test=x[:8], y_test=y[:8])
    train, test = data.load(path), data.load(path, split="test")
    assert (train.name, train.num_classes, test.num_classes) == ("mine", 4, 4)
    assert train.images.dtype == np.uint8 and train.input_shape == (6, 5, 1)
    np.testing.assert_array_equal(train.images[..., 0], x)
    np.testing.assert_array_equal(test.labels, y[:8, 0])


def test_npz_with_a_test_set_alone(tmp_path):
    path = str(tmp_path / "test.npz")
    x = np.zeros((7, 4, 4, 1), "uint8")
    np.savez(path, x_test=x, y_test=np.arange(7))
    assert len(data.load(path, split="test")) == 7
    assert data.test_share(path) is None
    with pytest.raises(ValueError, match="but has x_test, y_test"):
        data.load(path, split="train")


def test_npz_with_one_set_is_split(tmp_path):
    path = str(tmp_path / "one.npz")
    x = np.arange(50.0).reshape(50, 1, 1, 1) / 49
    np.savez(path, images=x, labels=np.repeat([0, 1], [40, 10]))
    train, test = data.load(path), data.load(path, split="test")
    assert np.bincount(train.labels).tolist() == [32, 8]
    assert np.bincount(test.labels).tolist() == [8, 2]
    joined = np.concatenate([train.images, test.images]).ravel()
    np.testing.assert_array_equal(np.sort(joined), x.ravel().astype("f4"))
    assert data.test_share(path) == (len(test), 50)


# TensorFlow Datasets.


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A data_dir with tiny/1.0.0, tiny/1.10.0 and other/some_config/2.0.0."""
    import tensorflow_datasets as tfds

    folder = tmp_path_factory.mktemp("tfds")
    images = np.random.default_rng(0).integers(0, 256, [20, 4, 4, 3], np.uint8)

    def store(name, version, features, count, config=None):
        labels = np.arange(count) % 3
        examples = tf.data.Dataset.from_tensor_slices(
            {"image": images[:count], "label": labels, "id": labels}
        )
        tfds.dataset_builders.store_as_tfds_dataset(
            name=name,
            version=version,
            data_dir=folder,
            config=config,
            features=tfds.features.FeaturesDict(features),
            split_datasets={
                "train": examples.take(count),
                "test": examples.take(6),
            },
            disable_shuffling=True,
        )

    good = {
        "image": tfds.features.Image(shape=(4, 4, 3)),
        "label": tfds.features.ClassLabel(names=list("abcdefg")),
        "id": np.int64,
    }
    store("tiny", "1.9.0", good, 3)
    store("tiny", "1.10.0", good, 20)
    unnamed = good | {"label": tfds.features.ClassLabel(num_classes=7)}
    store("other", "2.0.0", unnamed, 9, config="some_config")
    store(
        "unsized",
        "1.0.0",
        good | {"image": tfds.features.Image(shape=(None, None, 3))},
        9,
    )
    (folder / "tiny" / "1.11.0.incomplete").mkdir()
    return str(folder), images


def test_tfds_reads_the_newest_version(prepared, no_network):
    folder, images = prepared
    train = data.load("tiny", data_dir=folder)
    test = data.load("tiny", split="test", data_dir=folder, num_examples=5)
    assert (len(train), len(test), train.num_classes) == (20, 5, 7)
    assert train.images.dtype == np.uint8
    np.testing.assert_array_equal(train.images, images)
    np.testing.assert_array_equal(train.labels, np.arange(20) % 3)
    assert train.class_names == tuple("abcdefg")
    np.testing.assert_array_equal(test.images, images[:5])


def test_tfds_validation_and_limits(prepared, no_network):
    folder, images = prepared
    options = {"data_dir": folder, "validation_examples": 6}
    validation = data.load("tiny", split="validation", **options)
    train = data.load("tiny", num_examples=10, **options)
    assert (len(train), len(validation)) == (10, 6)
    assert np.bincount(validation.labels).tolist() == [2, 2, 2]
    both = np.concatenate([train.images, validation.images]).reshape(16, -1)
    assert len(np.unique(both, axis=0)) == 16
    with pytest.raises(ValueError, match="at most 20"):
        data.load("tiny", data_dir=folder, num_examples=21)


def test_tfds_config_and_default_folder(prepared, no_network, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", prepared[0])
    other = data.load("other/some_config")
    assert len(other) == 9 and other.class_names == tuple("0123456")
    # Prepared data is read, not fetched again.
    assert len(data.load("other/some_config", download=True)) == 9


def test_tfds_of_another_form(prepared, no_network):
    with pytest.raises(ValueError, match="images of one size.*unsized"):
        data.load("unsized", data_dir=prepared[0])


@pytest.mark.parametrize("name", ["svhn_cropped", "no_such_data", "other"])
def test_tfds_absent_says_what_to_do_at_once(prepared, no_network, name):
    start = time.monotonic()
    with pytest.raises(ValueError, match=f"no data set '{name}'") as caught:
        data.load(name, data_dir=prepared[0])
    assert time.monotonic() - start < 2
    message = str(caught.value)
    assert f"{prepared[0]}/{name}/<version>" in message
    assert "prepared there: other/some_config, tiny, unsized." in message
    assert "--data_dir" in message and "--download" in message


def test_tfds_absent_folder(tmp_path, no_network, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="nowhere.*prepared there: none"):
        data.load("cifar10")


@needs_cifar10
def test_cifar10(no_network):
    test = data.load(
        "cifar10", split="test", data_dir=str(SHARED), num_examples=1000
    )
    train = data.load("cifar10", data_dir=str(SHARED), num_examples=8)
    assert test.images.shape == (1000, 32, 32, 3) and test.num_classes == 10
    assert test.images.dtype == np.uint8
    assert train.labels.tolist() == [7, 8, 4, 4, 6, 5, 2, 9]
    np.testing.assert_allclose(
        test.images.mean((0, 1, 2)) / 255, [0.4914, 0.4822, 0.4465], atol=0.02
    )


# Batches.


def test_batches_are_a_function_of_seed_and_step():
    def run(**options):
        return data.train_pipeline(
            numbered(50), batch_size=8, augment=True, **options
        )

    whole = take(run(seed=3), 20)
    assert same(whole, take(run(seed=3), 20))
    # In the first epoch, at its end, in a later one.
    for start in (1, 5, 6, 13):
        resumed = take(run(seed=3, start_step=start), 20 - start)
        assert same(whole[start:], resumed)
    assert not same(whole[:1], take(run(seed=4), 1))


def test_types_and_static_shapes():
    images, labels = data.train_pipeline(
        numbered(50), batch_size=8, seed=0, augment=True
    ).element_spec
    assert images == tf.TensorSpec([8, 4, 4, 1], tf.float32)
    assert labels == tf.TensorSpec([8], tf.int32)


def test_epochs_are_permutations():
    source = numbered(48)
    batches = take(data.train_pipeline(source, batch_size=8, seed=0), 12)
    seen = np.concatenate([indices_of(x) for x, _ in batches])
    np.testing.assert_array_equal(
        np.concatenate([y for _, y in batches]), source.labels[seen]
    )
    first, second = seen[:48], seen[48:]
    np.testing.assert_array_equal(np.sort(first), np.arange(48))
    np.testing.assert_array_equal(np.sort(second), np.arange(48))
    assert not np.array_equal(first, second)


def test_incomplete_batch_is_dropped():
    source = numbered(50)
    assert data.steps_per_epoch(source, 8) == 6
    batches = take(data.train_pipeline(source, batch_size=8, seed=0), 60)
    dropped = set()
    for epoch in range(10):
        seen = [indices_of(x) for x, _ in batches[6 * epoch : 6 * epoch + 6]]
        assert len(np.unique(seen)) == 48
        dropped |= set(range(50)) - set(np.ravel(seen))
    assert len(dropped) > 2


def test_batch_mates_of_one_epoch_scatter_in_the_next():
    count, size = 50_000, 64
    steps = count // size
    batches = data.train_pipeline(numbered(count), batch_size=size, seed=0)
    epochs = np.full([3, count], -1)
    for step, (x, _) in enumerate(batches.take(3 * steps)):
        epochs[step // steps, indices_of(x)] = step % steps
    chance = steps * size * (size - 1) / 2 * (size - 1) / (count - 1)
    for one, other in itertools.combinations(epochs, 2):
        both = (one >= 0) & (other >= 0)
        _, together = np.unique(
            one[both] * steps + other[both], return_counts=True
        )
        again = np.sum(together * (together - 1) / 2)
        # Four standard deviations of a Poisson count.
        assert abs(again - chance) < 4 * np.sqrt(chance) + 0.01 * chance


def padded_view(image, row, column, flip):
    """One crop of the zero-padded image, by slices."""
    height, width, _ = image.shape
    padded = np.pad(image, [(4, 4), (4, 4), (0, 0)])
    view = padded[row : row + height, column : column + width]
    return view[:, ::-1] if flip else view


def test_crop_and_flip_against_numpy():
    generator = np.random.default_rng(0)
    images = generator.integers(1, 256, [40, 7, 9, 3], np.uint8)
    rows, columns = generator.integers(0, 9, [2, 40]).astype(np.int32)
    flips = generator.random(40) < 0.5
    expected = [
        padded_view(*case)
        for case in zip(images, rows, columns, flips, strict=True)
    ]
    actual = data.crop_and_flip(images, rows, columns, flips)
    np.testing.assert_array_equal(actual, expected)


def test_augmentation_draws_every_view_alike():
    # One image, so that each augmented one is one of its 9 x 9 x 2 views.
    image = np.random.default_rng(0).random([1, 6, 6, 1], np.float32)
    source = data.ImageData(np.repeat(image, 900, 0), [0, 1] * 450, 2, "same")
    views = [
        padded_view(image[0], row, column, flip).tobytes()
        for row in range(9)
        for column in range(9)
        for flip in (False, True)
    ]
    assert len(set(views)) == 162
    counts = dict.fromkeys(views, 0)
    pipeline = data.train_pipeline(source, batch_size=900, seed=0, augment=True)
    for x, _ in pipeline.take(18):
        for augmented in x.numpy():
            counts[augmented.tobytes()] += 1
    # Chi-square with 161 degrees of freedom: mean 161, deviation 18.
    observed = np.array(list(counts.values()))
    assert len(observed) == 162
    assert np.sum((observed - 100) ** 2 / 100) < 161 + 4 * 18


def test_without_augmentation_the_images_are_the_source():
    source = data.load("digits", num_examples=64)
    ((x, y),) = take(data.train_pipeline(source, batch_size=64, seed=0), 1)
    order = [
        np.flatnonzero((source.images == image).all((1, 2, 3))) for image in x
    ]
    np.testing.assert_array_equal(np.sort(np.ravel(order)), np.arange(64))
    np.testing.assert_array_equal(y, source.labels[np.ravel(order)])


def test_eval_pipeline():
    source = numbered(50)
    batches = list(data.eval_pipeline(source, 16))
    assert [len(y) for _, y in batches] == [16, 16, 16, 2]
    x = np.concatenate([x for x, _ in batches])
    y = np.concatenate([y for _, y in batches])
    assert x.dtype == np.float32 and y.dtype == np.int32
    np.testing.assert_array_equal(indices_of(x), np.arange(50))
    np.testing.assert_allclose(x, source.images / 255, atol=1e-7)
    np.testing.assert_array_equal(y, source.labels)


def test_scale_images_has_the_same_bits_everywhere():
    pixels = np.arange(256, dtype=np.uint8)
    eager = data.scale_images(pixels).numpy()
    assert eager[0] == 0 and eager[-1] == 1
    np.testing.assert_array_equal(np.rint(eager * 255), pixels)
    for jit_compile in (False, True):
        graph = tf.function(data.scale_images, jit_compile=jit_compile)
        np.testing.assert_array_equal(graph(tf.constant(pixels)), eager)
    np.testing.assert_array_equal(data.scale_images(eager), eager)


def test_default_augment():
    augmented = ["cifar10", "cifar100"]
    assert all(data.default_augment(name) for name in augmented)
    others = ["svhn_cropped", "digits", "cifar10.npz"]
    assert not any(data.default_augment(name) for name in others)

"""Cutout, CutMix and RandAugment, functions of (seed, step)."""

import numpy as np
import pytest
import tensorflow as tf

from adt_tf import data, seeds
from adt_tf.data import augmentations

SEED = seeds.make(4)


@pytest.fixture(scope="module")
def pictures():
    """Forty images of 12 x 10 pixels, each of one colour of its own."""
    shades = (1 + np.arange(40, dtype="float32")) / 50
    x = np.broadcast_to(shades[:, None, None, None], (40, 12, 10, 3))
    return tf.constant(x), np.arange(40) % 5


def test_cutout_blanks_one_square(pictures):
    x, _ = pictures
    got = data.cut_out(x, SEED, 4).numpy()
    rows, columns = augmentations._centers(x, SEED)
    expected = x.numpy().copy()
    for i, (row, column) in enumerate(zip(rows, columns, strict=True)):
        top, left = int(row) - 2, int(column) - 2
        expected[i, max(0, top) : top + 4, max(0, left) : left + 4] = 0
    np.testing.assert_array_equal(got, expected)
    areas = (got[..., 0] == 0).sum((1, 2))
    assert areas.max() == 16 and areas.min() >= 4


def test_cutmix_labels_are_the_areas(pictures):
    """Each image has one shade, so that pixels say whose they are."""
    x, y = pictures
    labels = np.eye(5, dtype="float32")[y]
    images, shares = data.cut_mix(x, tf.constant(labels), SEED)
    images = images.numpy()
    mixed = 0
    for i in range(40):
        owners = np.rint(images[i, :, :, 0] * 50 - 1).astype(int)
        expected = np.zeros(5)
        np.add.at(expected, y[owners].ravel(), 1 / 120)
        np.testing.assert_allclose(shares[i], expected, atol=1e-6)
        places = np.argwhere(owners != i)
        if len(places):
            mixed += 1
            assert len(np.unique(owners)) == 2
            box = np.ptp(places, axis=0) + 1
            assert len(places) == box.prod()
    assert mixed > 30


def test_a_share_of_0_mixes_nothing(pictures):
    x, y = pictures
    labels = tf.one_hot(y, 5)
    images, shares = data.cut_mix(x, labels, SEED, 0.0)
    np.testing.assert_array_equal(images, x)
    np.testing.assert_array_equal(shares, labels)


@pytest.mark.parametrize("channels", [1, 3])
def test_rand_augment_is_a_function_of_the_seed(channels):
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(6, 8, 8, channels)).astype("float32")
    operations = augmentations._operations(0.4, channels)
    assert len(operations) == (11 if channels == 3 else 10)
    first, again, other = (
        data.rand_augment(tf.constant(x), seeds.make(s), operations).numpy()
        for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    assert first.min() >= 0 and first.max() <= 1
    assert np.abs(first - x).max() > 0.01


def read(batches, number):
    return [tf.nest.map_structure(np.array, b) for b in batches.take(number)]


ALL = data.Augmentation(randaugment=0.3, cutout=3, cutmix=0.5)


def test_a_resumed_pipeline_reads_the_same_batches():
    digits = data.load("digits", num_examples=60)

    def batches(start):
        plain = data.train_pipeline(
            digits, batch_size=8, seed=3, augment=True, start_step=start
        )
        return data.augmented(
            plain, ALL, num_classes=10, seed=3, start_step=start
        )

    whole, rest = read(batches(0), 5), read(batches(2), 3)
    for one, other in zip(whole[2:], rest, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
    x, y = whole[0]
    assert x.shape == (8, 8, 8, 1) and x.min() >= 0 and x.max() <= 1
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-6)
    assert (y.max(1) < 1).any()
    assert np.abs(x - whole[1][0]).max() > 0.1


def test_no_augmentation_is_the_pipeline_itself():
    digits = data.load("digits", num_examples=60)
    plain = data.train_pipeline(digits, batch_size=8, seed=3)
    none = data.Augmentation()
    assert data.augmented(plain, none, num_classes=10, seed=3) is plain


def save_extra(path, like, number=30):
    """An .npz file of the digits in reverse order, in bytes."""
    images = np.rint(like.images[::-1][:number] * 255).astype("uint8")
    np.savez(path, image=images, label=like.labels[::-1][:number])
    return path


def test_extra_data_have_their_share_of_each_batch(tmp_path):
    digits = data.load("digits", num_examples=60)
    extra = data.load_extra(save_extra(tmp_path / "e.npz", digits), digits)
    assert extra.name == "e" and len(extra) == 30

    def batches(start=0):
        return data.mixed_pipeline(
            digits,
            extra,
            fraction=0.7,
            batch_size=10,
            seed=2,
            start_step=start,
        )

    whole = read(batches(), 12)
    for i in (0, 7):
        x, y = whole[i]
        assert x.shape == (10, 8, 8, 1) and y.shape == (10,)
        for part, size, source, seed in (
            (slice(0, 3), 3, digits, 2),
            (slice(3, 10), 7, extra, 2 ^ data.extra._STREAM),
        ):
            indices = data.batch_indices(
                source, batch_size=size, seed=seed, step=i
            )
            np.testing.assert_array_equal(y[part], source.labels[indices])
    # Ten batches of seven, but four epochs of it: each is there as often.
    rest = read(batches(7), 5)
    for one, other in zip(whole[7:], rest, strict=True):
        np.testing.assert_array_equal(one[0], other[0])


@pytest.mark.parametrize("fraction", [0.0, 1.0, 0.01, 0.99, float("nan")])
def test_a_share_that_leaves_no_room_is_refused(fraction):
    with pytest.raises(ValueError, match="`fraction` must"):
        data.split_batch(10, fraction)


@pytest.mark.parametrize(
    "arguments", [{"cutout": -1}, {"cutmix": 1.5}, {"randaugment": -0.1}]
)
def test_nonsense_is_refused(arguments):
    with pytest.raises(ValueError, match=f"`{next(iter(arguments))}` must be"):
        data.Augmentation(**arguments)

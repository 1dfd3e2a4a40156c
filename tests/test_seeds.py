import numpy as np
import pytest
import tensorflow as tf

from adt_tf import seeds


def draw(x, seed):
    return seeds.per_example(
        lambda s: tf.random.stateless_normal([1000], s), x, seed
    ).numpy()


def test_make_keeps_numbers_apart():
    numbers = [0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**40 + 7]
    made = {tuple(seeds.make(n).numpy()) for n in numbers}
    assert len(made) == len(numbers)


def test_make_refuses_other_shapes():
    with pytest.raises(ValueError, match="shape"):
        seeds.make(tf.constant([1, 2, 3]))


def test_noise_of_an_image_does_not_depend_on_its_batch(images):
    x = images[0]
    seed = seeds.make(3)
    whole = draw(x, seed)
    np.testing.assert_array_equal(draw(x[5:6], seed)[0], whole[5])
    np.testing.assert_array_equal(draw(x[::-1], seed)[::-1], whole)


def test_noise_differs_between_images_and_seeds_and_is_normal(images):
    x = images[0]
    first = draw(x, seeds.make(3))
    other = draw(x, seeds.fold(seeds.make(3), 1))
    correlation = np.corrcoef(np.concatenate([first, other]))
    off_diagonal = correlation[~np.eye(len(correlation), dtype=bool)]
    # 1,000 draws: a correlation has a standard error of 0.03.
    assert np.abs(off_diagonal).max() < 0.15
    assert abs(first.mean()) < 0.05 and abs(first.std() - 1) < 0.05

"""Properties that no input may break: the ball and the box, above all.

Shapes, batch sizes, epsilons, bounds, pixels and logits are drawn by
hypothesis; one case is one draw and one attack. `test_100_000_perturbations`,
a slow test, prints how many images it has counted.
"""

import functools
import io
import json
import zipfile

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from adt_tf import attacks, data, evaluation
from adt_tf.distributions import Dirac, TanhGaussian
from adt_tf.threat_models import NORMS, Linf, from_norm
from tests.support.tables import ATTACKS, make_attack

EPSILONS = (1e-8, 1e-6, 1e-3, 8 / 255, 0.3, 1.0)
# Odd sizes, one pixel, one row, many channels.
SHAPES = ((5, 7, 2), (1, 1, 1), (1, 9, 3), (8, 8, 5))
# Logits that do not differ, that overflow a softmax, that overflow float32,
# and that are no numbers at all.
SCALES = (0.0, 1e-30, 1.0, 1e4, 1e30, 3e38, np.inf, np.nan)
NUM_CLASSES = 3


@functools.cache
def classifier_of(shape):
    """A small network; `scaled` changes its logits without a new trace."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input(shape),
            layers.Conv2D(4, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(NUM_CLASSES),
        ]
    )
    generator = np.random.default_rng(0)
    model.original = [
        generator.normal(size=w.shape) for w in model.get_weights()
    ]
    model.set_weights(model.original)
    return model


def scaled(shape, scale):
    model = classifier_of(shape)
    *body, kernel, bias = model.original
    with np.errstate(invalid="ignore", over="ignore"):
        model.set_weights([*body, scale * kernel, scale * bias])
    return model


@functools.cache
def attack_of(name, shape, epsilon=0.1, norm="linf"):
    """Traced once for a shape and a ball."""
    ball = from_norm(norm, epsilon)
    return make_attack(name, ball, shape, source=classifier_of(shape))


def assert_in_ball_and_box(x, x_adv, epsilon, bounds, norm="linf"):
    """Against float64, with room for one rounding of float32 and no more.

    In l2 each pixel may be rounded once, which is a vector of its own.
    """
    x, x_adv = np.asarray(x, np.float64), np.asarray(x_adv, np.float64)
    assert x_adv.shape == x.shape and np.isfinite(x_adv).all()
    if x.size == 0:
        return
    largest = max(map(abs, bounds))
    room = 1.01 * np.spacing(np.float32(largest)) + 1e-7 * epsilon
    changes = (x_adv - x).reshape(len(x), -1)
    if norm == "l2":
        lengths = np.linalg.norm(changes, axis=-1)
        room = room * np.sqrt(changes.shape[-1]) + 1e-6 * epsilon
        assert lengths.max() <= epsilon + room
    else:
        assert np.abs(changes).max() <= epsilon + room
    assert x_adv.min() >= np.float32(bounds[0])
    assert x_adv.max() <= np.float32(bounds[1])


def drawn(generator, batch, shape, bounds=(0.0, 1.0)):
    """Images of which a third lie on the bounds of the box, and labels."""
    low, high = bounds
    x = generator.uniform(low, high, (batch, *shape)).astype("float32")
    x = np.clip(x, *np.float32(bounds))
    pick = generator.integers(0, 6, x.shape)
    x = np.where(pick == 0, np.float32(low), x)
    x = np.where(pick == 1, np.float32(high), x)
    return x, generator.integers(0, NUM_CLASSES, batch).astype("int32")


def attack_once(name, shape, epsilon, batch, scale, seed, norm="linf"):
    """Returns how many images were attacked and looked at."""
    attack = attack_of(name, shape, epsilon, norm)
    classifier = scaled(shape, scale)
    x, y = drawn(np.random.default_rng(abs(seed)), batch, shape)
    x_adv = attack(classifier, x, y, seed=seed).x_adv.numpy()
    assert_in_ball_and_box(x, x_adv, epsilon, (0.0, 1.0), norm)
    if batch:
        attack.threat_model.check(x, x_adv)
    return batch


def examples(count):
    return hypothesis.settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        database=None,
    )


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_on_odd_input(name):
    """One shape, epsilon and norm each; the slow tests have more of them."""
    place = list(ATTACKS).index(name)
    shape, epsilon = SHAPES[place % 4], EPSILONS[place % 6]
    norm = list(NORMS)[place // 2 % 2]

    @examples(20)
    @hypothesis.given(
        batch=st.sampled_from((0, 1, 7)),
        scale=st.sampled_from(SCALES),
        seed=st.integers(-(2**63), 2**63 - 1),
    )
    def check(batch, scale, seed):
        attack_once(name, shape, epsilon, batch, scale, seed, norm)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
def test_100_000_perturbations(norm):
    """Every attack with two epsilons, and every scale of the logits.

    A trace takes longer than a batch, so batches are large, and shapes and
    epsilons take turns.
    """
    counted = batches = 0
    for place, name in enumerate(ATTACKS):
        for turn, epsilon in enumerate(EPSILONS[place % 3 :: 3]):
            shape = SHAPES[(place + turn) % len(SHAPES)]
            for number, scale in enumerate(SCALES):
                batch = (1, 13, 461)[min(number, 2)]
                seed = 1000 * place + 100 * turn + number
                case = (name, shape, epsilon, batch, scale, seed, norm)
                try:
                    counted += attack_once(*case)
                except Exception as error:
                    raise AssertionError(f"{case}: {error}") from error
                batches += 1
    print(
        f"\n{counted} {norm} perturbations of {len(ATTACKS)} attacks in "
        f"{batches} batches, none outside its ball or box"
    )
    assert counted >= 100_000


FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
BOUNDS = st.sampled_from(((0, 1), (-1, 1), (0, 255), (-2.5, -0.5), (0, 1e-3)))


@examples(150)
@hypothesis.given(
    bounds=BOUNDS,
    share=st.sampled_from((0.0, 1e-8, 1e-3, 0.1, 1.0)),
    delta=st.lists(st.floats(width=32, allow_nan=False), min_size=1),
    seed=st.integers(0, 2**31 - 1),
)
def test_threat_model(bounds, share, delta, seed):
    epsilon = share * (bounds[1] - bounds[0])
    threat_model = Linf(epsilon, bounds)
    delta = np.float32(delta)
    shape = (len(delta), 1, 1, 1)
    x, _ = drawn(np.random.default_rng(seed), len(delta), (1, 1, 1), bounds)
    delta = delta.reshape(shape)
    with np.errstate(over="ignore"):
        moved = x + delta
    for x_adv in (
        threat_model.perturb(x, delta),
        threat_model.project(x, moved),
        threat_model.random_start(tf.constant(x), tf.constant([seed, 1])),
    ):
        assert_in_ball_and_box(x, x_adv, epsilon, bounds)
        threat_model.check(x, x_adv)
    # What is in the ball and the box already stays where it is.
    inside = threat_model.project(x, moved)
    np.testing.assert_array_equal(threat_model.project(x, inside), inside)


@examples(100)
@hypothesis.given(
    epsilon=FLOATS, bounds=st.tuples(FLOATS, FLOATS), value=FLOATS
)
def test_a_threat_model_is_sound_or_refused(epsilon, bounds, value):
    try:
        threat_model = Linf(epsilon, bounds)
    except ValueError as error:
        assert "must be" in str(error)
        return
    assert np.isfinite([threat_model.epsilon, *threat_model.bounds]).all()
    x = np.full([2, 1, 1, 1], threat_model.bounds[0], "float32")
    x_adv = x.copy()
    x_adv[1] = value
    inside = abs(np.float64(value) - x[1]) <= threat_model.epsilon
    if not np.isfinite(value):
        with pytest.raises(ValueError, match="left its threat model"):
            threat_model.check(x, x_adv)
    elif inside and bounds[0] <= value <= bounds[1]:
        threat_model.check(x, x_adv)


@functools.cache
def gaussian_of(epsilon):
    return TanhGaussian(Linf(epsilon))


@examples(40)
@hypothesis.given(
    epsilon=st.sampled_from(EPSILONS[::2]),
    mu=st.floats(width=32, allow_nan=False, allow_infinity=False),
    rho=st.floats(width=32, min_value=-1e4, max_value=1e4),
    seed=st.integers(0, 2**31 - 1),
)
def test_distributions(epsilon, mu, rho, seed):
    batch, shape, pair = 7, (3, 2, 2), tf.constant([seed, 7])
    x, _ = drawn(np.random.default_rng(seed), batch, shape)
    x = tf.constant(x)
    gaussian = gaussian_of(epsilon)
    params = {"mu": tf.fill(x.shape, mu), "rho": tf.fill(x.shape, rho)}
    noise = gaussian.noise(x, 2, pair)
    x_adv, entropy = gaussian.sample(x, params, noise)
    assert x_adv.shape == (batch, 2, *shape) and entropy.shape == (batch, 2)
    for k in range(2):
        assert_in_ball_and_box(x, x_adv[:, k], epsilon, (0.0, 1.0))
    assert not np.isnan(entropy).any()
    point = Dirac(Linf(epsilon))
    x_adv, _ = point.sample(x, point.init(x, pair), point.noise(x, 2, pair))
    assert_in_ball_and_box(x, x_adv[:, 1], epsilon, (0.0, 1.0))


@pytest.mark.parametrize("name", ["pgd", "exp", "square", "fab_t", "l2l"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.1, -0.1, 255])
def test_bad_pixels_are_refused(name, value):
    shape = (5, 7, 2)
    x, y = drawn(np.random.default_rng(0), 7, shape)
    x[3, 2, 1, 0] = value
    with pytest.raises(ValueError, match="Images must be finite and lie in"):
        attack_of(name, shape)(scaled(shape, 1.0), x, y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_of_any_width(dtype):
    shape = (5, 7, 2)
    x, y = drawn(np.random.default_rng(0), 7, shape)
    x = tf.cast(x, dtype)
    attack = attack_of("pgd", shape)
    for labels in (y, np.int64(y), np.uint8(y), y[:, np.newaxis]):
        x_adv = attack(scaled(shape, 1.0), x, labels).x_adv
        assert_in_ball_and_box(tf.cast(x, tf.float32), x_adv, 0.1, (0.0, 1.0))


@pytest.mark.parametrize("dtype", ["int32", "bool", "complex64"])
def test_other_types_are_refused(dtype):
    x = np.zeros([2, 5, 7, 2], dtype)
    with pytest.raises(ValueError, match="must be floats"):
        attack_of("pgd", (5, 7, 2))(scaled((5, 7, 2), 1.0), x, [0, 1])


def test_no_image_gives_none_back():
    shape = (5, 7, 2)
    x, y = drawn(np.random.default_rng(0), 0, shape)
    for name in ATTACKS:
        batch = attack_of(name, shape)(scaled(shape, 1.0), x, y)
        assert batch.x_adv.shape == (0, *shape) and batch.entropy.shape == (0,)
    with pytest.raises(ValueError, match="no distribution of no image"):
        attack_of("exp", shape).distribution(scaled(shape, 1.0), x, y)


def test_nan_in_the_classifier_is_told():
    shape = (5, 7, 2)
    x, y = drawn(np.random.default_rng(0), 4, shape)
    with pytest.raises(ValueError, match="NaN or infinite logits"):
        evaluation.evaluate(
            scaled(shape, np.nan),
            (x, y),
            [attacks.pgd(0.1, num_steps=1)],
            verbose=False,
        )


# The data readers: checked arrays, or a ValueError of one line.

DTYPES = st.sampled_from(
    ["u1", "i4", "i8", "u8", "f2", "f4", "f8", "?", "c8", "S3", "U2", "M8[s]"]
)
DIMENSIONS = st.lists(st.integers(0, 5), max_size=5).map(tuple)


@st.composite
def arrays(draw):
    dtype, shape = draw(DTYPES), draw(DIMENSIONS)
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    values = generator.uniform(size=shape)
    if draw(st.booleans()):
        values = generator.integers(-2, 300, shape)
    array = np.asarray(values).astype(dtype)
    extreme = draw(st.sampled_from([None, 0, -1, 2**40, np.nan, np.inf]))
    if extreme is not None and array.size and array.dtype.kind == "f":
        array.flat[0] = np.float32(extreme)
    if isinstance(extreme, int) and array.size and array.dtype == np.int64:
        array.flat[0] = extreme
    return array


def sound_or_refused(read):
    try:
        mine = read()
    except ValueError as error:
        assert "\n" not in str(error) and len(str(error)) > 20
        return False
    images, labels = mine.images, mine.labels
    assert images.ndim == 4 and len(images) == len(labels) > 0
    assert images.dtype in (np.uint8, np.float32) and labels.dtype == np.int32
    assert np.isfinite(images).all()
    assert images.min() >= 0 and images.max() <= (
        255 if images.dtype == np.uint8 else 1
    )
    assert labels.min() >= 0 and labels.max() < mine.num_classes
    return True


@examples(300)
@hypothesis.given(images=arrays(), labels=arrays(), classes=st.integers(-1, 9))
def test_image_data(images, labels, classes):
    sound_or_refused(lambda: data.ImageData(images, labels, classes, "drawn"))
    pair = np.zeros([3, 2, 2, 1], "u1"), np.array([0, 1, 2])
    sound_or_refused(lambda: data.ImageData(images, pair[1], 3, "drawn"))
    sound_or_refused(lambda: data.ImageData(pair[0], labels, 3, "drawn"))


@examples(150)
@hypothesis.given(
    images=arrays(), labels=arrays(), split=st.sampled_from(["train", "test"])
)
def test_npz_files(tmp_path_factory, images, labels, split):
    path = str(tmp_path_factory.getbasetemp() / "drawn.npz")
    good = np.zeros([10, 2, 2, 1], "u1"), np.arange(10) % 3
    for x, y in ((images, labels), (images, good[1]), (good[0], labels)):
        np.savez(path, images=x, labels=y)
        sound_or_refused(lambda: data.load(path, split=split))
    np.savez(
        path, x_train=images, y_train=labels, x_test=good[0], y_test=labels
    )
    sound_or_refused(lambda: data.load(path, split=split))


@examples(150)
@hypothesis.given(
    place=st.floats(0, 1),
    junk=st.binary(min_size=1, max_size=40),
    cut=st.booleans(),
)
def test_damaged_npz_files(tmp_path_factory, place, junk, cut):
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    file = io.BytesIO()
    x = np.random.default_rng(0).integers(0, 256, [10, 2, 2, 1], "u1")
    np.savez_compressed(file, images=x, labels=np.arange(10) % 3)
    content = bytearray(file.getvalue())
    start = int(place * (len(content) - 1))
    content[start : start + len(junk)] = junk
    path.write_bytes(content[:start] if cut else content)
    sound_or_refused(lambda: data.load(str(path)))


def test_arrays_that_claim_too_much_are_refused(tmp_path):
    """A header of a few bytes that asks for petabytes."""
    path = tmp_path / "claims.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header,
        {"descr": "<f4", "fortran_order": False, "shape": (10**9, 999, 999)},
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("images.npy", "labels.npy"):
            archive.writestr(name, header.getvalue())
    with pytest.raises(ValueError, match="Cannot read .*claims.npz"):
        data.load(str(path))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@examples(200)
@hypothesis.given(
    key=st.sampled_from(["outcomes", "attacks", "seed", "independent", None]),
    value=JSON,
)
def test_evaluations_that_somebody_edited(key, value):
    whole = evaluation.Report(
        {"natural": np.int8([1, 0, 1]), "FGSM": np.int8([1, -1, 0])},
        {"FGSM": "<FGSM>"},
        seed=0,
    ).to_dict()
    edited = value if key is None else {**whole, key: value}
    edited = json.loads(json.dumps(edited))
    try:
        report = evaluation.Report.from_dict(edited)
    except ValueError as error:
        assert "Run adt-evaluate again" in str(error)
    else:
        assert 0 <= report.robust_accuracy <= 1 and str(report)

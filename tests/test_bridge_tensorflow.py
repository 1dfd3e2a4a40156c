"""TensorFlow 1 checkpoints of Madry et al.'s CIFAR-10 challenge."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf.networks.madry_resnet import madry_wide_resnet
from adt_tf.reproduction import released
from adt_tf.serving.bridge.reading import tensorflow_checkpoints
from tests.support import madry_checkpoint

IMAGES = np.random.default_rng(1).random([3, 32, 32, 3]).astype("float32")
# A dark image, whose deviation is below the bound of the standardisation.
IMAGES[2] = 0.2 / 255
IMAGES[2, 0, 0] = 0.25 / 255
PREFIX = "checkpoint-70000"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A directory with a checkpoint, and what TensorFlow 1 computes with it."""
    folder = tmp_path_factory.mktemp("adv_trained")
    outputs = madry_checkpoint.write(
        folder / PREFIX, IMAGES, blocks=2, widen_factor=2
    )
    return folder, *outputs


@pytest.fixture
def copy(checkpoint, tmp_path):
    return shutil.copytree(checkpoint[0], tmp_path / "copy")


def logits_and_gradients(model, images):
    x = tf.constant(images)
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = model(x, training=False)
        labels = tf.zeros(len(images), tf.int32)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return logits.numpy(), tape.gradient(loss, x).numpy()


# Each load starts a process that imports TensorFlow.
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("", None),
        pytest.param(PREFIX, None, marks=slow),
        pytest.param(f"{PREFIX}.index", "madry-wrn-14-2", marks=slow),
    ],
)
def test_logits_and_gradients_are_those_of_tensorflow_1(
    checkpoint, name, architecture
):
    folder, expected_logits, expected_gradients = checkpoint
    model = adt_tf.load_classifier(folder / name, architecture)
    assert model.name == "madry-wrn-14-2"
    logits, gradients = logits_and_gradients(model, IMAGES)
    np.testing.assert_allclose(logits, expected_logits, atol=1e-4, rtol=1e-5)
    error = np.linalg.norm(gradients - expected_gradients)
    assert error <= 1e-3 * np.linalg.norm(expected_gradients)


def test_other_images_and_classes(tmp_path):
    images = IMAGES[:, :8, :8, :1]
    expected, _ = madry_checkpoint.write(
        tmp_path / "digits", images, num_classes=5
    )
    model = adt_tf.load_classifier(tmp_path / "digits", input_shape=(8, 8, 1))
    logits, _ = logits_and_gradients(model, images)
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_the_architecture_of_the_challenge():
    model = madry_wide_resnet(32, 10)
    kernels = [
        layer.kernel
        for layer in model.layers
        if isinstance(layer, keras.layers.Conv2D)
    ]
    assert len(kernels) == 31
    assert model.get_layer("features").output.shape == (None, 8, 8, 640)


def test_a_constant_image_has_finite_gradients():
    model = madry_wide_resnet(8, 1, input_shape=(8, 8, 3))
    images = np.full([1, 8, 8, 3], 0.5, np.float32)
    logits, gradients = logits_and_gradients(model, images)
    assert np.isfinite(logits).all() and np.isfinite(gradients).all()


def test_the_model_is_saved_without_code_of_its_own(tmp_path):
    model = madry_wide_resnet(8, 1, input_shape=(8, 8, 3))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    images = IMAGES[:, :8, :8]
    np.testing.assert_array_equal(model(images), loaded(images))


def cut(folder):
    path = next(folder.glob("*.data-*"))
    path.write_bytes(path.read_bytes()[:-4096])


def flip_bit(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def change_data(folder):
    """Changes the first kernel, which follows the eight bytes of a counter."""
    flip_bit(next(folder.glob("*.data-*")), 64)


def remove_data(folder):
    next(folder.glob("*.data-*")).unlink()


def change_index(folder):
    flip_bit(next(folder.glob("*.index")), 500)


def claim_a_huge_block(folder):
    """Replaces the footer's handles, which no checksum covers."""
    path = next(folder.glob("*.index"))
    content = path.read_bytes()
    handles = (b"\xff" * 6 + b"\x01") * 4
    path.write_bytes(content[:-48] + handles.ljust(40, b"\0") + content[-8:])


def forge(folder):
    """Makes an entry unreadable, with the right checksum of its block.

    The table is that of LevelDB: a block of entries, the byte of its
    compression, its checksum, other blocks, and a footer that begins with the
    offset of the second block.
    """
    path = next(folder.glob("*.index"))
    content = bytearray(path.read_bytes())
    content[content.index(b"global_step") + len(b"global_step")] = 7
    low, high = content[-48:-46]
    end = (low & 127) + 128 * high - 4
    crc = 2**32 - 1
    for byte in content[:end]:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 2**32 - 1
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
    content[end : end + 4] = masked.to_bytes(4, "little")
    path.write_bytes(content)


def cut_index(folder):
    path = next(folder.glob("*.index"))
    path.write_bytes(path.read_bytes()[:100])


def write_second(folder):
    shutil.copy(next(folder.glob("*.index")), folder / "other.index")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_data, "there is no checkpoint-70000.data"),
        (write_second, "must have one checkpoint"),
        (cut, "its arrays need .* bytes; its data have"),
        pytest.param(
            change_data,
            "Checksum does not match|Data loss|checksum",
            marks=slow,
        ),
        pytest.param(change_index, "table|corrupt|[Cc]hecksum", marks=slow),
        pytest.param(claim_a_huge_block, "larger than the memory", marks=slow),
        pytest.param(forge, "TensorFlow ended with SIGABRT", marks=slow),
        pytest.param(cut_index, "table|corrupt", marks=slow),
    ],
)
def test_damaged_files_give_one_line(copy, damage, message):
    damage(copy)
    with pytest.raises(ValueError, match=message) as raised:
        adt_tf.load_classifier(copy)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 700


@slow
def test_variables_of_other_shapes_and_names(tmp_path):
    madry_checkpoint.write(tmp_path / "small", IMAGES[:1])
    with pytest.raises(ValueError, match="of another shape: .*logit.weight"):
        adt_tf.load_classifier(tmp_path / "small", "madry-wrn-8-2")
    with pytest.raises(ValueError, match="missing: .*stage1_block2"):
        adt_tf.load_classifier(tmp_path / "small", "madry-wrn-14-1")
    with pytest.raises(ValueError, match="`normalization` must be None"):
        adt_tf.load_classifier(
            tmp_path / "small", normalization=([0.5] * 3, [0.5] * 3)
        )
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("w", [2])
        session.run(variable.initializer)
        tf.compat.v1.train.Saver().save(session, str(tmp_path / "other"))
    with pytest.raises(ValueError, match="it has no variable named DW"):
        adt_tf.load_classifier(tmp_path / "other")


@slow
def test_the_optimizer_s_variables_are_left_out(checkpoint):
    index = tensorflow_checkpoints.index_file(checkpoint[0])
    names = tensorflow_checkpoints.read(index)
    assert not any("Momentum" in n or "global_step" in n for n in names)
    assert names["input.init_conv.weight"].shape == (16, 3, 3, 3)
    assert names["logit.weight"].shape == (10, 128)


@pytest.mark.parametrize(
    "is_directory", [pytest.param(False, marks=slow), True]
)
def test_a_checkpoint_fills_the_row_of_at_pgd(
    checkpoint, tmp_path, is_directory
):
    folder = checkpoint[0]
    if is_directory:
        expected = tmp_path / "at_pgd_plus"
        shutil.copytree(folder, expected)
    else:
        expected = tmp_path / "at_pgd_plus.index"
        for path in folder.glob(f"{PREFIX}.*"):
            ending = path.name.removeprefix(PREFIX)
            shutil.copy(path, tmp_path / f"at_pgd_plus{ending}")
    assert released.find(tmp_path) == {"AT-PGD+": expected}
    model = adt_tf.load_classifier(expected)
    logits, _ = logits_and_gradients(model, IMAGES)
    np.testing.assert_allclose(logits, checkpoint[1], atol=1e-4, rtol=1e-5)
    assert len(released.fingerprint(expected)) == 64

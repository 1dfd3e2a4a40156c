"""Names, files and arguments that a hostile or unlucky user might give."""

import csv
import io

import keras
import numpy as np
import pytest

from adt_tf import attacks, data, evaluation
from adt_tf import report as reports
from adt_tf.evaluation import state
from adt_tf.report import evaluated_runs, markdown_report
from adt_tf.runs import evaluation_files, evaluation_job
from adt_tf.runs.config import Config
from tests.support.report_runs import NAMES, make_workdir, render_page

ODD = 'a,b\n"c" | <script>alert(1)</script> `d`'
IMAGES = np.random.default_rng(0).uniform(size=[24, 4, 4, 1]).astype("f4")
LABELS = np.arange(24, dtype=np.int32) % 3


@pytest.fixture(scope="module")
def classifier():
    model = keras.Sequential(
        [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]
    )
    kernel = np.random.default_rng(1).normal(size=[16, 3])
    model.layers[-1].set_weights([kernel, np.zeros(3)])
    return model


@pytest.fixture(scope="module")
def attack():
    return attacks.fgsm(0.1)


def test_an_odd_name_survives_every_file(classifier, tmp_path):
    """As JSON and CSV in full; in Markdown without effect."""
    named = attacks.fgsm(0.1)
    named.name = ODD
    test = data.ImageData(IMAGES, LABELS, 3, ODD)
    details = {"dataset": ODD, "epsilon": 0.1, "method": ODD, "command": ODD}
    path = tmp_path / "evaluation.json"
    evaluation_job.assess(
        classifier, test, [named], path, details=details, verbose=False
    )
    values = evaluation_files.read(path)
    assert values["method"] == ODD and list(values["attacks"]) == [ODD]
    text = path.with_suffix(".csv").read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["example", "natural", ODD, "A_rob"] and len(rows) == 25
    markdown = path.with_suffix(".md").read_text(encoding="utf-8")
    assert "<script>" not in markdown and "alert(1)" in markdown
    assert markdown.count("\n| ") == 5  # the table is whole
    table = evaluation_job.compare(path, path)
    assert "<script>" not in table


def test_an_odd_name_in_a_report(tmp_path):
    folder = make_workdir(tmp_path / "run", NAMES[0], method=ODD)
    runs = evaluated_runs.read_runs([folder])
    markdown = markdown_report.render(runs)
    assert "<script>" not in markdown and "alert(1)" in markdown
    page = render_page(runs)
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page


def test_one_attack_needs_no_list(classifier, attack):
    one, several = (
        evaluation.evaluate(classifier, (IMAGES, LABELS), given, verbose=False)
        for given in (attack, [attack])
    )
    assert one.to_dict()["outcomes"] == several.to_dict()["outcomes"]


@pytest.mark.parametrize(
    "model, message",
    [
        (None, "`classifier` must be a Keras model or a function"),
        ("model.keras", "`classifier` must be a Keras model or a function"),
        (
            lambda x, training=False: np.zeros([len(x), 3]),
            "must return a TensorFlow tensor.* Received: ndarray",
        ),
    ],
)
def test_what_is_no_classifier(model, message, attack):
    with pytest.raises(ValueError, match=message):
        evaluation.evaluate(model, (IMAGES, LABELS), attack, verbose=False)


def test_images_of_another_size(classifier, attack, tmp_path):
    other = np.zeros([3, 5, 4, 1], np.float32)
    with pytest.raises(ValueError, match=r"\(4, 4, 1\)\. Rec.*\(5, 4, 1\)"):
        evaluation.evaluate(classifier, (other, LABELS[:3]), attack)
    path = str(tmp_path / "two_sizes.npz")
    np.savez(
        path, x_train=IMAGES, y_train=LABELS, x_test=other, y_test=LABELS[:3]
    )
    for split in ("train", "test"):
        with pytest.raises(ValueError, match=r"two_sizes.*\(4, 4, 1\) and \(5"):
            data.load(path, split=split)


def test_masked_arrays_are_refused():
    masked = np.ma.masked_greater(IMAGES, 0.5)
    with pytest.raises(ValueError, match="Images must not be a masked"):
        data.as_arrays((masked, LABELS))
    with pytest.raises(ValueError, match="Labels must not be a masked"):
        data.as_arrays((IMAGES, np.ma.masked_equal(LABELS, 0)))


def forge(path, **changes):
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, **changes})


FORGED = {
    "another verdict": {"outcomes": np.full([2, 24], 7, np.int8)},
    "all robust": {
        "outcomes": np.ones([2, 24], np.int8),
        "parts_done": np.ones([2, 24], np.int16),
    },
    "negative parts": {"parts_done": np.full([2, 24], -1, np.int16)},
    "verdicts without parts": {"parts_done": np.zeros([2, 24], np.int16)},
    "NaN seconds": {"seconds": np.array([0.0, np.nan])},
    "NaN images": {"examples": np.full([24, 4, 4, 1], np.nan, np.float32)},
    "far images": {"examples": np.full([24, 4, 4, 1], 9, np.float32)},
}


def interrupt(classifier, dataset, attack, **options):
    """Evaluates up to the report, which cannot be written."""
    settings = evaluation.Settings(**options)
    with (
        pytest.raises(OSError, match="full"),
        evaluation.evaluated(classifier, dataset, attack, settings),
    ):
        raise OSError("the disk is full")


@pytest.mark.parametrize("name", FORGED)
def test_forged_states_are_not_believed(name, classifier, attack, tmp_path):
    arguments = (classifier, (IMAGES, LABELS), attack)
    options = {"keep_examples": True, "verbose": False}
    expected = evaluation.evaluate(*arguments, **options)

    interrupt(*arguments, directory=tmp_path, **options)
    (path,) = tmp_path.glob("unfinished-evaluation-*.npz")
    forge(path, **FORGED[name])
    again = evaluation.evaluate(*arguments, directory=tmp_path, **options)
    assert again.to_dict()["outcomes"] == expected.to_dict()["outcomes"]
    assert np.isfinite(list(again.seconds.values())).all()
    np.testing.assert_array_equal(again.examples, expected.examples)


def test_whole_states_are_believed(classifier, attack, tmp_path, monkeypatch):
    monkeypatch.setattr(state, "_SAVE_EVERY", 0.0)
    arguments = (classifier, (IMAGES, LABELS), attack)

    interrupt(*arguments, directory=tmp_path)

    def not_again(*_, **__):
        raise AssertionError("it was attacked once more")

    monkeypatch.setattr(type(attack), "check", lambda *_: None)
    monkeypatch.setattr("adt_tf.evaluation.loop.Pieces", not_again)
    evaluation.evaluate(*arguments, directory=tmp_path)


@pytest.mark.parametrize("name", ["index.html", "report.md", "images.png"])
def test_a_report_overwrites_no_file_of_the_user(name, tmp_path):
    folder = make_workdir(tmp_path / "run", NAMES[0])
    output = tmp_path / "output"
    output.mkdir()
    (output / name).write_text("<!doctype html>\nmine")
    with pytest.raises(ValueError, match=f"{name} exists and was not"):
        reports.write([folder], output)
    assert [path.name for path in output.iterdir()] == [name]
    assert (output / name).read_text().endswith("mine")


def test_a_report_overwrites_its_own_files(tmp_path):
    folder = make_workdir(tmp_path / "run", NAMES[0])
    runs = evaluated_runs.read_runs([folder])
    (tmp_path / "index.html").write_text(render_page(runs), encoding="utf-8")
    (tmp_path / "report.md").write_text(markdown_report.render(runs))
    for name in ("accuracy.png", "images.png"):
        (tmp_path / name).touch()
    assert reports._checked_output(tmp_path) == tmp_path


def test_a_report_in_the_place_of_a_file(tmp_path):
    folder = make_workdir(tmp_path / "run", NAMES[0])
    with pytest.raises(ValueError, match="is no directory"):
        reports.write([folder], folder / "metrics.csv")


@pytest.mark.parametrize("content", [b"--epochs=\xff\n", b"\xff\xfe-\0-\0"])
def test_a_flagfile_that_is_no_text(content, tmp_path):
    path = tmp_path / "mine.flags"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match="mine.flags is not a text file"
    ) as told:
        Config.from_flagfile(path)
    assert "\n" not in str(told.value)


def test_an_output_whose_name_is_too_long(tmp_path):
    with pytest.raises(OSError, match="too long"):
        evaluation_files.checked_output(tmp_path / ("x" * 300 + ".json"))

"""Tests the report's parts and its page on runs with known results."""

import dataclasses
import html.parser
import io
import json
import pathlib
import re
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from matplotlib import image as reader

from adt_tf import evaluation, methods, report
from adt_tf.analysis import plots
from adt_tf.data import ImageData
from adt_tf.report import (
    analysis_figures,
    attacked_images,
    curve_sections,
    evaluated_runs,
    inline_images,
    page,
    picture_files,
    svg_charts,
    wording,
)
from adt_tf.runs import provenance
from adt_tf.runs.workdir import Workdir
from tests.support.report_runs import (
    NAMES,
    decode,
    make_measured,
    make_workdir,
    render_page,
)


@pytest.fixture(scope="module")
def workdirs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return [make_workdir(root / f"run{i}", n) for i, n in enumerate(NAMES)]


@pytest.fixture(scope="module")
def runs(workdirs):
    return evaluated_runs.read_runs(workdirs)


@pytest.fixture(scope="module")
def html_page(runs):
    return render_page(runs)


def test_a_run_is_what_its_files_say(runs):
    alpha, beta = runs
    assert [alpha.name, beta.name] == list(NAMES)
    assert alpha.accuracy == pytest.approx(
        {"natural": 1.0, "FGSM": 0.8, "PGD-20": 0.7, "A_rob": 0.7}
    )
    assert alpha.flag("epochs") == "2" and alpha.flag("absent") is None
    assert alpha.metrics["loss"] == [1.5, 1.0]
    assert np.isnan(alpha.metrics["val_loss"][1])
    assert alpha.provenance[0]["data"]["examples"] == 6


def test_runs_that_share_a_method_are_told_apart(tmp_path):
    paths = [make_workdir(tmp_path / name, "alpha") for name in "ab"]
    assert [r.name for r in evaluated_runs.read_runs(paths)] == [
        "alpha (a)",
        "alpha (b)",
    ]


def test_a_run_without_a_method_is_named_after_its_folder(tmp_path):
    path = make_workdir(tmp_path / "mine", "alpha", method=None)
    assert evaluated_runs.read_runs([path])[0].name == "mine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0.5}, "the same examples under the same attacks"),
        ({"dataset": "cifar10"}, "the same examples under the same attacks"),
        ({"epsilon": 0}, "needs one above 0"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    workdirs, tmp_path, change, message
):
    other = make_workdir(tmp_path / "other", "alpha", **change)
    with pytest.raises(ValueError, match=message):
        evaluated_runs.read_runs([workdirs[0], other])


def test_files_that_are_missing_or_broken_are_named(workdirs, tmp_path):
    with pytest.raises(ValueError, match="adt-evaluate --workdir"):
        evaluated_runs.read_runs([tmp_path])
    with pytest.raises(ValueError, match="each once"):
        evaluated_runs.read_runs([workdirs[0]] * 2)
    broken = make_workdir(tmp_path / "broken", "alpha")
    (broken / "lint.json").write_text("{}")
    with pytest.raises(ValueError, match="lint.json: `ok` must be true"):
        evaluated_runs.read_runs([broken])
    (broken / "lint.json").unlink()
    (broken / "provenance.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"`starts\[0\]` must be an object"):
        evaluated_runs.read_runs([broken])


def test_provenance_keeps_every_start_and_tells_data_apart(tmp_path):
    path = tmp_path / "provenance.json"
    zeros = ImageData(np.zeros([6, 8, 8, 1]), np.arange(6) % 2, 2, "mine")
    other = ImageData(np.zeros([6, 8, 8, 1]), np.arange(6)[::-1] % 2, 2, "mine")
    for examples in (zeros, zeros, other):
        provenance.record(path, examples)
    first, second, third = (e["data"]["sha256"] for e in provenance.read(path))
    assert first == second != third


def test_commit_of_this_code_is_known():
    root = pathlib.Path(__file__).parents[1]
    if not (root / ".git").exists():
        pytest.skip("not a checkout")
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert provenance.commit().partition("-")[0] == done.stdout.strip()


class _Checker(html.parser.HTMLParser):
    """Collects ids, links, addresses and unclosed tags."""

    VOID = {"meta", "link", "img", "input", "br"}

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.sources = [], [], []
        self.open, self.tags, self.images = [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "img":
            self.images.append(values)
        for name in ("src", "href", "srcset", "data", "action"):
            if values.get(name, "").startswith("#"):
                self.links.append(values[name][1:])
            elif values.get(name):
                self.sources.append(values[name])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_whole_and_well_formed(html_page):
    checker = _Checker()
    checker.feed(html_page)
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert set(checker.links) <= set(checker.ids)
    assert all(source.startswith("data:") for source in checker.sources)
    assert all("alt" in image for image in checker.images)
    assert not re.search(r"url\(|@import", html_page.split("<body>")[0])


def test_page_escapes_what_users_name(html_page):
    # Counts, since pytest would explain a long text at length.
    assert html_page.count("<b>beta") == 0 < html_page.count("&lt;b&gt;beta")
    assert html_page.count("Square &lt;wins&gt;.") == 2


def test_page_says_all_it_should(html_page):
    text = re.sub("<[^>]*>", " ", html_page)
    for expected in (
        "8/255",
        "alpha  is the most robust",
        "adt-train --flagfile=",
        "adt-evaluate --workdir=run0",
        "adt-lint --workdir=",
        "adt-report --output=here",
        "6 images of 8 × 8 × 1, 2 classes",
        "1 warn",
        "Curvature",
        "--epsilon=0.1",
        provenance.commit(),
    ):
        assert text.count(expected), expected


def test_paired_comparison_counts_images(runs, html_page):
    """14 and 2 withstand all, the first two of both: 12 against 0."""
    test = evaluation.compare(*(run.report for run in runs))["A_rob"]
    assert (test.first_only, test.second_only) == (12, 0)
    text = html_page
    assert text.count("alpha is better by 60.0 points") == 1
    # 2 * 0.5**12
    assert text.count("(p = 5\u00a0×\u00a010<sup>−4</sup>)") == 1


def test_one_run_needs_no_analyses(workdirs):
    images, _, _ = make_measured()
    one = dataclasses.replace(
        images,
        **{
            name: getattr(images, name)[:1]
            for name in ("natural", "attacked", "predicted", "sigma")
        },
    )
    text = render_page(
        evaluated_runs.read_runs(workdirs[:1]),
        images=one,
        sweep=None,
        analyses=None,
    )
    for note in (
        "This page is about one model",
        "accuracy against epsilon was not measured",
        "analyses were not run",
    ):
        assert text.count(note) == 1, note


def test_every_model_of_eight_has_a_style_of_its_own():
    assert len({svg_charts.marker_path(i) for i in range(8)}) == 8
    folder = pathlib.Path(page.__file__).with_name("templates")
    css = (folder / "page.css").read_text("utf-8")
    for i in range(svg_charts.NUM_STYLES):
        # In light and in dark.
        assert len(set(re.findall(rf"--c{i}: (#\w+);", css))) == 2
        assert f".s{i} {{ --series: var(--c{i}); }}" in css


def test_more_models_have_a_marker_and_a_colour_of_their_own():
    for styles in (
        {(svg_charts.style(i), svg_charts.marker_path(i)) for i in range(20)},
        {(plots.color(i), plots.marker(i)) for i in range(20)},
    ):
        assert len(styles) == 20


def test_entropy_is_drawn_for_distributions_alone(tmp_path):
    """A model trained on points has none; the other keeps its colour."""
    folders = [make_workdir(tmp_path / n, n) for n in ("alpha", NAMES[1])]
    (folders[0] / "metrics.csv").write_text(
        "epoch,accuracy,entropy,loss\n0,0.5,0,1.5\n1,0.75,0,1\n"
    )
    loss, accuracy, entropy = curve_sections.training_charts(
        evaluated_runs.read_runs(folders)
    )
    assert entropy.label.startswith("entropy")
    assert [line.index for line in entropy.lines] == [1]
    assert [line.index for line in accuracy.lines] == [0, 1]
    # The second run has a validation loss as well.
    assert [line.index for line in loss.lines] == [0, 1, 1]
    assert [line.dashed for line in loss.lines] == [False, False, True]


def test_entropies_of_several_kinds_have_panels_of_their_own(tmp_path):
    """The entropy of IMP-AM is of z, not of pixels, so it has its own axis."""
    folders = [
        make_workdir(tmp_path / method, NAMES[0], method=method)
        for method in ("adt_exp", "adt_imp_am")
    ]
    _, _, pixels, latent = curve_sections.training_charts(
        evaluated_runs.read_runs(folders)
    )
    assert pixels.y_label == "entropy (nats per pixel value)"
    assert latent.y_label.startswith("log q(z given delta)")
    assert [line.index for line in pixels.lines] == [0]
    assert [line.index for line in latent.lines] == [1]


def test_what_is_about_another_classifier_is_refused(tmp_path):
    folder = make_workdir(tmp_path / "run", NAMES[0])
    (folder / "classifier.keras").write_bytes(b"one")
    fingerprint = {"classifier": Workdir(folder).fingerprint()}
    for name in ("evaluation", "lint"):
        path = folder / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fingerprint))
    evaluated_runs.read_runs([folder])
    (folder / "classifier.keras").write_bytes(b"another")
    with pytest.raises(ValueError, match="adt-evaluate --workdir="):
        evaluated_runs.read_runs([folder])
    path = folder / "evaluation.json"
    values = json.loads(path.read_text()) | {"classifier": None}
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="adt-lint --workdir="):
        evaluated_runs.read_runs([folder])


def test_headline_does_not_praise_what_lint_fails_on(runs):
    best = max(runs, key=lambda run: run.report.robust_accuracy)
    assert wording.headline(runs)["claim"] == "significant"
    failing = [
        dataclasses.replace(run, lint=run.lint | {"ok": False})
        if run is best
        else run
        for run in runs
    ]
    assert wording.headline(failing)["claim"] == "doubtful"
    text = render_page(failing)
    headline = re.search('<p class="headline">(.*?)</p>', text, re.DOTALL)[1]
    assert "lint fails on it" in headline and "<strong>" not in headline


def test_images_that_were_wrong_before_the_attack_say_so(runs, monkeypatch):
    images, _, _ = make_measured()
    natural = images.natural.copy()
    # The first model is wrong about image 2, and right when it is attacked.
    natural[0, 1] = 7
    images = dataclasses.replace(images, natural=natural)
    text = render_page(runs, images=images)
    (row,) = re.findall(
        "<tr>(?:(?!<tr>).)*alpha, attacked.*?</tr>", text, re.DOTALL
    )
    cells = re.findall(r'<td class="(\w+)">.*?<span>(.*?)</span>', row)
    assert cells[:2] == [
        ("right", "seen as 0"),
        ("wrong", "seen as 1 (clean: 7, also wrong)"),
    ]
    assert text.count("<span>seen as 1 (clean") == 1
    figures = []
    monkeypatch.setattr(plots, "save", lambda figure, _: figures.append(figure))
    picture_files.draw_images(runs, images, None)
    titles = [axes.get_title() for axes in figures[0].axes]
    assert titles.count("seen as 1\nclean: wrong") == 1
    assert sum("clean" in title for title in titles) == 1


def test_points_of_a_chart_stand_where_their_values_are():
    """Equal steps in x, and y from the bottom at 0 to the top at 100 %."""
    series = svg_charts.Series("a", 0, [0.0, 1.0, 2.0], [0.0, 0.5, 1.0])
    chart = svg_charts.line_chart(
        [series], label="", x_label="x", y_label="y", unit="%"
    )
    places = chart.places
    assert places[1] - places[0] == pytest.approx(places[2] - places[1])
    points = chart.lines[0].points.split()
    x, y = np.array([p.split(",") for p in points], float).T
    np.testing.assert_allclose(x, places)
    assert y[0] - y[1] == pytest.approx(y[1] - y[2]) and y[0] > y[2]


def test_images_keep_their_pixels():
    """An independent reader gives back what went in, pixel by pixel."""
    values = np.linspace(0, 1, 64).reshape(8, 8, 1)
    decoded = reader.imread(io.BytesIO(decode(inline_images.png(values))))[
        ..., 0
    ]
    factor = len(decoded) // 8
    np.testing.assert_allclose(
        decoded[::factor, ::factor], values[..., 0], atol=1 / 255
    )
    delta = np.array([-0.1, 0.0, 0.1]).reshape(1, 3, 1)
    content = decode(inline_images.perturbation(delta, 0.1))
    grey = reader.imread(io.BytesIO(content))
    np.testing.assert_allclose(
        grey[0, :: grey.shape[1] // 3, 0], [0, 0.5, 1], atol=1 / 255
    )


def test_sweep_at_a_linear_classifier(labelled_line):
    """Two classes apart by w.x: an image falls where its margin ends."""
    classifier, x, y, margins = labelled_line
    sweep = attacked_images.sweep_epsilon(
        {"linear": classifier}, x, y, epsilon=0.1, seed=0, num_images=2
    )
    for radius, right in zip(sweep.radii, sweep.right[0], strict=True):
        np.testing.assert_array_equal(right, margins > radius)
    assert sweep.images.shape == (1, len(sweep.radii), 2, 4, 4, 1)


def test_models_are_shown_each_others_images(labelled_line, monkeypatch):
    """The second sees everything as class 0: no attack on it transfers."""
    classifier, x, y, margins = labelled_line
    for name in ("_diversity", "_loss_surface", "_hessian", "_convergence"):
        monkeypatch.setattr(analysis_figures, name, lambda *_: ("", "", None))

    def constant(x, training=False):
        return 0.0 * classifier(x) + [1.0, 0.0]

    models = {"linear": classifier, "constant": constant}
    figures = analysis_figures.analyze(models, x, y, epsilon=0.1, seed=0)
    own, zeros = 100 * np.mean(margins > 0.1), 100 * np.mean(y == 0)
    assert f"found on linear: linear {own:.1f} %, constant {zeros:.1f} %" in (
        figures[-1].alt
    )
    one = analysis_figures.analyze(
        {"linear": classifier}, x, y, epsilon=0.1, seed=0
    )
    assert not any(figure.png for figure in one)


def test_a_model_without_a_gradient_is_left_out(labelled_line, monkeypatch):
    classifier, x, y, _ = labelled_line
    for name in ("_diversity", "_convergence", "_transfer"):
        monkeypatch.setattr(analysis_figures, name, lambda *_: ("", "", None))

    def rounded(x, training=False):
        return classifier(tf.round(x))

    models = {"linear": classifier, "rounded": rounded}
    figures = analysis_figures.analyze(models, x, y, epsilon=0.1, seed=0)
    for figure in figures[2:4]:
        assert figure.title.endswith("(without rounded: no input gradient)")
        assert figure.png and "rounded" not in figure.alt
    models = {"rounded": rounded}
    figures = analysis_figures.analyze(models, x, y, epsilon=0.1, seed=0)
    for figure in figures[1:3]:
        assert figure.png is None
        assert "must hold classifiers with an input gradient" in figure.text


def test_an_analysis_that_fails_says_why_and_costs_no_other(
    runs, labelled_line, monkeypatch
):
    classifier, x, y, _ = labelled_line

    def curved(*_):
        raise ValueError("The Hessian is <NaN>.")

    monkeypatch.setattr(analysis_figures, "_hessian", curved)
    for name in ("_diversity", "_convergence"):
        monkeypatch.setattr(analysis_figures, name, lambda *_: ("", "", None))
    models = {"linear": classifier}
    figures = analysis_figures.analyze(models, x, y, epsilon=0.1, seed=0)
    surface, hessian = figures[1:3]
    assert surface.png.startswith(b"\x89PNG")
    assert hessian.png is None and "The Hessian is <NaN>." in hessian.text
    text = render_page(runs, analyses=[surface, hessian])
    assert text.count('<div class="paper">') == 1
    assert "ValueError: The Hessian is &lt;NaN&gt;." in text


def test_sigma_is_that_of_training(labelled_line):
    classifier, x, y, _ = labelled_line
    images = attacked_images.attack_images(
        {"linear": classifier}, x, y, epsilon=0.1, seed=0
    )
    attack = methods.adt_exp(0.1).attack
    expected = attack.distribution(classifier, x, y, seed=0)
    np.testing.assert_allclose(
        images.sigma[0], expected.distribution.distribution.scale, rtol=1e-5
    )


@pytest.fixture
def labelled_line():
    """Logits (0, mean(x) - 0.5): the margin is |mean - 0.5| in l-infinity."""

    def classifier(x, training=False):
        mean = tf.reduce_mean(x, axis=[1, 2, 3])
        return tf.stack([tf.zeros_like(mean), mean - 0.5], axis=-1)

    levels = np.array([0.52, 0.57, 0.62, 0.67, 0.72, 0.48, 0.43, 0.38])
    x = np.broadcast_to(levels[:, None, None, None], [8, 4, 4, 1])
    y = (levels > 0.5).astype(np.int32)
    return classifier, x.astype(np.float32), y, np.abs(levels - 0.5)


def test_write_refuses_examples_of_another_evaluation(workdirs, tmp_path):
    few = np.zeros([3, 8, 8, 1]), np.zeros([3], int)
    with pytest.raises(ValueError, match="the 20 examples"):
        report.write(workdirs, tmp_path / "out", test=few)
    with pytest.raises(ValueError, match="num_images"):
        report.write(workdirs, tmp_path / "out", num_images=0)
    assert not (tmp_path / "out").exists()

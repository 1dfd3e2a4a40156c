"""The page: its parts against known verdicts, and whole in a real browser."""

import base64
import dataclasses
import html.parser
import io
import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
from matplotlib import image as reader

from adt_tf import evaluation, methods, report
from adt_tf.analysis import plots
from adt_tf.data import ImageData
from adt_tf.evaluation import Report
from adt_tf.report import (
    analyses,
    charts,
    collect,
    curves,
    evidence,
    images,
    measure,
    page,
    wording,
)
from adt_tf.report.analyses import Analysis
from adt_tf.report.pictures import draw_images
from adt_tf.runs import provenance, workdir
from tests.support import browser

NAMES = ("alpha", "<b>beta</b>")
# 20 examples: right when clean, under FGSM, under PGD-20.
VERDICTS = {
    "alpha": ("1" * 20, "1" * 16 + "0" * 4, "1" * 14 + "0" * 6),
    "<b>beta</b>": ("1" * 18 + "00", "1" * 8 + "0" * 12, "1" * 2 + "0" * 18),
}
EPSILON = 8 / 255
FINDINGS = [
    {"check": "logits", "status": "pass", "evidence": "Fine.", "advice": ""},
    {
        "check": "black_box",
        "status": "warn",
        "evidence": "Square <wins>.",
        "advice": "Look.",
    },
]


def make_workdir(folder, name, **details):
    folder.mkdir(parents=True)
    verdicts = dict(
        zip(("natural", "FGSM", "PGD-20"), VERDICTS[name], strict=True)
    )
    outcomes = {
        k: np.array([int(c) for c in v], np.int8) for k, v in verdicts.items()
    }
    attacks = {"FGSM": "<FGSM: one step>", "PGD-20": "<PGD-20: steps>"}
    values = Report(outcomes, attacks, 0, True, {"FGSM": 1.0}).to_dict()
    values |= {"dataset": "digits", "epsilon": EPSILON, "method": name}
    values["command"] = f"python scripts/evaluate.py --workdir={folder.name}"
    values |= details
    (folder / "evaluation.json").write_text(json.dumps(values))
    (folder / "flags.txt").write_text("--epochs=2\n--epsilon=0.1\n--seed=3\n")
    (folder / "metrics.csv").write_text(
        "epoch,accuracy,entropy,loss,val_loss\n0,0.5,-2,1.5,1.6\n"
        "1,0.75,-1,1,NA\n"
    )
    (folder / "lint.json").write_text(
        json.dumps(
            {"ok": True, "num_examples": 9, "epsilon": EPSILON, "seed": 0}
            | {"findings": FINDINGS}
        )
    )
    train = ImageData(np.zeros([6, 8, 8, 1]), np.arange(6) % 2, 2, "digits")
    provenance.record(folder / "provenance.json", train)
    return folder


@pytest.fixture(scope="module")
def workdirs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return [make_workdir(root / f"run{i}", n) for i, n in enumerate(NAMES)]


@pytest.fixture(scope="module")
def runs(workdirs):
    return collect.read_runs(workdirs)


def make_measured():
    """As `measure` and `analyses` give them, of 4 images."""
    random = np.random.default_rng(0)
    clean = random.uniform(size=[4, 8, 8, 1])
    shape = [2, 4, 8, 8, 1]
    labels = np.arange(4)
    pictures = measure.Pictures(
        clean,
        labels,
        natural=np.stack([labels, labels]),
        attacked=clean + random.uniform(-EPSILON, EPSILON, shape),
        seen=np.stack([labels, labels[::-1]]),
        sigma=random.uniform(0.2, 1.0, shape),
    )
    radii = np.array([0.0, EPSILON, 2 * EPSILON])
    right = np.arange(20) < np.array([[20, 14, 3], [18, 2, 0]])[..., None]
    sweep = measure.Sweep(
        radii,
        right,
        random.uniform(size=[2, 3, 4, 8, 8, 1]),
        np.stack([[labels, labels, labels[::-1]]] * 2),
    )
    picture = images.png(random.uniform(size=[90, 120, 1]))
    found = [Analysis("Curvature", "Reads so.", "A curve.", _decoded(picture))]
    return pictures, sweep, found


def _decoded(uri):
    return base64.b64decode(uri.partition(",")[2])


@pytest.fixture(scope="module")
def html_page(runs, tmp_path_factory):
    pictures, sweep, found = make_measured()
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(
        page.render(
            runs,
            pictures=pictures,
            sweep=sweep,
            analyses=found,
            command="python scripts/report.py --output=here",
        ),
        encoding="utf-8",
    )
    return path


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
    assert [r.name for r in collect.read_runs(paths)] == [
        "alpha (a)",
        "alpha (b)",
    ]


def test_a_run_without_a_method_is_named_after_its_folder(tmp_path):
    path = make_workdir(tmp_path / "mine", "alpha", method=None)
    assert collect.read_runs([path])[0].name == "mine"


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
        collect.read_runs([workdirs[0], other])


def test_files_that_are_missing_or_broken_are_named(workdirs, tmp_path):
    with pytest.raises(ValueError, match="scripts/evaluate.py --workdir"):
        collect.read_runs([tmp_path])
    with pytest.raises(ValueError, match="each once"):
        collect.read_runs([workdirs[0]] * 2)
    broken = make_workdir(tmp_path / "broken", "alpha")
    (broken / "lint.json").write_text("{}")
    with pytest.raises(ValueError, match="not what scripts/lint.py writes"):
        collect.read_runs([broken])
    (broken / "lint.json").unlink()
    (broken / "provenance.json").write_text("[1]")
    with pytest.raises(ValueError, match="not what scripts/train.py writes"):
        collect.read_runs([broken])


def test_provenance_keeps_every_start_and_tells_data_apart(tmp_path):
    path = tmp_path / "provenance.json"
    zeros = ImageData(np.zeros([6, 8, 8, 1]), np.arange(6) % 2, 2, "mine")
    other = ImageData(np.zeros([6, 8, 8, 1]), np.arange(6)[::-1] % 2, 2, "mine")
    for examples in (zeros, zeros, other):
        provenance.record(path, examples)
    first, second, third = (e["data"]["sha256"] for e in provenance.read(path))
    assert first == second != third


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
    text = html_page.read_text(encoding="utf-8")
    checker = _Checker()
    checker.feed(text)
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert set(checker.links) <= set(checker.ids)
    assert all(source.startswith("data:") for source in checker.sources)
    assert all("alt" in image for image in checker.images)
    assert not re.search(r"url\(|@import|\$[a-z]", text.split("<body>")[0])


def test_page_escapes_what_users_name(html_page):
    text = html_page.read_text(encoding="utf-8")
    # Counts, since pytest would explain a long text at length.
    assert text.count("<b>beta") == 0 < text.count("&lt;b&gt;beta")
    assert text.count("Square &lt;wins&gt;.") == 2


def test_page_says_all_it_should(html_page):
    text = re.sub("<[^>]*>", " ", html_page.read_text(encoding="utf-8"))
    for expected in (
        "8/255",
        "alpha  is the most robust",
        "python scripts/train.py --flagfile=",
        "python scripts/evaluate.py --workdir=run0",
        "python scripts/lint.py --workdir=",
        "python scripts/report.py --output=here",
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
    text = html_page.read_text(encoding="utf-8")
    assert text.count("alpha is ahead by 60.0 points") == 1
    assert text.count(f"p = {wording.p_value(2 * 0.5**12)}")


def test_one_run_needs_no_analyses(workdirs):
    pictures, _, _ = make_measured()
    one = measure.Pictures(
        pictures.clean,
        pictures.labels,
        *(
            getattr(pictures, name)[:1]
            for name in ("natural", "attacked", "seen", "sigma")
        ),
    )
    text = page.render(
        collect.read_runs(workdirs[:1]),
        pictures=one,
        sweep=None,
        analyses=None,
        command="python scripts/report.py",
    )
    for told in ("This page is about one model", "Not measured", "Not run"):
        assert text.count(told) == 1


def test_every_model_of_eight_has_a_style_of_its_own():
    keys = [charts.key(i) for i in range(8)]
    assert len({re.search(' d="(.*?)"', key)[1] for key in keys}) == 8
    css = pathlib.Path(page.__file__).with_name("page.css").read_text("utf-8")
    for i in range(charts.NUM_STYLES):
        # In light and in dark.
        assert len(set(re.findall(rf"--c{i}: (#\w+);", css))) == 2
        assert f".s{i} {{ --series: var(--c{i}); }}" in css


def test_more_models_have_a_marker_and_a_colour_of_their_own():
    assert len({charts.key(i) for i in range(20)}) == 20
    styles = {(plots.color(i), plots.marker(i)) for i in range(20)}
    assert len(styles) == 20


def test_entropy_is_drawn_for_distributions_alone(tmp_path):
    """A model trained on points has none; the other keeps its colour."""
    folders = [make_workdir(tmp_path / n, n) for n in ("alpha", NAMES[1])]
    (folders[0] / "metrics.csv").write_text(
        "epoch,accuracy,entropy,loss\n0,0.5,0,1.5\n1,0.75,0,1\n"
    )
    text = curves.training(collect.read_runs(folders))
    (panel,) = re.findall(r'aria-label="entropy.*?</svg>', text)
    assert 'class="series s1"' in panel and 'class="series s0"' not in panel
    assert text.count('class="series s0"') == 2


def test_entropies_of_several_kinds_have_panels_of_their_own(tmp_path):
    """That of IMP-AM is of z, not of pixels: no axis for both."""
    folders = [
        make_workdir(tmp_path / method, NAMES[0], method=method)
        for method in ("adt_exp", "adt_imp_am")
    ]
    text = curves.training(collect.read_runs(folders))
    (pixels,) = re.findall(r'aria-label="entropy.*?</svg>', text)
    (latent,) = re.findall(r'aria-label="log q.*?</svg>', text)
    assert 'series s0"' in pixels and 'series s1"' not in pixels
    assert 'series s1"' in latent and 'series s0"' not in latent
    assert "nats a pixel value" in pixels


def test_what_is_about_another_classifier_is_refused(tmp_path):
    folder = make_workdir(tmp_path / "run", NAMES[0])
    (folder / "classifier.keras").write_bytes(b"one")
    known = {"classifier": workdir.fingerprint(folder)}
    for name in ("evaluation", "lint"):
        path = folder / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | known))
    collect.read_runs([folder])
    (folder / "classifier.keras").write_bytes(b"another")
    with pytest.raises(ValueError, match="scripts/evaluate.py --workdir="):
        collect.read_runs([folder])
    path = folder / "evaluation.json"
    values = json.loads(path.read_text()) | {"classifier": None}
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="scripts/lint.py --workdir="):
        collect.read_runs([folder])


def test_headline_does_not_praise_what_lint_fails_on(runs):
    best = max(runs, key=lambda run: run.report.robust_accuracy)
    assert "lint" not in wording.headline(list(runs))
    failing = [
        dataclasses.replace(run, lint={"ok": False}) if run is best else run
        for run in runs
    ]
    told = wording.headline(failing)
    assert "lint fails on it" in told and "<strong>" not in told


def test_images_that_were_wrong_before_the_attack_say_so(runs, monkeypatch):
    pictures, _, _ = make_measured()
    natural = pictures.natural.copy()
    # The first model is wrong about image 2, and right when it is attacked.
    natural[0, 1] = 7
    pictures = dataclasses.replace(pictures, natural=natural)
    text = evidence.image_grid(runs, pictures, EPSILON)
    (row,) = re.findall("<tr>(?:(?!<tr>).)*alpha, attacked.*?</tr>", text)
    cells = re.findall(r'<td class="(\w+)">.*?<span>(.*?)</span>', row)
    assert cells[:2] == [
        ("right", "seen as 0"),
        ("wrong", "seen as 1, wrong already when clean: 7"),
    ]
    assert text.count("<span>seen as 1, wrong") == 1
    drawn = []
    monkeypatch.setattr(plots, "save", lambda figure, _: drawn.append(figure))
    draw_images(runs, pictures, None)
    titles = [axes.get_title() for axes in drawn[0].axes]
    assert titles.count("seen as 1\nclean: wrong") == 1
    assert sum("clean" in title for title in titles) == 1


def test_points_of_a_chart_stand_where_their_values_are():
    """Equal steps in x, and y from the bottom at 0 to the top at 100 %."""
    series = charts.Series("a", 0, [0.0, 1.0, 2.0], [0.0, 0.5, 1.0])
    svg, places = charts.line_chart(
        [series], label="", x_label="x", y_label="y", unit="%"
    )
    assert places[1] - places[0] == pytest.approx(places[2] - places[1])
    points = re.search(r'class="line" points="([^"]*)"', svg)[1].split()
    x, y = np.array([p.split(",") for p in points], float).T
    np.testing.assert_allclose(x, places)
    assert y[0] - y[1] == pytest.approx(y[1] - y[2]) and y[0] > y[2]


def test_images_keep_their_pixels():
    """An independent reader gives back what went in, pixel by pixel."""
    values = np.linspace(0, 1, 64).reshape(8, 8, 1)
    shown = reader.imread(io.BytesIO(_decoded(images.png(values))))[..., 0]
    factor = len(shown) // 8
    np.testing.assert_allclose(
        shown[::factor, ::factor], values[..., 0], atol=1 / 255
    )
    delta = np.array([-0.1, 0.0, 0.1]).reshape(1, 3, 1)
    grey = reader.imread(io.BytesIO(_decoded(images.perturbation(delta, 0.1))))
    np.testing.assert_allclose(
        grey[0, :: grey.shape[1] // 3, 0], [0, 0.5, 1], atol=1 / 255
    )


def test_sweep_at_a_linear_classifier(labelled_line):
    """Two classes apart by w.x: an image falls where its margin ends."""
    classifier, x, y, margins = labelled_line
    sweep = measure.sweep_epsilon(
        {"linear": classifier}, x, y, epsilon=0.1, seed=0, num_images=2
    )
    for radius, right in zip(sweep.radii, sweep.right[0], strict=True):
        np.testing.assert_array_equal(right, margins > radius)
    assert sweep.images.shape == (1, len(sweep.radii), 2, 4, 4, 1)


def test_models_are_shown_each_others_images(labelled_line, monkeypatch):
    """The second sees everything as class 0: no attack on it transfers."""
    classifier, x, y, margins = labelled_line
    for name in ("_diversity", "_loss_surface", "_hessian", "_convergence"):
        monkeypatch.setattr(analyses, name, lambda *_: ("", "", None))

    def constant(x, training=False):
        return 0.0 * classifier(x) + [1.0, 0.0]

    models = {"linear": classifier, "constant": constant}
    found = analyses.analyze(models, x, y, epsilon=0.1, seed=0)[-1]
    own, zeros = 100 * np.mean(margins > 0.1), 100 * np.mean(y == 0)
    assert f"found on linear: linear {own:.1f} %, constant {zeros:.1f} %" in (
        found.alt
    )
    one = analyses.analyze({"linear": classifier}, x, y, epsilon=0.1, seed=0)
    assert not any(analysis.png for analysis in one)


def test_an_analysis_that_fails_says_why_and_costs_no_other(
    labelled_line, monkeypatch
):
    classifier, x, y, _ = labelled_line

    def curved(*_):
        raise ValueError("The Hessian is <NaN>.")

    monkeypatch.setattr(analyses, "_hessian", curved)
    for name in ("_diversity", "_convergence"):
        monkeypatch.setattr(analyses, name, lambda *_: ("", "", None))
    models = {"linear": classifier}
    found = analyses.analyze(models, x, y, epsilon=0.1, seed=0)
    surface, hessian = found[1:3]
    assert surface.png.startswith(b"\x89PNG")
    assert hessian.png is None and "The Hessian is <NaN>." in hessian.text
    text = evidence.analyses([surface, hessian], "command")
    assert text.count("<img") == 1
    assert "ValueError: The Hessian is &lt;NaN&gt;." in text


def test_sigma_is_that_of_training(labelled_line):
    classifier, x, y, _ = labelled_line
    shown = measure.attack_images(
        {"linear": classifier}, x, y, epsilon=0.1, seed=0
    )
    attack = methods.adt_exp(0.1).attack
    expected = attack.distribution(classifier, x, y, seed=0)
    np.testing.assert_allclose(
        shown.sigma[0], expected.distribution.distribution.scale, rtol=1e-5
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


@pytest.fixture(scope="module")
def chromium():
    with browser.open_browser() as opened:
        yield opened


@pytest.fixture
def tab(chromium, html_page):
    with browser.open_page(chromium, html_page) as opened:
        yield opened


COLUMN = (
    "[...document.querySelectorAll('table.attacks tbody tr')]"
    ".map(row => row.cells[0].textContent)"
)


@browser.needs_chromium
def test_page_asks_for_nothing_and_reports_no_error(tab, html_page):
    assert tab.evaluate("document.title") == "Robustness on digits"
    own = html_page.resolve().as_uri()
    assert [r for r in tab.requests if not r.startswith("data:")] == [own]
    assert tab.messages == []
    assert tab.evaluate(
        "[...document.images].every(i => !i.src || i.naturalWidth > 0)"
    )


@browser.needs_chromium
def test_policy_keeps_the_network_shut(tab):
    """Even a page that tried could not: the fetch is refused, and noted."""
    failed = tab.evaluate("fetch('https://x.invalid').then(() => 0, () => 1)")
    assert failed == 1
    assert "Content Security Policy" in str(tab.messages)


@browser.needs_chromium
def test_tables_sort_by_mouse_and_keyboard(tab):
    given = ["natural", "FGSM", "PGD-20"]
    assert tab.evaluate(COLUMN) == given
    second = "table.attacks thead th:nth-child(2) button"
    tab.click(second)
    assert tab.evaluate(COLUMN) == given[::-1]
    sort = "document.querySelector('table.attacks th:nth-child(2)').ariaSort"
    assert tab.evaluate(sort) == "ascending"
    tab.keyboard.press("Enter")  # the button has the focus
    assert tab.evaluate(COLUMN) == given
    assert tab.evaluate(sort) == "descending"
    tab.evaluate("document.querySelector('table.attacks button').focus()")
    tab.keyboard.press("Space")
    assert tab.evaluate(COLUMN) == ["FGSM", "natural", "PGD-20"]
    assert tab.evaluate(sort) is None


@browser.needs_chromium
def test_images_zoom_and_the_keyboard_leads_on_and_back(tab):
    opened = "document.getElementById('zoom').open"
    caption = "document.getElementById('zoom-caption').textContent"
    tab.click("table.images tr:nth-child(2) button.zoom")
    assert tab.evaluate(opened)
    first = tab.evaluate(caption)
    assert first.startswith("alpha, image 1, attacked")
    width = "document.querySelector('#zoom img').getBoundingClientRect().width"
    assert tab.evaluate(width) > 300
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(caption).startswith("alpha, image 2")
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate(caption) == first
    tab.keyboard.press("Escape")
    assert not tab.evaluate(opened)
    tab.evaluate("document.querySelector('.paper button').focus()")
    tab.keyboard.press("Enter")
    assert tab.evaluate(opened) and tab.evaluate(caption) == "A curve."
    tab.keyboard.press("Escape")
    assert tab.evaluate("document.activeElement.className") == "zoom"
    tab.evaluate("document.querySelector('.tile button').focus()")
    tab.keyboard.press("Enter")
    assert tab.evaluate(caption) == "Image 1, class 0, seen as 0"


@browser.needs_chromium
def test_slider_shows_each_radius(tab):
    shown = (
        "[document.querySelector('output').textContent,"
        "document.querySelector('.strip h3 span').textContent,"
        "document.querySelector('.tile').className]"
    )
    assert tab.evaluate(shown) == ["8/255", "70.0\u00a0%", "tile right"]
    tab.evaluate("document.getElementById('radius').focus()")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(shown) == ["16/255", "15.0\u00a0%", "tile wrong"]
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate(shown) == ["8/255", "70.0\u00a0%", "tile right"]


def luminance(color):
    red, green, blue = (int(v) / 255 for v in re.findall(r"\d+", color)[:3])
    linear = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
        for v in (red, green, blue)
    ]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


@browser.needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_page_is_readable_wide_and_narrow_light_and_dark(
    chromium, html_page, width, scheme
):
    """No sideways scrolling, no tiny text, WCAG's contrast of 4.5."""
    with browser.open_page(chromium, html_page, width=width) as tab:
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        style = "getComputedStyle(document.querySelector('{}')).{}"
        paper = luminance(tab.evaluate(style.format("body", "backgroundColor")))
        assert paper > 0.8 if scheme == "light" else paper < 0.05
        for selector in ("body", ".note", ".status.warn", "a[href]", "small"):
            ink = luminance(tab.evaluate(style.format(selector, "color")))
            low, high = sorted([ink, paper])
            assert (high + 0.05) / (low + 0.05) >= 4.5, selector
        smallest = tab.evaluate(
            "Math.min(...[...document.querySelectorAll('svg.chart text')].map("
            "t => 12.5 * t.ownerSVGElement.getBoundingClientRect().width"
            " / t.ownerSVGElement.viewBox.baseVal.width))"
        )
        assert smallest > 8
        assert tab.messages == []


@browser.needs_chromium
def test_paper_shows_what_is_folded_away(tab, tmp_path):
    path = tmp_path / "page.pdf"
    tab.pdf(path=path, format="A4", print_background=True)
    assert path.read_bytes().startswith(b"%PDF")
    assert tab.evaluate(
        "[...document.querySelectorAll('details')].every(d => d.open)"
    )
    assert tab.messages == []

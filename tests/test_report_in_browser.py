"""The page in a real browser."""

import re

import numpy as np
import pytest

from adt_tf.report import evaluated_runs
from tests.support import browser
from tests.support.report_runs import NAMES, make_workdir, render_page


@pytest.fixture(scope="module")
def html_page(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    workdirs = [make_workdir(root / f"run{i}", n) for i, n in enumerate(NAMES)]
    path = root / "index.html"
    text = render_page(evaluated_runs.read_runs(workdirs))
    path.write_text(text, encoding="utf-8")
    return path


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
    original = ["natural", "FGSM", "PGD-20"]
    assert tab.evaluate(COLUMN) == original
    second = "table.attacks thead th:nth-child(2) button"
    tab.click(second)
    assert tab.evaluate(COLUMN) == original[::-1]
    sort = "document.querySelector('table.attacks th:nth-child(2)').ariaSort"
    assert tab.evaluate(sort) == "ascending"
    tab.keyboard.press("Enter")  # the button has the focus
    assert tab.evaluate(COLUMN) == original
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
    state = (
        "[document.querySelector('output').textContent,"
        "document.querySelector('.strip h3 span').textContent,"
        "document.querySelector('.tile').className]"
    )
    assert tab.evaluate(state) == ["8/255", "70.0\u00a0%", "tile right"]
    tab.evaluate("document.getElementById('radius').focus()")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(state) == ["16/255", "15.0\u00a0%", "tile wrong"]
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate(state) == ["8/255", "70.0\u00a0%", "tile right"]


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


@browser.needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
def test_page_shows_the_curves_from_noise_to_the_worst_case(
    chromium, tmp_path, width
):
    workdirs = [
        make_workdir(
            tmp_path / f"run{i}",
            name,
            probabilistic={
                "thresholds": [0.01, 0.1],
                "max_samples": 512,
                "confidence": 0.99,
                "failures": {"FGSM": "0 " * 16 + "9 40 60 " + "32"},
                "samples": {"FGSM": "512 " * 18 + "128 32"},
            },
        )
        for i, name in enumerate(NAMES[:1] * 2)
    ]
    path = tmp_path / "index.html"
    text = render_page(evaluated_runs.read_runs(workdirs))
    path.write_text(text, encoding="utf-8")
    with browser.open_page(chromium, path, width=width) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        charts = "document.querySelectorAll('#probability svg.chart').length"
        assert tab.evaluate(charts) == 2
        cells = (
            "[...document.querySelectorAll('table.probabilistic tbody tr')]"
            ".map(row => [...row.querySelectorAll('b')]"
            ".map(cell => cell.textContent))"
        )
        assert tab.evaluate(cells) == [["80.0", "90.0"]] * 2
        assert tab.messages == []

"""Tests the page's warnings on misleading numbers, and its class table."""

import html
import re

import pytest

from adt_tf.report import evaluated_runs, markdown_report, wording
from tests.support.report_runs import NAMES, make_workdir, render_page

WARNING = {
    "check": "differentiable",
    "status": "fail",
    "evidence": "The gradient <of the loss> is None.",
    "advice": "Attack & query.",
    "brief": "no input gradient on 100 % of <the> examples",
}
CAVEAT = f"not to be trusted: {WARNING['brief']}"
LABELS = " ".join(["0"] * 10 + ["1"] * 10)
DETAILS = {"labels": LABELS, "class_names": ["cat", "<i>dog</i>"]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs; the first has the higher A_rob and a warning."""
    root = tmp_path_factory.mktemp("runs")
    more = ({"warnings": [WARNING]}, {"warnings": []})
    folders = [
        make_workdir(root / f"run{i}", name, **DETAILS, **details)
        for i, (name, details) in enumerate(zip(NAMES, more, strict=True))
    ]
    return evaluated_runs.read_runs(folders)


@pytest.fixture(scope="module")
def text(runs):
    return render_page(runs)


def test_the_caveat_stands_beside_the_number(text):
    caveat_text = html.escape(CAVEAT)
    assert WARNING["brief"] not in text and WARNING["evidence"] not in text
    cards = text.partition('id="verdict"')[2].partition("</section>")[0]
    first, second = cards.split("<article")[1:]
    number, caveat = first.index('class="big"'), first.index(caveat_text)
    assert 0 < caveat - number < 300
    assert caveat_text not in second
    table = text.partition('id="attacks"')[2].partition("</section>")[0]
    assert (
        table.count(caveat_text) == 1
        and caveat_text in table.partition("<tfoot>")[2]
    )
    believe = text.partition('id="believe"')[2].partition("</section>")[0]
    assert html.escape(WARNING["evidence"]) in believe
    assert html.escape(WARNING["advice"]) in believe


@pytest.mark.parametrize("name", ["attacks", "classes", "chart"])
def test_every_section_with_accuracies_marks_the_model(text, name):
    section = text.partition(f'id="{name}"')[2].partition("</section>")[0]
    mark = '<a href="#believe">not to be trusted</a>'
    assert section.count(mark) == 1
    # The mark belongs to the first model.
    before, after = section.split(mark)
    first, second = map(html.escape, NAMES)
    assert first in before and second not in before and second in after


def test_the_comparison_claims_nothing(text):
    section = text.partition('id="compare"')[2].partition("</section>")[0]
    robust, natural = section.split('<div class="pair">')[1:]
    assert "This comparison is not valid" in robust
    assert "significant" not in robust
    assert html.escape(CAVEAT) in robust
    assert "not valid" not in natural


def test_the_headline_claims_nothing(runs, text):
    assert wording.headline(runs)["claim"] == "untrusted"
    headline = text.partition('class="headline"')[2].partition("</p>")[0]
    assert html.escape(CAVEAT) in headline and "most robust" not in headline


def test_the_markdown_says_so(runs):
    first, second = markdown_report.table(runs).splitlines()[2:]
    assert "70.0 (not to be trusted: no input gradient" in first
    assert first.count("(not to be trusted) |") == 2
    assert "trusted" not in second


def test_each_class_has_a_row(text):
    table = text.partition('id="classes"')[2].partition("</section>")[0]
    rows = table.partition("<tbody>")[2].split("<tr>")[1:]
    assert "cat" in rows[0] and "&lt;i&gt;dog&lt;/i&gt;" in rows[1]
    numbers = [re.findall(r"<b>([\d.]+)</b>", row) for row in rows]
    # Of ten and ten, 14 and 2 are robust, the first ones.
    assert numbers == [["100.0", "20.0"], ["40.0", "0.0"]]
    assert "10 images" in rows[0] and "clean 80.0" in rows[1]


def test_without_labels_the_page_says_how_to_get_them(tmp_path):
    folder = make_workdir(tmp_path / "run", NAMES[0])
    text = render_page(evaluated_runs.read_runs([folder]))
    assert "does not say which class" in text


QUERIED = {
    "warnings": [WARNING],
    "searches": {"FGSM": "gradient", "PGD-20": "queries"},
}


def test_a_blind_model_in_second_place_forbids_praise_too(tmp_path):
    """PGD-20 stands for Square: its verdicts on a blind model count."""
    folders = [
        make_workdir(tmp_path / "a", NAMES[0], warnings=[]),
        make_workdir(tmp_path / "b", NAMES[1], **QUERIED),
    ]
    runs = evaluated_runs.read_runs(folders)
    assert wording.headline(runs)["claim"] == "untrusted"
    text = render_page(runs)
    headline = text.partition('class="headline"')[2].partition("</p>")[0]
    assert "No ranking" in headline and "most robust" not in headline
    assert html.escape(NAMES[1]) in headline and NAMES[0] not in headline


def test_only_attacks_on_the_gradient_are_marked(tmp_path):
    folder = make_workdir(tmp_path / "run", NAMES[0], **QUERIED)
    runs = evaluated_runs.read_runs([folder])
    bound = f"an upper bound by query attacks alone: {WARNING['brief']}"
    assert runs[0].report.caveat == bound
    row = markdown_report.table(runs).splitlines()[-1].split(" | ")
    assert row[2] == "80.0 (not to be trusted)" and row[3] == "70.0"
    assert row[4].startswith("70.0 (an upper bound by query attacks alone")
    text = render_page(runs)
    table = text.partition('id="attacks"')[2].partition("</section>")[0]
    fgsm, pgd = table.partition("<tbody>")[2].split("<tr>")[2:4]
    assert "not to be trusted" in fgsm and "trusted" not in pgd
    sweep = text.partition('id="epsilon"')[2].partition("</section>")[0]
    assert "not to be trusted" in sweep


def test_of_attacks_in_turn_none_is_called_the_strongest(tmp_path):
    folder = make_workdir(tmp_path / "run", NAMES[0], independent=False)
    runs = evaluated_runs.read_runs([folder])
    sentence = wording.verdict(runs[0])
    assert "strongest" not in sentence
    assert "FGSM came first and fools 4 images" in sentence
    assert "left standing and fool 6 more" in sentence
    assert "The attacks ran in turn" in markdown_report.render(runs)
    alone = make_workdir(tmp_path / "alone", NAMES[0])
    runs = evaluated_runs.read_runs([alone])
    assert "The strongest attack is PGD-20" in wording.verdict(runs[0])
    assert "in turn" not in markdown_report.render(runs)


def test_the_page_describes_the_distributions_of_its_ball(tmp_path):
    texts = {}
    for norm in ("linf", "l2"):
        folder = make_workdir(tmp_path / norm, NAMES[0], norm=norm)
        texts[norm] = render_page(evaluated_runs.read_runs([folder]))
    assert "change of each pixel is ε tanh(u), where u" in texts["linf"]
    assert (
        "tanh" not in texts["l2"] and "keeps the direction of u" in texts["l2"]
    )

"""What comes from files stays text, on the page and in Markdown."""

import dataclasses
import html.parser

import markdown
import pytest

from adt_tf import evaluation
from adt_tf.evaluation import Report
from adt_tf.report import evaluated_runs, markdown_report
from tests.support.report_runs import (
    FINDINGS,
    NAMES,
    make_measured,
    make_workdir,
    render_page,
)

HOSTILE = (
    "<script>hit()</script>",
    "\"'><img src=x onerror=hit()>",
    "`</code><script>hit()</script>",
    "[a](javascript:hit()) ![b](http://x.invalid/b.png)",
    "*a* | b\n\n# c\n<!-- &lt;",
    "{{ 7 * 6 }}{% raw %}",
)


class _Elements(html.parser.HTMLParser):
    """Collects the names and the attributes of elements, and the text."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text += data


def elements_of(text):
    elements = _Elements()
    elements.feed(text)
    return elements


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return evaluated_runs.read_runs(
        [make_workdir(root / f"run{i}", n) for i, n in enumerate(NAMES)]
    )


@pytest.fixture
def hostile_runs(runs):
    """All that comes from files names something hostile."""

    name = " ".join(HOSTILE)

    def spoil(run):
        spoiled = Report.from_dict(run.report.to_dict())
        outcomes = {
            (f"{name} {key}" if key != evaluation.NATURAL else key): verdicts
            for key, verdicts in spoiled.outcomes.items()
        }
        attacks = {f"{name} {k}": name for k in spoiled.attacks}
        spoiled = dataclasses.replace(
            spoiled, outcomes=outcomes, attacks=attacks
        )
        finding = {"check": name, "evidence": name, "advice": name}
        return dataclasses.replace(
            run,
            name=f"{run.name} {name}",
            result=run.result
            | {"report": spoiled, "command": name, "dataset": name}
            | {"method": name, "network": name, "protocol": name}
            | {"commit": name},
            flags=(f"--epochs={name}", f"--epsilon={name}", f"--{name}"),
            lint=run.lint | {"findings": [FINDINGS[0] | finding]},
            provenance=[
                {"started": name, "git commit": name, "Python": name}
                | {"data": run.provenance[0]["data"] | {"sha256": name}}
            ],
        )

    return [spoil(run) for run in runs]


def test_hostile_names_stay_text_on_the_page(runs, hostile_runs):
    """The same elements as on a page with harmless names, and no more."""
    figures = make_measured()[2]
    hostile = [
        dataclasses.replace(
            f, title=HOSTILE[0], text=HOSTILE[1], alt=HOSTILE[2]
        )
        for f in figures
    ]
    expected = elements_of(render_page(runs))
    page = elements_of(
        render_page(hostile_runs, analyses=hostile, command=HOSTILE[2])
    )
    assert page.tags.count("script") == expected.tags.count("script") == 2
    assert page.tags.count("img") == expected.tags.count("img")
    assert set(page.tags) <= set(expected.tags)
    names = {name for name, _ in expected.attributes}
    assert {name for name, _ in page.attributes} <= names
    for name in HOSTILE:
        assert page.text.count(name) > 5, name


def test_hostile_names_stay_text_in_markdown(hostile_runs):
    """Python-Markdown, which lets HTML through, shows the names as text."""
    text = markdown_report.render(hostile_runs)
    assert text.count("<script") == text.count("<img") == 0
    rendered = elements_of(markdown.markdown(text, extensions=["tables"]))
    assert set(rendered.tags) == {
        *("h1", "p", "img", "table", "thead", "tbody", "tr", "th", "td"),
        *("ul", "li", "code"),
    }
    assert rendered.tags.count("img") == 2 and rendered.tags.count("h1") == 1
    assert rendered.tags.count("tr") == 3
    words = " ".join(rendered.text.split())
    for name in HOSTILE:
        # The heading, a column each, each run in the table and the list.
        assert words.count(" ".join(name.split())) >= 5, name

"""Spoiled files of a workdir: an error of one line names the file.

Every field of every file that a report reads is left out, and replaced by
values of other types, by numbers that are none and by huge ones. Either the
report is written all the same, or one line says which file and field it is.
"""

import copy
import dataclasses
import json
import re

import pytest

from adt_tf.report import evaluated_runs, markdown_report
from adt_tf.runs import provenance
from tests.support.report_runs import (
    NAMES,
    make_measured,
    make_workdir,
    render_page,
)

# What follows from the verdicts, and is not read.
UNREAD = ("accuracy", "intervals", "A_rob")
FILES = ("evaluation.json", "lint.json", "provenance.json")
MISSING = object()
VALUES = {
    "missing": MISSING,
    "null": None,
    "true": True,
    "zero": 0,
    "negative": -3,
    "fraction": 0.5,
    "NaN": float("nan"),
    "infinite": float("inf"),
    "huge integer": 10**400,
    "huge number": 1e300,
    "empty text": "",
    "text": "<b>x</b>",
    "huge text": "x" * 200_000,
    "lone surrogate": "\ud800",
    "empty list": [],
    "list": ["x", None],
    "empty object": {},
    "object": {"x": {"y": 1}},
}


def paths_of(value, path=()):
    """The path of every field, of lists the first element's only."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, inside in value.items():
            yield from paths_of(inside, (*path, name))
    elif isinstance(value, list) and value:
        yield from paths_of(value[0], (*path, 0))


def spoiled(document, path, value):
    """The document with another value at the path."""
    if not path:
        return value
    document = copy.deepcopy(document)
    parent = document
    for name in path[:-1]:
        parent = parent[name]
    if value is MISSING:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return document


@pytest.fixture(scope="module")
def images():
    """As little as a page can show."""
    images, _, _ = make_measured()
    first = {
        name: getattr(images, name)[:1, :1]
        for name in ("natural", "attacked", "predicted", "sigma")
    }
    return dataclasses.replace(
        images, clean=images.clean[:1], labels=images.labels[:1], **first
    )


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    folder = make_workdir(tmp_path / "run", NAMES[0])
    # Asks git otherwise, for every page.
    monkeypatch.setattr(provenance, "versions", dict)
    return folder


def refusal(workdir, images):
    """The message of a refused report; None where it is written."""
    try:
        runs = evaluated_runs.read_runs([workdir])
    except ValueError as error:
        return str(error)
    page = render_page(runs, images=images, sweep=None, analyses=None)
    assert page.encode().startswith(b"<!doctype html>")
    assert markdown_report.render(runs).encode()
    return None


def assert_named(message, path, field):
    """One line that begins with the file and names the field."""
    assert message.startswith(str(path)), message
    assert "\n" not in message and len(message) < 1000
    outermost = next((name for name in field if isinstance(name, str)), "")
    assert outermost in message, message


@pytest.mark.parametrize("name", FILES)
def test_every_field_of_a_json_file(workdir, images, name):
    path = workdir / name
    document = json.loads(path.read_text())
    refused = {}
    for field in [(), *paths_of(document)]:
        for kind, value in VALUES.items():
            if not field and value is MISSING:
                continue
            if field and field[0] in UNREAD and value is not MISSING:
                continue
            path.write_text(json.dumps(spoiled(document, field, value)))
            message = refusal(workdir, images)
            refused[field, kind] = message is not None
            if message is not None:
                assert_named(message, path, field)
    # A field that no value spoils is not read.
    read = {field for (field, _), is_refused in refused.items() if is_refused}
    assert NEEDED[name] <= {field[-1] for field in read if field}
    path.write_text(json.dumps(document))
    assert refusal(workdir, images) is None


NEEDED = {
    "evaluation.json": {
        *("dataset", "epsilon", "num_examples", "seed", "independent"),
        *("attacks", "outcomes", "seconds", "FGSM", "natural", "method"),
        *("command", "examples_sha256"),
    },
    "lint.json": {
        *("ok", "num_examples", "epsilon", "seed", "findings", "check"),
        *("status", "evidence", "advice"),
    },
    "provenance.json": {
        *("started", "data", "examples", "shape", "classes", "sha256"),
        *("git commit", "Python", "tensorflow", "keras"),
    },
}
CONTENTS = {
    "empty": b"",
    "half": b'{"outcomes": {"natural',
    "not UTF-8": b'{"seed": "\xff\xfe"}',
    "UTF-16": '{"seed": 1}'.encode("utf-16"),
    "a list in a list": b"[" * 100_000,
    "many digits": b'{"seed": ' + b"9" * 5000 + b"}",
    "zeros": bytes(100),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_json(workdir, images, name, content):
    path = workdir / name
    path.write_bytes(CONTENTS[content])
    message = refusal(workdir, images)
    assert_named(message, path, ())
    assert "is no" in message


HEAD = b"epoch,accuracy,entropy,loss,val_loss\n"
REFUSED_TABLES = {
    "not UTF-8": HEAD + b"0,\xff,1,1,1\n",
    "no epoch": b"loss\n1\n",
    "an epoch that is text": HEAD + b"x,1,1,1,1\n",
    "an epoch that is NaN": HEAD + b"nan,1,1,1,1\n",
    "an infinite epoch": HEAD + b"inf,1,1,1,1\n",
    "a huge field": HEAD + b"0," + b"x" * 200_000 + b",1,1,1\n",
    "a later epoch": HEAD + b"0,1,1,1,1\nNA,1,1,1,1\n",
}
TAKEN_TABLES = {
    "empty": b"",
    "no rows": HEAD,
    "text": HEAD + b"0,x,<b>,NA,\n",
    "not finite": HEAD + b"0,nan,inf,-inf,nan\n1,0.5,1,1,1\n",
    "huge numbers": HEAD + b"0,1e300,-1e308,1e308,1e999\n1,0.5,1,1,1\n",
    "the largest of 32 bits": HEAD + b"0,1,-3e38,3e38,1\n1,0.5,1,-3e38,1\n",
    "huge epochs": HEAD + b"-1e30,1,1,1,1\n1e30,1,1,1,1\n",
    "few and many columns": HEAD + b"0,1\n1,1,1,1,1,1,1\n",
    "a column twice": b"epoch,loss,loss\n0,1,2\n",
    "no epoch in order": HEAD + b"5,1,1,1,1\n2,1,1,1,1\n2,1,1,1,1\n",
}


@pytest.mark.parametrize("name", REFUSED_TABLES)
def test_metrics_that_are_refused(workdir, images, name):
    path = workdir / "metrics.csv"
    path.write_bytes(REFUSED_TABLES[name])
    assert_named(refusal(workdir, images), path, ())


@pytest.mark.parametrize("name", TAKEN_TABLES)
@pytest.mark.filterwarnings("error")
def test_metrics_that_are_drawn(workdir, images, name):
    """No place in a chart is NaN or infinite."""
    (workdir / "metrics.csv").write_bytes(TAKEN_TABLES[name])
    runs = evaluated_runs.read_runs([workdir])
    page = render_page(runs, images=images, sweep=None, analyses=None)
    charts = "".join(re.findall('<svg class="chart.*?</svg>', page, re.DOTALL))
    visible = re.sub('<title>.*?</title>|aria-label=".*?"', "", charts)
    assert not re.search(r"\b(nan|inf)\b", visible)


def test_flags_that_are_no_text(workdir, images):
    path = workdir / "flags.txt"
    path.write_bytes(b"--epochs=\xff\n")
    assert_named(refusal(workdir, images), path, ())

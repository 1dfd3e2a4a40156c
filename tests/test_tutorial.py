"""The tutorial: what it stores, and that it runs as it stands."""

import ast
import json
import pathlib
import re

import nbformat
import pytest

from tests.support import notebook

NOTEBOOK = pathlib.Path(__file__).parents[1] / "docs" / "tutorial.ipynb"


def stored():
    """The notebook as it lies in the repository, and its code cells."""
    contents = nbformat.read(NOTEBOOK, as_version=4)
    return contents, [c for c in contents.cells if c.cell_type == "code"]


def test_it_is_a_notebook_of_plain_python():
    contents, cells = stored()
    nbformat.validate(contents)
    assert (contents.nbformat, contents.nbformat_minor) == (4, 5)
    for cell in cells:
        ast.parse(cell.source)


def test_its_outputs_come_from_one_run_and_name_no_machine():
    _, cells = stored()
    assert [c.execution_count for c in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in o.get("data", {}) for o in outputs)
    kinds = {o.output_type for o in outputs}
    assert kinds == {"stream", "execute_result", "display_data"}
    assert {o.name for o in outputs if o.output_type == "stream"} == {"stdout"}
    texts = "".join(
        o.text if o.output_type == "stream" else o.data["text/plain"]
        for o in outputs
    )
    assert not re.search(r"(?<![\w.])/[a-z]+/", texts)
    assert "A_rob" in texts and "build/tutorial/report/index.html" in texts


@pytest.mark.slow
def test_it_runs_and_leaves_a_report_and_a_saved_model(tmp_path):
    notebook.execute(NOTEBOOK, tmp_path)
    folder = tmp_path / "build" / "tutorial"
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count("adt_exp</strong> is the most robust") == 1
    assert (folder / "saved_model" / "saved_model.pb").is_file()
    results = [
        json.loads((folder / name / "evaluation.json").read_text())["A_rob"]
        for name in ("standard", "robust")
    ]
    assert results[1] > results[0] + 0.2

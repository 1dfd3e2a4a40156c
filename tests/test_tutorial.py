"""The tutorial: what it stores, and that it runs as it stands."""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


def read():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = notebook["cells"]
    return notebook, [c for c in cells if c["cell_type"] == "code"]


def test_it_is_a_notebook_of_plain_python():
    notebook, cells = read()
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    for cell in cells:
        ast.parse("".join(cell["source"]))


def test_its_outputs_come_from_one_run_and_name_no_machine():
    _, cells = read()
    counts = [cell["execution_count"] for cell in cells]
    assert counts == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any("image/png" in o.get("data", {}) for o in outputs)
    kinds = {o["output_type"] for o in outputs}
    assert kinds == {"stream", "execute_result"}
    texts = "".join(
        "".join(o.get("text", []) or o["data"]["text/plain"]) for o in outputs
    )
    assert not re.search(r"(?<![\w.])/[a-z]+/", texts)
    assert "A_rob" in texts and "build/tutorial/report/index.html" in texts


@pytest.mark.slow
def test_it_runs_and_leaves_a_report_and_a_saved_model(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "notebook.py", NOTEBOOK, "--check"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "build" / "tutorial"
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count("adt_exp</strong> is the most robust") == 1
    assert (folder / "saved_model" / "saved_model.pb").is_file()
    results = [
        json.loads((folder / name / "evaluation.json").read_text())["A_rob"]
        for name in ("standard", "robust")
    ]
    assert results[1] > results[0] + 0.2

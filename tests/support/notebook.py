"""Runs a notebook of plain Python, and keeps what its cells print and show.

    python tests/support/notebook.py docs/tutorial.ipynb  # stores the outputs
    python tests/support/notebook.py docs/tutorial.ipynb --check  # runs it only

Cells run in order in one namespace, as in a fresh kernel: what goes to the
standard output is kept, and the value of a last expression. Magics, which
would need a kernel, are refused by Python's own grammar.
"""

import ast
import base64
import contextlib
import io
import json
import pathlib
import sys

from matplotlib.figure import Figure


def run(cells):
    """Runs the code cells in place, and fills in their outputs."""
    namespace = {"__name__": "__main__"}
    count = 0
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        count += 1
        tree = ast.parse("".join(cell["source"]), f"cell {count}")
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        printed, value = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"cell {count}", "exec"), namespace)
            if last is not None:
                value = eval(compile(last, f"cell {count}", "eval"), namespace)
        cell["execution_count"] = count
        cell["outputs"] = list(_outputs(printed.getvalue(), value, count))


def _outputs(printed, value, count):
    if printed:
        yield {
            "output_type": "stream",
            "name": "stdout",
            "text": printed.splitlines(keepends=True),
        }
    if value is not None:
        yield {
            "output_type": "execute_result",
            "execution_count": count,
            "metadata": {},
            "data": _shown(value),
        }


def _shown(value):
    shown = {"text/plain": repr(value).splitlines(keepends=True)}
    if isinstance(value, Figure):
        file = io.BytesIO()
        value.savefig(file, format="png", dpi=90, metadata={"Software": None})
        shown["image/png"] = base64.b64encode(file.getvalue()).decode()
    return shown


def main(path, *arguments):
    path = pathlib.Path(path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    run(notebook["cells"])
    if "--check" not in arguments:
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

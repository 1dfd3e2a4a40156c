"""Runs a notebook by nbclient, and stores what its cells print and show.

python -m tests.support.notebook docs/tutorial.ipynb  # make tutorial
"""

import os
import pathlib
import sys

import nbclient
import nbformat

ROOT = pathlib.Path(__file__).parents[2]


def execute(path, directory):
    """Returns the notebook as it is after a run in a fresh kernel.

    Messages on the standard error, which differ from machine to machine, are
    left out.

    Args:
        path: The notebook, which is not changed.
        directory: Where its cells run.

    Raises:
        nbclient.exceptions.CellExecutionError: If a cell raises.
    """
    notebook = nbformat.read(path, as_version=4)
    metadata = dict(notebook.metadata)
    client = nbclient.NotebookClient(
        notebook,
        timeout=None,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(directory)}},
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    notebook.metadata = metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                output
                for output in cell.outputs
                if output.get("name") != "stderr"
            ]
    return notebook


def main(path):
    nbformat.write(execute(path, ROOT), path)


if __name__ == "__main__":
    main(*sys.argv[1:])

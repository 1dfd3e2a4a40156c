"""Every public signature of the package is annotated in full.

`make lint` checks the annotations themselves with mypy, which takes a function
without any annotation for an untyped one and leaves it alone. Functions inside
functions and names with an underscore are nobody's interface.
"""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1] / "adt_tf"
MODULES = sorted(ROOT.rglob("*.py"))


def public_functions(body):
    """Yields the public functions and methods of a module or class."""
    for node in body:
        public = not getattr(node, "name", "_").startswith("_")
        if isinstance(node, ast.ClassDef) and public:
            yield from public_functions(node.body)
        elif isinstance(node, ast.FunctionDef) and (
            public or node.name in ("__init__", "__call__")
        ):
            yield node


def missing_annotations(function):
    """Names the arguments of a function that have no annotation."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    starred = [arguments.vararg, arguments.kwarg]
    missing = [
        argument.arg
        for argument in [*named, *filter(None, starred)]
        if argument.annotation is None and argument.arg not in ("self", "cls")
    ]
    if function.returns is None and function.name != "__init__":
        missing.append("return")
    return missing


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: str(path.relative_to(ROOT))
)
def test_public_signatures_are_annotated(path):
    tree = ast.parse(path.read_text())
    missing = {
        f"{path.name}:{function.lineno} {function.name}": names
        for function in public_functions(tree.body)
        if (names := missing_annotations(function))
    }
    assert not missing

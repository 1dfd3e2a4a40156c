"""The direction of imports: a module knows its own layer and those below it.

Deferred imports, inside functions, count as well.
"""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1] / "adt_tf"

#: From the ground up; docs/design.md says what each layer is for.
LAYERS = {
    "foundation": (
        "seeds",
        "checks",
        "configs",
        "files",
        "array_files",
        "json_files",
        "markdown",
        "precision",
        "replication",
        "keras_registry",
        "optimizers",
        "schedules",
        "kernels",
        "networks",
        "data",
    ),
    "core": (
        "threat_models",
        "distributions",
        "objectives",
        "gradients",
        "step_rules",
        "attacks",
        "losses",
        "training",
        "methods",
    ),
    "judgement": ("evaluation", "linting", "analysis", "callbacks"),
    "shipping": ("serving",),
    "runs": ("runs",),
    "faces": ("cli", "report", "reproduction"),
}
HEIGHT = {
    name: height
    for height, names in enumerate(LAYERS.values())
    for name in names
}
# Faces that nothing else may import.
LEAVES = ("report", "reproduction")


def modules():
    """All modules of the package, but for its public face."""
    return sorted(p for p in ROOT.rglob("*.py") if p.parent != ROOT) + sorted(
        p for p in ROOT.glob("*.py") if p.name != "__init__.py"
    )


def part_of(path):
    """The name under which a module or package stands in `LAYERS`."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imported_parts(path):
    """The names, as in `LAYERS`, of all that a module imports of adt_tf."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = [node.module]
            if node.module == "adt_tf":
                names = [f"adt_tf.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "adt_tf" and rest:
                parts.add(rest.split(".")[0])
    return parts


@pytest.mark.parametrize(
    "path", modules(), ids=lambda p: str(p.relative_to(ROOT))
)
def test_imports_point_down(path):
    own = part_of(path)
    for part in imported_parts(path) - {own}:
        # What is no module is a name of the public face: unknown there.
        assert part in HEIGHT, f"{path} imports adt_tf.{part}: no layer has it"
        assert HEIGHT[part] <= HEIGHT[own], f"{path} imports adt_tf.{part}"
        if part in LEAVES:
            assert own == "cli", f"{path} imports adt_tf.{part}, a leaf"


def test_every_module_has_a_layer():
    assert {part_of(path) for path in modules()} == set(HEIGHT)


def test_the_core_names_no_flag_file_or_path():
    for name in LAYERS["core"]:
        path = ROOT / f"{name}.py"
        sources = [path] if path.exists() else (ROOT / name).rglob("*.py")
        for source in sources:
            text = source.read_text()
            for word in ("absl", "pathlib", "import os", "open("):
                assert word not in text, f"{source} has {word!r}"


def test_an_import_that_points_up_is_seen(tmp_path):
    path = tmp_path / "seeds.py"
    path.write_text("def f():\n    from adt_tf import training\n")
    assert imported_parts(path) == {"training"}

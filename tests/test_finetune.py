"""docs/finetune.md: its lines run, from an empty directory to a SavedModel."""

import json
import re
import shlex
import sys

import pytest

from adt_tf.runs.config import Config
from tests.support import in_process

TEXT = (in_process.ROOT / "docs" / "finetune.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = [
    shlex.split(line)
    for line in re.search(r"```sh\n(.*?)```", TEXT, re.DOTALL)[1].splitlines()
]


def test_it_is_short():
    lines = [line for line in PYTHON[0].splitlines() if line.strip()]
    assert len(lines) + len(COMMANDS) <= 20 and len(COMMANDS) <= 10


def test_the_network_of_ones_own(tmp_path, monkeypatch):
    """The second block, as `mine.py` in the current directory."""
    from adt_tf.networks import own_functions

    (tmp_path / "mine.py").write_text(PYTHON[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    function = own_functions.find_function("mine:build")
    model = own_functions.build(
        function, input_shape=(96, 96, 3), num_classes=2
    )
    assert model.output_shape == (None, 2)


@pytest.mark.slow
def test_from_an_empty_directory_to_a_saved_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The weights of ImageNet cannot be had without a network.
    assert 'weights="imagenet"' in PYTHON[0]
    exec(PYTHON[0].replace('"imagenet"', "None"), {})
    for command, *arguments in COMMANDS:
        done = in_process.run(
            command.removeprefix("adt-"), *arguments, cwd=tmp_path
        )
        may_fail = command == "adt-lint"
        assert done.returncode == 0 or may_fail, (command, done.stderr)
    config = Config.from_workdir(tmp_path / "run")
    assert config.network == "keras:MobileNetV2"
    result = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert result["num_examples"] == 24 and "PGD-10" in result["outcomes"]
    assert json.loads((tmp_path / "run" / "lint.json").read_text())["findings"]
    assert list((tmp_path / "run").rglob("saved_model.pb"))

"""Exports of a workdir's classifier, also by several processes at once."""

import os
import shutil

import pytest

from adt_tf import data
from adt_tf.runs import export_job
from adt_tf.serving import saved_model
from tests.support.models import make_convolutional

TEST = data.load("digits", split="test")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A SavedModel."""
    path = tmp_path_factory.mktemp("runs") / "saved_model"
    export_job.export(make_convolutional(), TEST, path)
    return path


@pytest.mark.parametrize("moment", ["before", "while it is renamed"])
def test_another_process_is_faster(
    moment, exported, tmp_path, monkeypatch, capsys
):
    target = tmp_path / "model"

    def copy():
        if not target.exists():
            shutil.copytree(exported, target)

    def export(*arguments):
        copy()
        return original(*arguments)

    def replace(source, path):
        copy()
        return original(source, path)

    if moment == "before":
        original = saved_model.export
        monkeypatch.setattr(saved_model, "export", export)
    else:
        original = os.replace
        monkeypatch.setattr("os.replace", replace)
    export_job.export(make_convolutional(), TEST, target)
    out = capsys.readouterr().out
    assert "is there already; it is checked" in out
    assert "largest logit error" in out
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_export_of_another_classifier_is_refused(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "saved_model")
    with pytest.raises(ValueError, match="serves other results"):
        export_job.export(make_convolutional(1), TEST, tmp_path / "saved_model")

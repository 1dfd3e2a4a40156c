"""Exports of a workdir's classifier, also by several processes at once."""

import os
import shutil

import pytest

from adt_tf.runs import export_job
from adt_tf.runs.config import Config
from adt_tf.serving import saved_model
from tests.support.models import make_convolutional

CONFIG = Config(dataset="digits")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A finished run with its SavedModel."""
    path = tmp_path_factory.mktemp("runs") / "run"
    path.mkdir()
    make_convolutional().save(path / "classifier.keras")
    export_job.export(path, CONFIG)
    return path


@pytest.mark.parametrize("moment", ["before", "while it is renamed"])
def test_another_process_is_faster(
    moment, exported, tmp_path, monkeypatch, capsys
):
    target = tmp_path / "model"

    def copy():
        if not target.exists():
            shutil.copytree(exported / "saved_model", target)

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
    export_job.export(exported, CONFIG, output=target)
    out = capsys.readouterr().out
    assert "is there already; it is checked" in out
    assert "largest logit error" in out
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_export_of_another_classifier_is_refused(exported, tmp_path):
    (tmp_path / "run").mkdir()
    shutil.copytree(exported / "saved_model", tmp_path / "run" / "saved_model")
    make_convolutional(1).save(tmp_path / "run" / "classifier.keras")
    with pytest.raises(ValueError, match="serves other results"):
        export_job.export(tmp_path / "run", CONFIG)

"""Table 1 with models that others released, here of random weights."""

import dataclasses
import json

import numpy as np
import pytest

import adt_tf
from adt_tf import attacks, files, reproduction
from adt_tf.reproduction import released, scales
from tests.support import in_process, reference_weights

# The paper's attacks and AutoAttack, as small as they can be.
ATTACKS = {"fgsm": "fgsm", "pgd-20": "pgd-2"}
WEIGHTS = reference_weights.state_dict(
    "wrn-16-1-no-bias", conv1_weight=(16, 1, 3, 3), fc_weight=(10, 64)
)


@pytest.fixture
def folder(tmp_path):
    """Two of the files, in the layout of the authors' Wide ResNets."""
    folder = tmp_path / "files"
    folder.mkdir()
    np.savez(folder / "at_pgd_plus.npz", **WEIGHTS)
    np.savez(folder / "adt_exp.npz", **WEIGHTS)
    return folder


@pytest.fixture
def study(folder, tmp_path, monkeypatch):
    original = released.protocols.attacks_of
    monkeypatch.setattr(
        released.protocols,
        "attacks_of",
        lambda name: ["apgd-ce-2"] if name == "autoattack" else original(name),
    )
    scale = scales.get("tiny")
    protocol = scales.Protocol(ATTACKS, test_examples=100)
    return reproduction.Study(
        dataclasses.replace(
            scale, protocols={**scale.protocols, "paper": protocol}
        ),
        tmp_path / "out",
        rows=(),
        released=folder,
    )


@pytest.mark.slow
def test_the_rows_are_filled(study, folder, capsys):
    reproduction.reproduce(["table1"], study)
    values = json.loads((study.output / "table1.json").read_text())
    test = study.test_data("at_pgd", 0, 100)
    classifier = adt_tf.load_classifier(
        folder / "adt_exp.npz", input_shape=(8, 8, 1)
    )
    expected = adt_tf.evaluate(
        classifier,
        test,
        [attacks.fgsm(0.15), attacks.pgd(0.15, num_steps=2)],
        independent=True,
        verbose=False,
    )
    assert set(values["released"]) == {"AT-PGD+", "ADT-EXP"}
    # Both have the same weights, and only one stands for a row of the table.
    assert set(values["accuracy"]) == {"AT-PGD+"}
    for row in values["released"].values():
        assert row["FGSM"]["value"] == pytest.approx(
            100 * expected.accuracy["FGSM"]
        )
        assert row["A_nat"]["value"] == pytest.approx(
            100 * expected.accuracy["natural"]
        )
        assert row["AutoAttack"]["value"] <= row["A_nat"]["value"]
    text = (study.output / "table1.md").read_text()
    sha = files.sha256(folder / "adt_exp.npz")
    assert f"- ADT-EXP: adt_exp.npz, SHA-256 {sha}" in text
    assert "--rows=released" in text
    assert not (study.output / "runs").exists()
    capsys.readouterr()
    reproduction.reproduce(["table1"], study)
    assert capsys.readouterr().out.count("there already") == 4
    # Another file is measured anew.
    np.savez(folder / "adt_exp.npz", **{**WEIGHTS, "more": np.zeros(1)})
    plan = reproduction.describe(["table1"], study, measure=False)
    assert plan.count("to do attack  adt_exp.npz by") == 2
    assert plan.count("done  attack  at_pgd_plus.npz by") == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--released=none"], "--released must be a directory with one"),
        (
            ["--released={f}", "--target=table3"],
            "--released needs --target=table1",
        ),
        (["--released={f}", "--rows=other"], "--rows must be some of"),
        (["--rows=released"], "--rows must be some of"),
    ],
)
def test_flags_that_do_not_go_together(flags, message, folder, tmp_path):
    done = in_process.run(
        "reproduce",
        "--target=table1",
        f"--output={tmp_path}/out",
        *(flag.format(f=folder) for flag in flags),
    )
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert message in done.stderr.splitlines()[-1]


def test_two_files_of_one_row(folder):
    (folder / "adt_exp.pt").write_bytes(b"")
    with pytest.raises(ValueError, match="one file for ADT-EXP. .*adt_exp.pt"):
        released.find(folder)


def test_other_weights_of_a_saved_model_are_seen(tmp_path):
    """Its graph is the same file."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        (folder / "variables").mkdir(parents=True)
        (folder / "saved_model.pb").write_text("graph")
        (folder / "variables" / "variables.index").write_text(folder.name)
    assert released.fingerprint(folders[0]) != released.fingerprint(folders[1])

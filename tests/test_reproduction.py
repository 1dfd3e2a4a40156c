"""Targets, scales and plans: all that is data fits together."""

import dataclasses
import json
import math
import pathlib
import re

import numpy as np
import pytest
from scipy import stats

from adt_tf import attacks, evaluation, methods, reproduction
from adt_tf.reproduction import (
    attack_runs,
    claims,
    costs,
    measurements,
    paired_differences,
    paper_numbers,
    plan,
    registry,
    scales,
)
from adt_tf.reproduction.catalogue import TARGETS
from adt_tf.reproduction.claims import of_figures
from adt_tf.reproduction.claims.answers import NO, UNCLEAR, YES
from adt_tf.reproduction.figures import diversity
from adt_tf.reproduction.tables import accuracies, matrix
from adt_tf.runs.workdir import Workdir

ROOT = pathlib.Path(__file__).parents[1]
TABLES = [name for name, target in TARGETS.items() if target.protocol]
TABLES = [name for name in TABLES if name.startswith("table")]
FIGURES = [name for name in TARGETS if name.startswith("figure")]


@pytest.fixture
def make_study(tmp_path):
    def make(scale="tiny", **arguments):
        return reproduction.Study(
            scales.get(scale), tmp_path / "out", **arguments
        )

    return make


def test_every_table_and_figure_is_a_target():
    expected = [f"table{n}" for n in range(1, 12)]
    expected += [f"figure{n}" for n in (1, 2, 4, 5, 6, 7)]
    beyond = {"autoattack", "recipe", "generalisation"}
    beyond |= {"overfitting", "probabilistic"}
    assert set(TARGETS) == {*expected, *beyond, "claims"}
    assert reproduction.choose(["all"]) == list(TARGETS)
    assert list(TARGETS)[-1] == "claims"
    with pytest.raises(ValueError, match="drawing"):
        reproduction.choose(["table1", "figure3"])
    with pytest.raises(ValueError, match="--target must be some of table1"):
        reproduction.choose(["table12"])


@pytest.mark.parametrize("name", TABLES)
def test_rows_and_columns_are_the_papers(name):
    theirs, target = paper_numbers.rows(name), TARGETS[name]
    assert set(target.rows) == set(theirs)
    runs = [run for run in target.rows.values() if run]
    assert set(runs) <= set(registry.RUNS)
    assert set(target.baselines) | set(target.baselines.values()) <= set(theirs)
    protocol = scales.get("paper").protocols[target.protocol]
    for row in theirs.values():
        for column in set(row) - {"A_nat", "A_rob"}:
            assert accuracies.COLUMNS[column] in protocol.attacks


@pytest.mark.parametrize("scale", scales.SCALES)
def test_every_run_has_its_flags_at_every_scale(scale, make_study):
    study = make_study(scale)
    for name in registry.RUNS:
        config = study.config(name, 0)
        arguments_of_method = methods.arguments(config.method)
        for argument in ("beta", "num_steps", "width_factor"):
            value = getattr(config, argument)
            assert value is None or argument in arguments_of_method
        assert (
            name.replace("trades-trades", "trades").find(config.method) >= 0
        ), (name, config.method)
        if "beta" in name:
            assert f"beta{config.beta:g}" in name
        if "lambda" in name:
            assert f"lambda{config.entropy_weight:g}" in name
        if name.startswith("rice"):
            assert config.keep_best and config.validation_examples
            assert (config.weight_decay, config.batch_size) == (5e-4, 128)
        has_own_epochs = registry.RUNS[name].schedule is not None
        is_overfitting = name.startswith("overfitting")
        size = {
            "paper": (
                None,
                name.startswith(("trades", "rice", "modern-trades"))
                and "wrn-34-10"
                or "wrn-28-10",
            ),
            "small": (None, "wrn-10-1"),
            "mini": (5000, "wrn-10-1"),
            "tiny": (512, "small_cnn"),
        }[scale]
        if is_overfitting and scale != "tiny":
            size = 10_000, size[1]
        assert (config.train_examples, config.network) == size
        if is_overfitting:
            method = name.removeprefix("overfitting-")
            assert config.epochs == 3 * study.config(method, 0).epochs
        if scale == "mini" and not has_own_epochs:
            assert config.epochs == 8
        if scale == "small":
            assert has_own_epochs or config.epochs == 14
            assert config.batch_size == 128
            assert config.schedule == "one_cycle"
        if name.startswith("modern"):
            assert config.awp_size and config.ema_momentum and config.keep_best
            assert config.activation == "silu" and config.label_smoothing
        if scale != "tiny" and "-" in name and name.startswith("svhn"):
            assert config.dataset == "svhn_cropped"
            assert config.epsilon == pytest.approx(4 / 255)


def test_protocols_are_those_of_the_flagfiles():
    for name, protocol in scales.get("paper").protocols.items():
        text = (ROOT / "flags" / "protocols" / f"{name}.flags").read_text()
        (line,) = re.findall(r"(?m)^--attacks=(.*)$", text)
        assert list(protocol.attacks) == line.split(",")
        assert all(a == b for a, b in protocol.attacks.items())
        assert ("--independent" in text) == protocol.independent
        for smaller in ("small", "mini", "tiny"):
            attacks_there = scales.get(smaller).protocols[name].attacks
            assert set(attacks_there) <= set(protocol.attacks)


@pytest.mark.parametrize("scale", scales.SCALES)
def test_plan_of_everything(scale, make_study):
    study = make_study(scale)
    text = reproduction.describe(list(TARGETS), study, measure=False)
    for run in registry.RUNS:
        assert f"train   {run} " in text
    # Each run is planned once, and shared afterwards.
    assert text.count("to do train   at_pgd ") == 1
    assert text.count("        train   at_pgd ") >= 4
    assert "unknown" in text and not study.output.exists()


def test_plan_multiplies_measured_costs(make_study):
    study = make_study("mini")
    config = study.config("at_pgd", 0)
    study.output.mkdir()
    gradients = {"wrn-10-1": {"seconds": 0.001, "source": "here"}}
    text = json.dumps({"gradients": gradients})
    (study.output / "costs.json").write_text(text)
    costs.Book(study.output).note_step(config, 0.5, "here")
    text = reproduction.describe(["table1"], study, measure=False)
    # 8 epochs of 78 steps; 1000 images under 1+20+100+20+30+500 gradients.
    assert "5.2 min  624 steps of 0.5 s, here" in text
    assert "7.0 min  at most 1000 x 421 gradients of 0.001 s" in text


def test_gradients_are_those_of_the_attacks():
    context = {"targets": (np.zeros([4, 8, 8, 1]), [0, 1, 2, 3])}
    for name in (
        "fgsm",
        "pgd-20",
        "pgd-last-100",
        "mim-20",
        "mim-random-20",
        "cw-30",
        "exp",
        "fea",
        "fea-pooled-7",
    ):
        attack = attacks.get(name, 0.1, **context)
        inner = getattr(attack, "attack", attack)
        expected = inner.num_steps * inner.num_samples * attack.num_parts
        assert costs.gradients_of(name) == expected


def test_timed_generators_keep_the_papers_proportion():
    from adt_tf import networks
    from benchmarks import measuring

    for network, shape, scale in (
        ("wrn-16-4", (32, 32, 3), "mini"),
        ("small_cnn", (8, 8, 1), "tiny"),
    ):
        width = scales.get(scale).timing["width_factor"]
        generator = networks.explicit_generator(shape, width_factor=width)
        classifier = networks.get(network, input_shape=shape)
        ratio = measuring.multiplications(
            generator
        ) / measuring.multiplications(classifier)
        assert 1.8 < ratio < 2.3


@pytest.mark.parametrize(
    "scale, network, shape, width",
    [
        ("paper", "wrn-28-10", (32, 32, 3), 1.0),
        ("small", "wrn-10-1", (32, 32, 3), 0.0625),
        ("mini", "wrn-10-1", (32, 32, 3), 0.0625),
        ("tiny", "small_cnn", (8, 8, 1), 0.125),
    ],
)
def test_trainings_that_are_compared_cost_the_same(
    scale, network, shape, width, make_study
):
    """The multiplications of all passes of a training, from the networks."""
    from adt_tf import networks
    from benchmarks.measuring import multiplications

    study = make_study(scale)
    classifier, explicit, implicit, posterior = map(
        multiplications,
        (
            networks.get(network, input_shape=shape),
            networks.explicit_generator(shape, width_factor=width),
            networks.implicit_generator(shape, width_factor=width),
            networks.posterior(shape, width_factor=width),
        ),
    )
    cost = {
        "FGSM-RS": 5 * classifier,
        "PGD": 17 * classifier,
        "EXP-AM": 7 * classifier + 3 * explicit,
        "IMP-AM": 7 * classifier + 3 * implicit + 3 * posterior,
    }
    total = cost["PGD"] * study.config("at_pgd", 0).epochs
    for label, run in registry.EQUAL_COST.items():
        config = study.config(run, 0)
        assert (config.network, config.width_factor or width) == (
            network,
            width,
        )
        # A whole number of epochs cannot be nearer.
        assert abs(cost[label] * config.epochs - total) <= cost[label] / 2


def test_parts_of_the_recipe_are_the_recipes():
    lines = (ROOT / "flags/recipes/modern.flags").read_text().splitlines()
    for flags in registry.RECIPE_PARTS.values():
        assert set(flags) <= set(lines)


def test_figure1_is_about_the_distribution_of_training(make_study, monkeypatch):
    """T = 7 and k = 5, not the attack's 20 and 10; said, and kept apart."""
    study, rows = make_study(), TARGETS["figure1"].rows
    figure = TARGETS["figure1"].figure
    drawn = []
    monkeypatch.setattr(
        figure.diversity, "samples", lambda attack, name: drawn.append(attack)
    )
    monkeypatch.setattr(study.__class__, "classifier", lambda *_: None)

    def measured(*_, **__):
        return figure.diversity.Diversity(
            (figure.PGD, figure.SAMPLES, figure.SUMMED, figure.GAUSSIAN),
            np.ones([4, 20]),
            np.ones([3, 4, 20, 2]),
            np.ones([3]),
            np.ones([4, 20]),
            np.ones([20], bool),
            0,
        )

    monkeypatch.setattr(figure.diversity, "measure_diversity", measured)
    (measurement,) = figure.measurements(study, rows)
    fields = measurement.measure()
    epsilon = study.threat_model("standard")
    for attack, name, reduction, entropy in zip(
        drawn,
        (figure.SAMPLES, figure.SUMMED, figure.GAUSSIAN),
        ("mean", "sum", "sum"),
        ("perturbation", "perturbation", "gaussian"),
        strict=True,
    ):
        expected = methods.adt_exp(
            epsilon, entropy_reduction=reduction, entropy=entropy
        ).attack
        assert repr(attack) == repr(expected) == measurement.settings[name]
        assert (attack.num_steps, attack.num_samples) == (7, 5)
        assert attack.entropy_weight == 0.01
        assert attack.family.entropy_reduction.name == reduction
    arrays = {"figure1": {k: np.asarray(v) for k, v in fields.items()}}
    lines, _ = figure.draw(study, rows, arrays)
    assert "T = 7 steps, k = 5 samples a step, lambda = 0.01" in lines[-1]


def fake_evaluation(study, run, seed, protocol, shares):
    """Writes verdicts with these accuracies, the first images standing."""
    count = 1000
    outcomes = {
        name: (np.arange(count) < np.round(share * count)).astype(np.int8)
        for name, share in shares.items()
    }
    report = evaluation.Report(
        outcomes,
        {name: name for name in shares if name != "natural"},
        seed,
        study.scale.protocols[protocol].independent,
        {},
    )
    path = attack_runs.path(study, run, seed, protocol)
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {
        "command": attack_runs.command(study, run, seed, protocol),
        **attack_runs.settings_of(study, run, seed, protocol),
        **report.to_dict(),
    }
    path.write_text(json.dumps(values))


def fake_table6(study, lead, labels=("AT-PGD", *registry.OURS)):
    for label in labels:
        run = TARGETS["table6"].rows[label]
        for seed in study.seeds:
            better = lead if label == "ADT-EXP" else 0
            fake_evaluation(
                study,
                run,
                seed,
                "rice",
                {
                    "natural": 0.8 + 0.01 * seed,
                    "PGD-10": 0.5 + better,
                    "PGD-20": 0.45 + better,
                    "PGD-100": 0.4 + better,
                },
            )


def test_table_shows_ours_and_theirs(make_study):
    study = make_study("mini")
    fake_table6(study, 0.05)
    accuracies.write(study, "table6", TARGETS["table6"])
    text = (study.output / "table6.md").read_text()
    assert text.startswith("# Table 6: ")
    low, high = evaluation.wilson_interval(450, 1000)
    half = 50 * (high - low)
    assert "| model | A_nat | PGD-10 | PGD-20 | PGD-100 |" in text
    row = re.search(r"\| ADT-EXP \| (.*) \|\n\| \*paper\* \| (.*) \|", text)
    assert row[1].split(" | ")[3] == f"45.0 ± {half:.1f}"
    assert row[2] == "*86.49* | *56.84* | *55.43* | *55.01*"
    # 50 images that only ADT-EXP withstands: a difference of 5 points.
    assert re.search(r"\| ADT-EXP - AT-PGD \| 0 \| \+5.0 \| \+3\.\d to", text)
    assert "| ADT-EXP-AM - AT-PGD | 0 | +0.0 | +0.0 to +0.0 | 1 |" in text
    values = json.loads((study.output / "table6.json").read_text())
    assert values["compared"][0]["p_value"] == pytest.approx(2 * 0.5**50)
    assert values["accuracy"]["AT-PGD"][0]["PGD-20"]["value"] == 45.0


def fake_generalisation(study, leads):
    """Evaluates all rows, some standing more often under every attack."""
    for label, run in TARGETS["generalisation"].rows.items():
        for seed in study.seeds:
            share = 0.4 + leads.get(label, 0) + 0.01 * seed
            for protocol, names in {
                "generalisation": ("FGSM", "PGD", "EXP", "IMP", "CW", "SQ"),
                "spsa": ("SPSA-256",),
                "autoattack": ("APGD-CE", "APGD-T", "FAB-T", "Square"),
            }.items():
                shares = {"natural": 0.8, **dict.fromkeys(names, share)}
                fake_evaluation(study, run, seed, protocol, shares)


@pytest.mark.parametrize(
    "seeds, cell, gap, over",
    [
        ((0,), r"40\.0 ± 3\.\d", r"\+5\.0 \[\+3\.\d, \+6\.\d\]", "the images"),
        ((0, 1, 2), r"41\.0 ± 1\.0", r"\+5\.0 \[\+5\.0, \+5\.0\]", "3 seeds"),
    ],
)
def test_generalisation_is_a_matrix(seeds, cell, gap, over, make_study):
    study = make_study("mini", seeds=seeds)
    fake_generalisation(study, {"EXP-AM": 0.05})
    matrix.write(study, "generalisation", TARGETS["generalisation"])
    path = study.file("generalisation.md")
    text = path.read_text()
    assert path.with_suffix(".png").is_file()
    (row,) = re.findall(r"(?m)^\| PGD \| (80.*) \|$", text)
    cells = row.split(" | ")
    assert len(cells) == 9 and cells[2].startswith("**")
    assert all(re.fullmatch(rf"\**{cell}\**", one) for one in cells[1:])
    (row,) = re.findall(r"(?m)^\| EXP-AM - PGD \| (.*) \|$", text)
    cells = row.split(" | ")
    assert cells[0] == "+0.0 [+0.0, +0.0]"
    assert all(re.fullmatch(gap, one) for one in cells[1:])
    assert over in text and "| FGSM-RS | 27 | 2106 | unknown |" in text
    assert "spsa-256 on the first 200 test images" in text


def test_generalisation_shows_the_rows_that_are_there(make_study):
    study = make_study("mini", rows=("at_pgd",))
    fake_generalisation(study, {})
    attack_runs.path(study, "equal_cost-fgsm_rs", 0, "spsa").unlink()
    matrix.write(study, "generalisation", TARGETS["generalisation"])
    text = (study.output / "generalisation.md").read_text()
    assert "| PGD |" in text and "| FGSM-RS |" not in text
    assert "--rows=at_pgd,equal_cost-adt_exp_am,equal_cost-adt_imp_am" in text


def test_overfitting_is_the_fall_after_the_best_epoch(make_study):
    """The best of three epochs is the second; it falls by 10 of 50 images."""
    study = make_study(flags=("--epochs=3",))
    target = TARGETS["overfitting"]
    right = np.arange(50) < np.array([[20], [30], [20]])
    arrays = {
        f"{run}-epoch{epoch + 1}": {
            "train_natural": right[1],
            "train_robust": np.arange(50) < 20 + 10 * epoch,
            "test_natural": right[1],
            "test_robust": right[epoch],
        }
        for run in target.rows.values()
        for epoch in range(3)
    }
    study.output.mkdir()
    lines, values = target.figure.draw(study, target.rows, arrays)
    assert lines[2].startswith("| AT-PGD | 2 | 60.0 | 40.0 | +20.0 [+8.")
    assert lines[2].endswith("| 60.0 | 80.0 | 60.0 |")
    assert values["accuracy"]["ADT-EXP-AM"]["test_robust"] == [0.4, 0.6, 0.4]
    assert (study.output / "overfitting.png").is_file()
    names = [m.name for m in target.figure.measurements(study, target.rows)]
    assert names == list(arrays)


def test_probabilistic_curves_are_compared_image_by_image(
    make_study, monkeypatch
):
    study, target = make_study(), TARGETS["probabilistic"]
    count = 100

    def report(_, run, seed):
        fails = 40 if run == "adt_exp" else 50
        failures = np.where(np.arange(count) < fails, 64, 0)
        outcomes = {"natural": np.ones(count, np.int8)}
        outcomes["uniform"] = (failures == 0).astype(np.int8)
        outcomes["PGD-20"] = np.zeros(count, np.int8)
        names = {"uniform": "", "PGD-20": ""}
        seconds = {"uniform": 3.0, "PGD-20": 4.0}
        return evaluation.ProbabilisticReport(
            evaluation.Report(outcomes, names, 0, True, seconds),
            {"uniform": failures},
            {"uniform": np.full(count, 128)},
            max_samples=128,
        )

    monkeypatch.setattr(attack_runs, "probabilistic_report", report)
    study.output.mkdir()
    lines, values = target.figure.draw(study, target.rows, {})
    text = "\n".join(lines)
    assert re.search(r"\| AT-PGD, uniform \| 50.0 \[.* \| 3 \|", text)
    assert "| AT-PGD, PR(0) with PGD-20 | 0.0 [0.0, 3.7] |  |  |  | 4 |" in text
    assert re.search(r"\| ADT-EXP - AT-PGD, uniform \| \+10.0 \[\+4", text)
    assert "| ADT-EXP-AM - AT-PGD, uniform | +0.0 [+0.0, +0.0] |" in text
    assert "?50.0" in text and "--max_samples=128" in text
    assert values["robust_accuracy"]["Standard"] == 0.0
    assert (study.output / "probabilistic.png").is_file()


def test_trades_is_attacked_with_the_epsilon_of_table_10(make_study):
    """At the paper's scale it is trained with 0.031 and attacked with 8/255."""
    study = make_study("paper")
    run = "trades-adt_exp-beta6"
    assert study.config(run, 0).epsilon == 0.031
    words = attack_runs.command(study, run, 0, "paper").split()
    assert f"--epsilon={8 / 255!r}" in words
    for scale, name in (("paper", "adt_exp"), ("mini", run)):
        text = attack_runs.command(make_study(scale), name, 0, "paper")
        assert "--epsilon" not in text
        epsilon = make_study(scale).config(name, 0).epsilon
        assert epsilon == pytest.approx(8 / 255, rel=1e-6)


def test_table_of_seeds_and_rows(make_study):
    study = make_study(
        "mini", seeds=(0, 1, 2), rows=("rice-at_pgd", "rice-adt_exp")
    )
    fake_table6(study, 0.0, ("AT-PGD", "ADT-EXP"))
    accuracies.write(study, "table6", TARGETS["table6"])
    text = (study.output / "table6-seeds0_1_2.md").read_text()
    assert "| AT-PGD | 81.0 ± 1.0 | 50.0 ± 0.0 |" in text
    # What is missing has the paper's numbers alone.
    assert "| ADT-EXP-AM | - | - | - | - |\n| *paper* | *8" in text
    assert "ADT-EXP-AM - AT-PGD" not in text
    assert "| ADT-EXP - AT-PGD | all | +0.0 | +0.0 to +0.0 | 1 |" in text
    assert "rice-adt_exp_am" not in text
    assert "rice-at_pgd-seed2" in text
    assert "--seeds=0,1,2" in text
    assert "--rows=rice-at_pgd,rice-adt_exp`" in text


def test_seeds_are_compared_by_student(make_study):
    """Differences of 4, 5 and 6 points: t = 5 sqrt(3) on 2 degrees."""
    study = make_study(
        "mini", seeds=(0, 1, 2), rows=("rice-at_pgd", "rice-adt_exp")
    )
    for seed, lead in enumerate((0.04, 0.05, 0.06)):
        for run, more in (("rice-at_pgd", 0.0), ("rice-adt_exp", lead)):
            names = ("natural", "PGD-10", "PGD-20", "PGD-100")
            shares = dict.fromkeys(names, 0.5 + more)
            fake_evaluation(study, run, seed, "rice", shares)
    accuracies.write(study, "table6", TARGETS["table6"])
    text = (study.output / "table6-seeds0_1_2.md").read_text()
    half = 4.30265 / math.sqrt(3)  # of Student's table
    t = 5 * math.sqrt(3)
    p = 1 - t / math.sqrt(2 + t * t)  # closed form for 2 degrees of freedom
    assert (
        f"| ADT-EXP - AT-PGD | all | +5.0 | +{5 - half:.1f} to +{5 + half:.1f} "
        f"| {p:.2g} |"
    ) in text


def test_table_keeps_rows_that_are_not_asked_for_again(make_study):
    study = make_study("mini")
    fake_table6(study, 0.05)
    accuracies.write(study, "table6", TARGETS["table6"])
    before = (study.output / "table6.md").read_text()
    some = make_study("mini", rows=("rice-at_pgd",))
    accuracies.write(some, "table6", TARGETS["table6"])
    assert (study.output / "table6.md").read_text() == before
    assert "--rows" not in before


def test_table_names_what_its_paired_share_stands_under(make_study):
    """Table 2 shows some of the attacks that A_rob is over."""
    study = make_study("mini")
    names = ("FGSM", "PGD-20", "PGD-100", "MIM", "C&W-30", "FeaAttack")
    shares = {"natural": 0.9} | dict.fromkeys(names, 0.5)
    for run in TARGETS["table2"].rows.values():
        fake_evaluation(study, run, 0, "paper", shares)
    accuracies.write(study, "table2", TARGETS["table2"])
    text = (study.output / "table2.md").read_text()
    assert (
        "withstand all of fgsm, pgd-20, pgd-100, mim-random-20, cw-30, fea-5,"
        in text
    )


def test_table_says_what_is_weaker(make_study):
    study = make_study("mini")
    for run in TARGETS["table3"].rows.values():
        fake_evaluation(
            study, run, 0, "spsa", {"natural": 0.9, "SPSA-256": 0.5}
        )
    accuracies.write(study, "table3", TARGETS["table3"])
    text = (study.output / "table3.md").read_text()
    assert "the first 200 test images" in text
    assert re.search(r"\| AT-PGD \| 50.0 ± 3.1 \| - \| - \| - \|", text)
    accuracies.write(make_study("tiny"), "table1", TARGETS["table1"])
    text = (study.output / "table1.md").read_text()
    assert "| C&W | FeaAttack (here fea-2) | A_rob |" in text


def test_evaluation_is_reused_only_if_it_is_the_same(make_study):
    study = make_study("mini")
    fake_evaluation(study, "at_pgd", 0, "spsa", {"natural": 0.9, "SPSA": 0.5})
    assert attack_runs.is_evaluated(study, "at_pgd", 0, "spsa")
    # The same workdir at another scale, or with another classifier.
    assert not attack_runs.is_evaluated(make_study("tiny"), "at_pgd", 0, "spsa")
    (study.workdir("at_pgd", 0) / "classifier.keras").write_text("another")
    assert not attack_runs.is_evaluated(study, "at_pgd", 0, "spsa")


def test_evaluation_is_known_by_its_settings_not_by_its_command(make_study):
    study = make_study("mini")
    shares = {"natural": 0.9, "PGD-20": 0.5}
    fake_evaluation(study, "at_pgd", 0, "distributional", shares)
    path = attack_runs.path(study, "at_pgd", 0, "distributional")
    values = json.loads(path.read_text())

    def is_current(**changes):
        path.write_text(json.dumps(values | changes))
        return attack_runs.is_evaluated(study, "at_pgd", 0, "distributional")

    words = values["command"].split()
    assert is_current(command=" ".join([*words[:2], *reversed(words[2:])]))
    assert is_current(command="", commit="another", data_dir="elsewhere")
    for name, value in {
        "attack_names": ["pgd-20", "exp", "exp-am"],
        "attack_epochs": 5,
        "attack_width_factor": 0.5,
        "train_examples": None,
        "test_examples": None,
        "independent": False,
        "source": "build/another",
        "dataset": "svhn_cropped",
        "epsilon": 0.03,
        "seed": 1,
    }.items():
        assert values[name] != value
        assert not is_current(**{name: value}), name
    # What was study before settings were kept is study again.
    del values["attack_names"]
    assert not is_current()


def test_paired_difference_is_students():
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 30))
    gap = paired_differences.difference(a, b)
    interval = stats.ttest_rel(a, b).confidence_interval(0.95)
    np.testing.assert_allclose(gap[1:], [interval.low, interval.high])
    with pytest.raises(ValueError, match="two or more pairs"):
        paired_differences.difference([1.0], [2.0])


def _climb(share):
    """The start, middle and end of 100 images, `share` done in the middle."""
    start, end = 1 + 0.1 * NOISE, 2 + 0.1 * NOISE[::-1]
    middle = 1 + share + 0.1 * np.roll(NOISE, 1)
    return np.stack([start, middle, end], axis=-1).tolist()


NOISE = np.random.default_rng(0).normal(size=100)
FIVE = ["Standard", "AT-PGD", "ADT-EXP", "ADT-EXP-AM", "ADT-IMP-AM"]
CASES = {
    "figure1": lambda effect: {
        "distances": {
            diversity.PGD: NOISE.tolist(),
            diversity.SAMPLES: (NOISE[::-1] + effect).tolist(),
        }
    },
    "figure2": lambda effect: {
        "eigenvalues": {
            name: (np.roll(NOISE, i) - effect * (i > 1)).tolist()
            for i, name in enumerate(FIVE)
        }
    },
    "figure5": lambda effect: {
        "entropy_weight": [0, 0.001, 0.01, 0.1, 1],
        "entropy": [2.0, 1.0, 3.0, 0.5, 2.5]
        if effect == 0
        else (effect * np.arange(5.0)).tolist(),
    },
    "figure6": lambda effect: {
        "climb": {
            name: _climb({1: 0.99, 0: 0.93, -1: 0.5}[effect])
            for name in ("AT-PGD", "ADT-EXP")
        }
    },
    "figure7": lambda effect: {
        "ratios": {
            name: (2.0 ** (-effect + np.array([-0.1, 0, 0.1, 0, 0]))).tolist()
            for name in FIVE
        }
    },
}


@pytest.mark.parametrize("target", CASES)
@pytest.mark.parametrize("effect, answer", [(1, YES), (-1, NO), (0, UNCLEAR)])
def test_claims_are_judged_by_their_statistic(
    target, effect, answer, make_study
):
    study = make_study()
    study.output.mkdir()
    path = study.output / f"{target}.json"
    path.write_text(json.dumps(CASES[target](effect)))
    verdicts = claims.judge(study)
    assert len(verdicts) == 10
    one = next(v for v in verdicts if v.target == target)
    assert one.answer == answer, one.statistic
    others = [v for v in verdicts if v is not one]
    assert all(v.answer == UNCLEAR for v in others)
    missing = ("has not been run", "its runs have not been evaluated")
    assert all(v.statistic.endswith(missing) for v in others)


def test_claims_of_several_seeds_read_the_first_ones_figures(make_study):
    study = make_study(seeds=(1, 2))
    study.output.mkdir()
    path = study.output / "figure1-seeds1.json"
    path.write_text(json.dumps(CASES["figure1"](1)))
    (verdict,) = [v for v in claims.judge(study) if v.target == "figure1"]
    assert verdict.answer == YES
    claims.write(study, "claims", TARGETS["claims"])
    assert "with seed 1" in (study.output / "claims-seeds1.md").read_text()


def test_claims_are_not_read_off_a_figure_of_other_classifiers(make_study):
    study = make_study()
    workdir = study.workdir("at_pgd", 0)
    workdir.mkdir(parents=True)
    (workdir / "classifier.keras").write_bytes(b"one")
    classifiers = {"classifiers": {"at_pgd": Workdir(workdir).fingerprint()}}
    path = study.output / "figure1.json"
    path.write_text(json.dumps(CASES["figure1"](1) | classifiers))

    def judged():
        return next(v for v in claims.judge(study) if v.target == "figure1")

    assert judged().answer == YES
    (workdir / "classifier.keras").write_bytes(b"another")
    verdict = judged()
    assert verdict.answer == UNCLEAR
    assert "make it again" in verdict.statistic


def test_damaged_measurements_are_measured_again(make_study):
    study = make_study()
    measurement = measurements.Measurement("x", lambda: {"value": 3}, ())
    measurement.load(study)
    path = study.output / "measurements" / "x.npz"
    for damaged in (b"", path.read_bytes()[:100], b"no archive"):
        path.write_bytes(damaged)
        assert not measurement.is_there(study)
        assert measurement.load(study)["value"] == 3


def test_any_failure_leaves_the_other_targets(make_study, monkeypatch, capfd):
    def fail(*_):
        raise RuntimeError("out of memory")

    study = make_study()
    monkeypatch.setitem(
        TARGETS, "table7", dataclasses.replace(TARGETS["table7"], write=fail)
    )
    with pytest.raises(ValueError, match="table7: out of memory"):
        plan.reproduce(["table7", "table8"], study)
    assert (study.output / "table8.md").is_file()
    assert "Traceback" in capfd.readouterr().err


def test_rows_of_no_table_that_is_asked_for_are_refused(make_study):
    study = make_study(rows=("at_pgd",))
    for run in (plan.describe, plan.reproduce):
        with pytest.raises(ValueError, match="cifar100-at_pgd.* Received: at_"):
            run(["table2", "figure1"], study)
    assert not study.output.exists()


def test_a_table_without_the_rows_is_left_as_it_is(make_study, capsys):
    study = make_study(rows=("rice-at_pgd",))
    workdir = study.workdir("rice-at_pgd", 0)
    workdir.mkdir(parents=True)
    (workdir / "classifier.keras").write_text("trained")
    fake_table6(study, 0.0, ["AT-PGD"])
    plan.reproduce(["table2", "table6", "table8"], study)
    assert "table2 has none of --rows" in capsys.readouterr().out
    assert "--rows=rice-at_pgd" in (study.output / "table6.md").read_text()
    assert not (study.output / "table2.md").exists()
    assert "--rows" not in (study.output / "table8.md").read_text()


def test_rows_that_are_no_runs_are_refused(make_study):
    with pytest.raises(ValueError, match="--rows .* Received: atpgd"):
        make_study(rows=("at_pgd", "atpgd"))


def test_measurements_of_another_seed_have_a_file_of_their_own(make_study):
    one, other = make_study(), make_study(seeds=(1,))
    for study in (one, other):
        measurement = measurements.Measurement(
            "x", lambda study=study: {"seed": study.seeds[0]}, ()
        )
        assert measurement.load(study)["seed"] == study.seeds[0]
    measurement = measurements.Measurement(
        "x", lambda: pytest.fail("measured again"), ()
    )
    assert (
        measurement.load(one)["seed"] == 0
        and measurement.load(other)["seed"] == 1
    )


def test_figure6_keeps_each_images_climb(make_study):
    """A loss of sqrt(t), times the image's number, for 3 images."""
    study, rows = make_study(), TARGETS["figure6"].rows
    losses = np.outer([1.0, 2.0, 3.0], np.sqrt(np.arange(101)))
    arrays = {
        f"figure6-{run}": {"image_loss": losses, "accuracy": losses[0] / 10}
        for run in rows.values()
    }
    _, values = TARGETS["figure6"].figure.draw(study, rows, arrays)
    assert values["num_examples"] == 3
    np.testing.assert_allclose(values["loss"]["ADT-EXP"], losses.mean(axis=0))
    around, end = np.sqrt(np.arange(18, 23)).mean(), np.sqrt(range(91, 101))
    np.testing.assert_allclose(
        values["climb"]["ADT-EXP"][2], [0, 3 * around, 3 * end.mean()]
    )


def test_convergence_near_its_bounds_needs_images():
    """95.5 % of a noisy climb of few images tell neither yes nor no."""
    climb = {"AT-PGD": _climb(0.955)}
    answer, statistic = of_figures.converges(None, {"climb": climb})
    assert answer == UNCLEAR and "100 images: AT-PGD 95.5 % [" in statistic
    answer, _ = of_figures.converges(None, {"climb": {"AT-PGD": _climb(1.0)}})
    assert answer == YES
    answer, statistic = of_figures.converges(None, {"loss": {}})
    assert answer == UNCLEAR and "make it again" in statistic


def test_entropy_that_all_but_grows_is_not_told():
    """One of ten pairs the wrong way round: p is 0.08, two-sided."""
    values = {"entropy_weight": [0, 1, 2, 3, 4], "entropy": [0, 2, 1, 3, 4]}
    answer, statistic = of_figures.grows(None, values)
    assert answer == UNCLEAR and "two-sided p 0.083" in statistic


def test_equal_models_are_seldom_refuted():
    """Six comparisons at 5 % each would refute one in seven of these."""
    generator = np.random.default_rng(0)
    answers = []
    for _ in range(300):
        values = dict(zip(FIVE, generator.normal(size=(5, 50)), strict=True))
        answers.append(of_figures.flatter(None, {"eigenvalues": values})[0])
    assert answers.count(NO) <= 0.04 * len(answers)
    assert YES not in answers


@pytest.mark.parametrize(
    "shares, answer",
    [
        ((0.53, 0.53, 0.53), YES),
        ((0.53, 0.53, 0.5), UNCLEAR),
        ((0.53, 0.53, 0.47), NO),
    ],
)
def test_claim_about_robustness(shares, answer, make_study):
    study, runs = (
        make_study(),
        ("at_pgd", "adt_exp", "adt_exp_am", "adt_imp_am"),
    )
    for run, share in zip(runs, (0.5, *shares), strict=True):
        assert claims.judge(study)[0].answer == UNCLEAR
        outcomes = {"natural": 1, "FGSM": 0.9, "PGD-20": share}
        fake_evaluation(study, run, 0, "paper", outcomes)
    verdict = claims.judge(study)[0]
    assert (verdict.target, verdict.answer) == ("table1", answer)


@pytest.mark.parametrize("target", ["table1", "table5", "table11", "figure5"])
@pytest.mark.parametrize(
    "effect, answer",
    [(0.03, YES), (0, UNCLEAR), (-0.03, NO)],
)
def test_claims_about_robustness_name_runs_of_their_target(
    target, effect, answer, make_study
):
    """Each run of a pair differs from the other as the claim says, or not."""
    study = make_study()
    claim = [c for c in claims.CLAIMS if c.target == target][-1]
    pairs, wanted = (claim.judge.keywords[k] for k in ("pairs", "wanted"))
    for run, other in pairs.values():
        for name, share in ((run, 0.5 + wanted * effect), (other, 0.5)):
            assert name in TARGETS[target].rows.values()
            outcomes = {"natural": 1, "PGD-20": share}
            fake_evaluation(study, name, 0, "paper", outcomes)
    assert claim.judge(study, {})[0] == answer


def _judge_table4(study, exp, rows=None):
    for run in rows or TARGETS["table4"].rows.values():
        shares = {"natural": 1, "PGD-20": 0.5, "EXP-20": exp}
        fake_evaluation(study, run, 0, "distributional", shares)
    (verdict,) = [v for v in claims.judge(study) if v.target == "table4"]
    return verdict


# 20 images that only EXP fools, 20 that only PGD does.
_NO_GAP = np.full(1000, 0.5)
_NO_GAP[480:500], _NO_GAP[500:520] = 0, 1


@pytest.mark.parametrize(
    "exp, answer",
    [
        (0.4, YES),
        (0.5, YES),
        (0.502, UNCLEAR),
        (_NO_GAP, UNCLEAR),
        (0.505, NO),
        (0.6, NO),
    ],
)
def test_claim_about_attacks(exp, answer, make_study):
    """Equal on every image is as well; weaker beyond its interval is not."""
    study = make_study()
    verdict = _judge_table4(study, exp)
    assert verdict.answer == answer, verdict.statistic
    claims.write(study, "claims", TARGETS["claims"])
    assert f"**{answer}**" in (study.output / "claims.md").read_text()


def test_claim_about_attacks_takes_the_rows_that_are_there(make_study):
    verdict = _judge_table4(make_study(), 0.4, ["at_pgd"])
    assert verdict.answer == YES
    assert verdict.statistic.endswith("; AT-PGD -10.0")
    assert "Standard" not in verdict.statistic


def test_a_failing_target_does_not_stop_the_others(make_study, capsys):
    study = make_study(flags=("--dataset=nowhere.npz",))
    with pytest.raises(ValueError, match="figure1: .*nowhere.npz"):
        plan.reproduce(["figure1", "table8"], study)
    assert (study.output / "table8.md").is_file()
    assert not (study.output / "figure1.md").exists()

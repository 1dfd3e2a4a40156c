"""Builds the presets in the package: trains, attacks and describes them.

    python benchmarks/build_presets.py --data_dir=DIR          # make presets
    python benchmarks/build_presets.py --only=digits_small_cnn_trades

A preset is a run of flags/digits or flags/small in build/presets, evaluated
with the protocols autoattack and quick, and checked by adt-lint. Existing
results are used again. The directory of the preset in adt_tf/serving/zoo is
then written again. The presets of CIFAR-10 need --data_dir, the directory in
which TensorFlow Datasets has prepared the data.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

METHODS = {
    "standard": "Standard training",
    "at_pgd": "AT-PGD",
    "trades": "TRADES",
    "adt_exp": "ADT-EXP",
    "adt_exp_am": "ADT-EXP-AM",
    "adt_imp_am": "ADT-IMP-AM",
}
# Number of test images whose perturbations the preset holds.
NUM_KEPT = 100


@dataclasses.dataclass(frozen=True)
class Family:
    """Presets that differ in their training method alone.

    Attributes:
        methods: Methods that have a preset.
        folder: Directory of their flagfiles in flags/.
        dataset: Data set of the test images.
        num_examples: Number of test images that are attacked.
        network: Network, in words.
        images: Images, in words.
        source: Where the images come from, in words.
        data_flag: Argument of the commands that load the data, in words.
    """

    methods: tuple[str, ...]
    folder: str
    dataset: str
    num_examples: int
    network: str
    images: str
    source: str
    data_flag: str = ""


FAMILIES = {
    "digits_small_cnn": Family(
        tuple(METHODS),
        "digits",
        "digits",
        500,
        "a small CNN (three convolutions, 92,000 weights)",
        "8x8 digits",
        "scikit-learn's digits; the test images are the test set of UCI's "
        "Optical Recognition of Handwritten Digits (E. Alpaydin and C. Kaynak, "
        "1998, CC BY 4.0)",
    ),
    "cifar10_wrn_10_1": Family(
        ("standard", "at_pgd"),
        "small",
        "cifar10",
        1000,
        "a Wide ResNet (WRN-10-1, 78,000 weights)",
        "CIFAR-10's 32x32 images",
        "CIFAR-10 (A. Krizhevsky, 2009); the test images are the first of its "
        "test set in TensorFlow Datasets' order",
        " --data_dir=DIR",
    ),
}


def run(command: str, *arguments: str) -> None:
    """Runs a script of the checkout."""
    script = ROOT / "scripts" / f"{command}.py"
    subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=ROOT,
        check=command != "lint",  # It exits with 1 if a check fails.
    )


def measure(
    family: Family, method: str, workdir: pathlib.Path, data_dir: str | None
) -> None:
    """Trains and evaluates a run, as far as results are missing."""
    where = [f"--workdir={workdir}"]
    if data_dir is not None:
        where.append(f"--data_dir={data_dir}")
    examples = f"--test_examples={family.num_examples}"
    if not (workdir / "classifier.keras").exists():
        run("train", f"--flagfile=flags/{family.folder}/{method}.flags", *where)
    if not (workdir / "evaluation-autoattack.npz").exists():
        keep = "--keep_examples"
        run("evaluate", *where, examples, "--protocol=autoattack", keep)
    if not (workdir / "evaluation-quick.json").exists():
        run("evaluate", *where, examples, "--protocol=quick")
    if not (workdir / "lint.json").exists():
        run("lint", *where)


def write(
    family: Family,
    method: str,
    workdir: pathlib.Path,
    folder: pathlib.Path,
    data_dir: str | None,
) -> None:
    """Writes a preset from an evaluated run."""
    from adt_tf import checks, data, threat_models
    from adt_tf.json_files import write_json
    from adt_tf.runs import evaluation_files
    from adt_tf.runs.workdir import Workdir
    from adt_tf.serving import preset_files, preset_models, replay

    auto = evaluation_files.read(workdir, protocol="autoattack")
    quick = evaluation_files.read(workdir, protocol="quick")
    classifier = Workdir(workdir).load_classifier()
    images, labels = data.as_arrays(
        data.load(
            family.dataset,
            split="test",
            data_dir=data_dir,
            num_examples=family.num_examples,
        )
    )
    with np.load(workdir / "evaluation-autoattack.npz") as arrays:
        x_adv = arrays["x_adv"]
    shutil.rmtree(folder, ignore_errors=True)
    preset_models.save_to_preset(classifier, folder)
    first_images = slice(NUM_KEPT)
    network = family.network.split(" (")[0]
    replay.write_adversarial(
        folder / preset_files.ADVERSARIAL,
        classifier,
        images[first_images],
        labels[first_images],
        x_adv[first_images],
        threat_models.Linf(auto["epsilon"]),
    )
    results = {
        "natural": share(auto["report"], "natural"),
        "PGD-20": share(quick["report"], "PGD-20"),
        "AutoAttack": share(auto["report"], "A_rob"),
    }
    write_json(
        folder / preset_files.METADATA,
        {
            "description": f"{METHODS[method]}, {network} on {family.images}.",
            "method": method,
            "dataset": auto["dataset"],
            "norm": "linf",
            "epsilon": auto["epsilon"],
            "num_examples": auto["num_examples"],
            "results": results,
            "examples_sha256": checks.digest(
                images[first_images], labels[first_images]
            ),
        },
    )
    (folder / preset_files.CARD).write_text(
        card(family, method, workdir, folder.name, results, auto, labels)
    )
    result = replay.replay(folder, data_dir=data_dir)
    print(f"{folder.name}: {result}", flush=True)
    robust = auto["report"].robust[first_images]
    if not result.agrees or not np.array_equal(result.standing, robust):
        sys.exit(
            f"error: the replayed verdicts of {folder.name} differ from "
            "AutoAttack's."
        )


def share(report, name: str) -> dict[str, float]:
    """Returns an accuracy with its interval."""
    accuracy = {**report.accuracy, "A_rob": report.robust_accuracy}[name]
    low, high = report.intervals[name]
    return {"accuracy": accuracy, "low": low, "high": high}


def card(family, method, workdir, name, results, auto, labels) -> str:
    """Returns the text of the model card."""
    flags = [
        line
        for line in (workdir / "flags.txt").read_text().splitlines()
        if line.startswith("--") and not line.startswith("--data_dir")
    ]
    starts = json.loads((workdir / "provenance.json").read_text())["starts"]
    lint = json.loads((workdir / "lint.json").read_text())
    rows = "\n".join(
        f"| {attack} | {100 * r['accuracy']:.1f} | {100 * r['low']:.1f} to "
        f"{100 * r['high']:.1f} |"
        for attack, r in results.items()
    )
    report = auto["report"]
    natural, robust = report.outcomes["natural"] == 1, report.robust
    classes = "\n".join(
        f"| {label} | {np.sum(labels == label)} "
        f"| {100 * natural[labels == label].mean():.1f} "
        f"| {100 * robust[labels == label].mean():.1f} |"
        for label in range(10)
    )
    findings = "".join(
        f"\n- {finding['status']}: {finding['check']}. {finding['evidence']}"
        for finding in lint["findings"]
        if finding["status"] != "pass"
    )
    load = f'"{family.dataset}", split="test"'
    if family.data_flag:
        load += ', data_dir="DIR"'
    num_passed = sum(f["status"] == "pass" for f in lint["findings"])
    return f"""---
license: apache-2.0
library_name: keras
tags: [image-classification, adversarial-robustness]
---

# {name}

{METHODS[method]}: {family.network} on
{family.images}, from images in [0, 1] to logits.

```python
import adt_tf

classifier = adt_tf.from_preset("{name}")
test = adt_tf.data.load({load})
pgd = adt_tf.attacks.pgd({auto["epsilon"]})
print(adt_tf.evaluate(classifier, test, [pgd]))
```

## Measured

On {report.num_examples:,} test images, in the l_inf ball of radius
{auto["epsilon"]}, seed {report.seed}:

| | accuracy (%) | 95 % interval |
| --- | ---: | --- |
{rows}

AutoAttack is adt_tf's: APGD-CE, APGD-T, FAB-T and Square in turn. By class:

| class | images | natural (%) | AutoAttack (%) |
| ---: | ---: | ---: | ---: |
{classes}

Lint: {"passed" if lint["ok"] else "failed"};
{num_passed} of {len(lint["findings"])} checks pass.{findings}

`adversarial.npz` has a perturbation of each of the first {NUM_KEPT} test
images, without the images: the first by which AutoAttack misled the
classifier or, where it did not, the last that it tried. To see the verdicts
again:

```sh
adt-evaluate --preset={name} --replay{family.data_flag}
```

## Made by

Data: {family.source}.
{starts[-1]["data"]["examples"]:,} images to train on (SHA-256
{starts[-1]["data"]["sha256"][:16]}), {report.num_examples:,} to test on.
Commit {starts[-1]["git commit"]}, TensorFlow
{starts[-1]["tensorflow"]}, Keras {starts[-1]["keras"]}. The flags, all of them:

```
{chr(10).join(flags)}
```

Licence of the weights: Apache-2.0.
"""


def main() -> None:
    """Builds the selected presets."""
    every = [
        f"{name}_{method}"
        for name, family in FAMILIES.items()
        for method in family.methods
    ]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(every))
    parser.add_argument("--data_dir")
    parser.add_argument(
        "--runs", type=pathlib.Path, default=ROOT / "build" / "presets"
    )
    options = parser.parse_args()
    zoo = ROOT / "adt_tf" / "serving" / "zoo"
    for name in options.only.split(","):
        if name not in every:
            sys.exit(f"error: --only must be some of {', '.join(every)}.")
        prefix = next(prefix for prefix in FAMILIES if name.startswith(prefix))
        family, method = FAMILIES[prefix], name.removeprefix(f"{prefix}_")
        workdir = options.runs.resolve() / name
        measure(family, method, workdir, options.data_dir)
        write(family, method, workdir, zoo / name, options.data_dir)


if __name__ == "__main__":
    main()

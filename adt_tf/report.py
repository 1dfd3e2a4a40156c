"""A report on evaluated runs: a table, accuracy bars, attacked images.

    write(["build/standard", "build/adt_exp"], "build/report")

Writes report.md, accuracy.png and images.png, from each run's
evaluation.json and classifier.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np

from adt_tf import assessment, attacks, data
from adt_tf import workdir as workdir_files

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_RIGHT, _WRONG = "#1b7837", "#b2182b"
_NUM_IMAGES = 8


def write(
    workdirs: Sequence[str | pathlib.Path], output: str | pathlib.Path
) -> None:
    """Writes the report into a directory, which is made if need be.

    Args:
        workdirs: Runs of one data set, each with an evaluation.json.
        output: Where report.md and its pictures go.
    """
    results = [_read(pathlib.Path(workdir)) for workdir in workdirs]
    settings = {
        (r["dataset"], r["epsilon"], r["num_examples"], r["seed"])
        for r in results
    }
    columns = {tuple(r["accuracy"]) for r in results}
    if len(settings) > 1 or len(columns) > 1:
        raise ValueError(
            "A report compares runs on the same examples under the same "
            "attacks. Received (data set, epsilon, examples, seed of the "
            f"attacks): {sorted(settings)} under "
            f"{sorted(columns)}; evaluate them alike, or write two reports."
        )
    output = pathlib.Path(output)
    output.mkdir(parents=True, exist_ok=True)
    _draw_accuracy(results, output / "accuracy.png")
    _draw_images(workdirs, results, output / "images.png")
    text = _markdown(results)
    (output / "report.md").write_text(text)
    print("\n".join(line for line in text.splitlines() if "|" in line))
    print(f"The report is {output / 'report.md'}")


def _read(workdir: pathlib.Path) -> dict[str, Any]:
    result = assessment.read(workdir)
    result["rows"] = {**result["accuracy"], "A_rob": result["A_rob"]}
    return result


def _markdown(results) -> str:
    names = list(results[0]["rows"])
    lines = [
        f"# Robustness on {results[0]['dataset']}",
        "",
        f"Accuracy in % on {results[0]['num_examples']} test images, "
        f"l-infinity ball of radius {results[0]['epsilon']:g}. A_rob counts "
        "an image only if it withstands every attack.",
        "",
        "| method | " + " | ".join(names) + " |",
        "| --- |" + " ---: |" * len(names),
    ]
    for result in results:
        values = " | ".join(f"{100 * v:.1f}" for v in result["rows"].values())
        lines.append(f"| {result['method']} | {values} |")
    lines += [
        "",
        "![Accuracy under each attack](accuracy.png)",
        "",
        f"Test images, attacked by PGD-20 at epsilon "
        f"{results[0]['epsilon']:g}, with the class that each model sees:",
        "",
        "![Clean and attacked images](images.png)",
        "",
        "The runs, with the command that measures each again:",
        "",
        *(f"- `{result['command']}`" for result in results),
    ]
    return "\n".join(lines) + "\n"


def _draw_accuracy(results, path: pathlib.Path) -> None:
    names = list(results[0]["rows"])
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    width = 0.8 / len(results)
    for i, result in enumerate(results):
        heights = [100 * value for value in result["rows"].values()]
        bars = axes.bar(
            np.arange(len(names)) + (i - (len(results) - 1) / 2) * width,
            heights,
            width,
            label=result["method"],
        )
        axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set_xticks(np.arange(len(names)), names)
    axes.set(
        ylim=(0, 107),
        ylabel="accuracy (%)",
        title=f"{results[0]['dataset']}: accuracy under attack, "
        f"epsilon = {results[0]['epsilon']:g}",
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=len(results), loc="upper right")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_images(workdirs, results, path: pathlib.Path) -> None:
    config = results[0]
    test = data.load(
        config["dataset"],
        split="test",
        data_dir=config.get("data_dir"),
    )
    x, y = (part[:_NUM_IMAGES] for part in data.as_arrays(test))
    attack = attacks.pgd(config["epsilon"], num_steps=20)
    rows = [("clean", x, None)]
    for workdir, result in zip(workdirs, results, strict=True):
        classifier = workdir_files.load_classifier(workdir)
        x_adv = attack(classifier, x, y).x_adv.numpy()
        seen = classifier.predict(x_adv, verbose=0).argmax(-1)
        magnified = 0.5 + (x_adv - x) / (2 * config["epsilon"])
        magnified = np.clip(magnified, 0, 1)  # rounding
        rows.append((f"{result['method']}\nattacked", x_adv, seen))
        rows.append(("perturbation\n(-eps to +eps)", magnified, None))
    figure, grid = plt.subplots(
        len(rows),
        len(x),
        figsize=(1.15 * len(x) + 1.4, 1.35 * len(rows)),
        layout="constrained",
        squeeze=False,
    )
    for line, (name, images, seen) in zip(grid, rows, strict=True):
        for i, axes in enumerate(line):
            axes.imshow(images[i], cmap="gray", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            if seen is not None:
                right = seen[i] == y[i]
                axes.set_title(
                    f"seen as {seen[i]}",
                    fontsize=8,
                    color=_RIGHT if right else _WRONG,
                )
            elif name == "clean":
                axes.set_title(f"class {y[i]}", fontsize=8)
        line[0].set_ylabel(
            name, rotation=0, ha="right", va="center", fontsize=9
        )
    figure.savefig(path, dpi=120)
    plt.close(figure)

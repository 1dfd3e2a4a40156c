"""Compares the strength of our attacks with other libraries' on a classifier.

    python scripts/evaluate.py --workdir=DIR --test_examples=1000 \
        --attacks=fgsm,pgd-20,mim-20,apgd-ce,apgd-dlr,apgd-t,fab-t,square \
        --independent --output=build/peers/run.json
    python benchmarks/peers/export_weights.py --workdir=DIR \
        --output=build/peers/run.npz
    .venv-peers/bin/python benchmarks/peers/strength.py \
        --weights=build/peers/run.npz
    python benchmarks/peers/compare_strength.py build/peers/run.json

The last command reads run.json and run.strength.npz. It prints the robust
accuracy under each attack, ours and theirs, with the number of examples that
only one of the two breaks, and exits with 1 if the accuracy under ours is over
0.5 points higher. For several evaluations, with different seeds on both sides,
it takes the mean, since random starts make one seed unreliable. An evaluation
with --protocol=autoattack is compared as a whole with --attacks=
torchattacks/autoattack of strength.py.
"""

import argparse
import itertools
import json
import pathlib
import sys

import numpy as np

# Mapping from an attack's name in the evaluation to its name in libraries.py.
SAME = {
    "FGSM": "fgsm",
    "PGD-20": "pgd-20",
    "MIM-20": "mim-20",
    "APGD-CE": "apgd-ce-100",
    "APGD-DLR": "apgd-dlr-100",
    "APGD-T": "apgd-t-100",
    "FAB-T": "fab-t-100",
    "Square": "square-5000",
    "AutoAttack": "autoattack",
}
MOST = 0.5  # Largest difference, in points.


def rows(ours: dict, theirs: dict) -> list[tuple]:
    """Returns (attack, library, ours, theirs, difference, alone, alone).

    Args:
        ours: Mapping from "natural" or an attack to the examples that are
            classified correctly.
        theirs: The same mapping, from "library/attack".
    """
    table = []
    for name, other in SAME.items():
        for key in sorted(k for k in theirs if k.endswith(f"/{other}")):
            if name not in ours:
                continue
            # An attack that ran out of time has verdicts on the first examples.
            one, two = ours[name][: len(theirs[key])], theirs[key]
            table.append(
                (
                    name,
                    key.split("/")[0],
                    100 * one.mean(),
                    100 * two.mean(),
                    100 * (one.mean() - two.mean()),
                    int(np.sum(~one & two)),
                    int(np.sum(one & ~two)),
                    len(one),
                )
            )
    return table


def read(path: pathlib.Path) -> tuple[dict, dict]:
    """Returns the examples that withstand our and their attacks."""
    values = json.loads(path.read_text())
    ours = {
        name: np.array([letter == "1" for letter in letters])
        for name, letters in values["outcomes"].items()
    }
    if values.get("protocol") == "autoattack":
        unbroken = [
            np.array([letter != "0" for letter in letters])
            for letters in values["outcomes"].values()
        ]
        ours = {
            "natural": ours["natural"],
            "AutoAttack": ours["natural"] & np.all(unbroken, axis=0),
        }
    elif not values["independent"]:
        raise ValueError(
            f"{path} must hold independent attacks or the protocol autoattack. "
            "Evaluate again with --independent or --protocol=autoattack."
        )
    with np.load(path.with_suffix(".strength.npz")) as arrays:
        theirs = {name: arrays[name] for name in arrays.files}
    if not np.array_equal(ours["natural"], theirs["natural"]):
        raise ValueError(
            f"The verdicts on clean examples in {path} differ from the other "
            "libraries': the examples or the weights are not the same."
        )
    return ours, theirs


def averaged(tables: list[list[tuple]]) -> list[tuple]:
    """Returns the mean of each row over the evaluations that have it."""
    by_name = {}
    for row in itertools.chain(*tables):
        by_name.setdefault(row[:2], []).append(row[2:])
    return [(*name, *np.mean(rows, axis=0)) for name, rows in by_name.items()]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "evaluations", nargs="+", help=".json files of scripts/evaluate.py."
    )
    paths = [pathlib.Path(path) for path in parser.parse_args().evaluations]
    pairs = [read(path) for path in paths]
    table = averaged([rows(*pair) for pair in pairs])
    natural = pairs[0][0]["natural"]
    print(
        f"{len(natural)} examples, {100 * natural.mean():.1f} % natural, "
        f"{len(paths)} seeds\n"
    )
    print(
        "| attack | library | ours | theirs | difference | only ours breaks "
        "| only theirs | examples |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    )
    for name, library, one, two, difference, *counts in table:
        cells = " | ".join(f"{count:g}" for count in counts)
        print(
            f"| {name} | {library} | {one:.2f} | {two:.2f} | "
            f"{difference:+.2f} | {cells} |"
        )
    weaker = [f"{r[0]} ({r[1]})" for r in table if r[4] > MOST]
    if weaker:
        sys.exit(f"\nWeaker than theirs: {', '.join(weaker)}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, KeyError) as error:
        sys.exit(f"error: {error}")

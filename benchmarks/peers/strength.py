"""Measures the strength of other libraries' attacks on a classifier of ours.

    python benchmarks/peers/strength.py --weights=build/peers/run.npz \
        --attacks=foolbox/pgd-20,torchattacks/apgd-ce-100 --examples=500

Runs each attack on those images of export_weights.py that are classified
correctly; the others count as broken. Every adversarial image must lie in the
ball and in the pixel range. After every attack it writes run.strength.json and
run.strength.npz, which holds for each attack whether each example withstands
it. An attack that exceeds --minutes stops after its batch; its numbers are then
about the examples before.
"""

import argparse
import json
import pathlib
import sys
import time
from importlib import metadata

import libraries
import numpy as np
import torch
import weights

# The attacks of AutoAttack's standard version.
PARTS = ("apgd-ce-100", "apgd-t-100", "fab-t-100", "square-5000")
NATURAL = "natural"


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--weights", required=True, help="An exported file.")
    parser.add_argument(
        "--attacks",
        default="all",
        help="Names with commas, or all:\n" + "\n".join(libraries.names()),
    )
    parser.add_argument("--examples", type=int, help="Number of examples.")
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2, help="Threads.")
    parser.add_argument("--minutes", type=float, default=30, help="Time limit.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", help="Path without its ending.")
    return parser.parse_args()


def run(attack, network, images, labels, *, details, options) -> tuple:
    """Returns whether each example withstands, and the largest distance.

    After the time limit, only the examples before the first one that was not
    attacked are returned.
    """
    robust = (predict(network, images) == labels).numpy()
    correct_rows, largest = np.flatnonzero(robust), 0.0
    end = time.perf_counter() + 60 * options.minutes
    for start in range(0, len(correct_rows), options.batch_size):
        rows = correct_rows[start : start + options.batch_size]
        if time.perf_counter() > end:
            return robust[: rows[0]], largest
        x, y = images[rows], labels[rows]
        x_adv = attack(x, y).detach()
        check(x, x_adv, details)
        largest = max(largest, distance(x, x_adv, details))
        robust[rows] = (predict(network, x_adv) == y).numpy()
    return robust, largest


def distance(x, x_adv, details) -> float:
    """Returns the largest distance of a batch, in the norm of the weights."""
    order = {"linf": float("inf"), "l2": 2}[details.get("norm", "linf")]
    return (x_adv - x).flatten(1).norm(order, dim=1).max().item()


def check(x, x_adv, details, slack=1e-5) -> None:
    """Raises an error for an image outside the ball or the pixel range."""
    largest, epsilon = distance(x, x_adv, details), details["epsilon"]
    low, high = x_adv.min().item(), x_adv.max().item()
    if not (largest <= epsilon + slack and -slack <= low <= high <= 1 + slack):
        raise ValueError(
            f"The attack left the threat model: a distance of {largest}, "
            f"epsilon {epsilon}, pixels in [{low}, {high}]."
        )


def predict(network, images) -> torch.Tensor:
    """Returns the labels that the network predicts."""
    with torch.inference_mode():
        return network(images).argmax(dim=1)


def summary(outcomes: dict, results: dict) -> dict:
    """Returns the shares that withstand several attacks at once."""
    together = {"A_rob": list(results)}
    parts = [f"torchattacks/{part}" for part in PARTS]
    if set(parts) <= set(results):
        together["worst of torchattacks' apgd-ce, apgd-t, fab-t, square"] = (
            parts
        )
    shares = {}
    for name, members in together.items():
        count = min(len(outcomes[member]) for member in members)
        rows = [outcomes[member][:count] for member in members]
        shares[name] = {
            "robust_accuracy": float(np.all(rows, axis=0).mean()),
            "num_examples": count,
        }
    return shares


def main() -> None:
    """Runs the attacks and writes the files."""
    options = parse()
    torch.set_num_threads(options.threads)
    exported = weights.load(options.weights)
    network, details = exported.network, exported.details
    if exported.labels is None:
        raise ValueError(f"{options.weights} holds no classifier.")
    # Most of these attacks would compute weight gradients otherwise.
    network.requires_grad_(False)
    count = options.examples or len(exported.labels)
    if not 0 < count <= len(exported.labels):
        raise ValueError(
            f"--examples must be 1 to {len(exported.labels)}, the number of "
            f"images in {options.weights}. Received: {count}"
        )
    images, labels = exported.inputs[0][:count], exported.labels[:count]
    names = libraries.names(details.get("norm", "linf"))
    if options.attacks != "all":
        names = options.attacks.split(",")
    path = pathlib.Path(options.weights).with_suffix("")
    path = pathlib.Path(options.output or f"{path}.strength")
    outcomes = {NATURAL: (predict(network, images) == labels).numpy()}
    script = "python benchmarks/peers/strength.py"
    report = {
        "command": " ".join([script, *sys.argv[1:]]),
        **details,
        "num_examples": count,
        "natural": float(outcomes[NATURAL].mean()),
        "seed": options.seed,
        "versions": {
            name: metadata.version(name)
            for name in (
                "torch",
                "foolbox",
                "adversarial-robustness-toolbox",
                "torchattacks",
            )
        },
        "attacks": {},
    }
    print(f"{'natural':<28} {100 * report['natural']:6.2f} %", flush=True)
    for name in names:
        attack = libraries.get(
            name,
            network,
            shape=images.shape[1:],
            norm=details.get("norm", "linf"),
            epsilon=details["epsilon"],
            num_classes=details["settings"]["num_classes"],
            seed=options.seed,
        )
        begin = time.perf_counter()
        outcomes[name], largest = run(
            attack,
            network,
            images,
            labels,
            details=details,
            options=options,
        )
        seconds = time.perf_counter() - begin
        report["attacks"][name] = {
            "robust_accuracy": float(outcomes[name].mean()),
            "num_examples": len(outcomes[name]),
            "largest_perturbation": largest,
            "seconds": round(seconds, 1),
        }
        report["together"] = summary(outcomes, report["attacks"])
        path.parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(f"{path}.json").write_text(
            json.dumps(report, indent=2) + "\n"
        )
        np.savez(f"{path}.npz", labels=labels.numpy(), **outcomes)
        print(
            f"{name:<28} {100 * outcomes[name].mean():6.2f} %  of "
            f"{len(outcomes[name])}, {seconds:.0f} s",
            flush=True,
        )
    for name, share in report["together"].items():
        print(f"{name}: {100 * share['robust_accuracy']:.2f} %")
    print(f"Written to {path}.json and {path}.npz")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, KeyError) as error:
        sys.exit(f"error: {error}")

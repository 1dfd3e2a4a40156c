"""Compares AutoAttack with torchattacks' on published PyTorch checkpoints.

    python benchmarks/published_checkpoints.py --checkpoints=DIR --data_dir=DIR
    .venv-peers/bin/python benchmarks/peers/published_checkpoints.py \
        --checkpoints=DIR
    python benchmarks/published_checkpoints.py --compare

The first command reads cifar10_resnet2b.pth, mnist_trades_smallcnn.pt and
mnist_colt_convmed.pt without torch, compares their logits with
reference_logits.npz, and attacks the first 200 test images. It writes images
and verdicts to build/published for the second command, which runs torchattacks
on networks of torch. The third prints both and the images on which they differ,
and exits with 1 if over one image more withstands our attack.
"""

import argparse
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

EPSILONS = {
    "cifar10_resnet2b": 2 / 255,
    "mnist_trades_smallcnn": 0.3,
    "mnist_colt_convmed": 0.1,
}


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoints", type=pathlib.Path)
    parser.add_argument("--data_dir", help="CIFAR-10 as TFDS prepares it.")
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--only", default=",".join(EPSILONS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=ROOT / "build" / "published"
    )
    return parser.parse_args()


def test_images(name: str, options: argparse.Namespace) -> tuple:
    """Returns the test images and labels of a checkpoint's data set."""
    from adt_tf import data

    if name.startswith("cifar10"):
        test = data.load("cifar10", split="test", data_dir=options.data_dir)
        images, labels = data.as_arrays(test)
    else:
        with np.load(options.checkpoints / "mnist_1000.npz") as arrays:
            images = arrays["x_test"].astype(np.float32) / 255
            labels = arrays["y_test"]
    return images, labels


def attack(name: str, options: argparse.Namespace) -> None:
    """Attacks a checkpoint and writes images and verdicts."""
    import adt_tf
    from tests.support import published_networks

    classifier = published_networks.load(name, options.checkpoints)
    images, labels = test_images(name, options)
    logits = classifier.predict(images[:1000], verbose=0)
    with np.load(options.checkpoints / "reference_logits.npz") as reference:
        expected = reference[name]
    error = np.abs(logits[: len(expected)] - expected).max()
    accuracy = (logits.argmax(-1) == labels[:1000]).mean()
    print(f"{name}: logits differ from torch's by {error:.1e}; natural")
    print(f"    {100 * accuracy:.2f} % of {len(logits)} images", flush=True)
    images, labels = images[: options.examples], labels[: options.examples]
    report = adt_tf.evaluate(
        classifier,
        (images, labels),
        adt_tf.attacks.autoattack(EPSILONS[name]),
        seed=options.seed,
    )
    print(report, flush=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        options.folder / f"{name}.npz",
        images=images,
        labels=labels,
        natural=report.outcomes["natural"] == 1,
        standing=report.robust,
    )


def compare(names: list[str], folder: pathlib.Path) -> bool:
    """Prints both results; returns whether our attack is as strong."""
    is_as_strong = True
    print("| checkpoint | images | natural | ours | torchattacks | differ |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name in names:
        with np.load(folder / f"{name}.npz") as ours:
            standing, natural = ours["standing"], ours["natural"]
        with np.load(folder / f"{name}.torch.npz") as arrays:
            theirs = arrays["standing"]
        differ = [
            f"{index} ({'ours' if standing[index] else 'theirs'} stands)"
            for index in np.flatnonzero(standing != theirs)
        ]
        print(
            f"| {name} | {len(standing)} | {natural.sum()} | {standing.sum()} "
            f"| {theirs.sum()} | {', '.join(differ) or 'none'} |"
        )
        is_as_strong &= bool(standing.sum() <= theirs.sum() + 1)
    return is_as_strong


def main() -> None:
    """Attacks the checkpoints, or compares the verdicts."""
    options = parse()
    names = options.only.split(",")
    if options.compare:
        sys.exit(0 if compare(names, options.folder) else 1)
    if options.checkpoints is None:
        sys.exit("error: --checkpoints must be the folder of the files.")
    for name in names:
        attack(name, options)


if __name__ == "__main__":
    main()

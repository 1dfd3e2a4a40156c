"""Runs torchattacks' AutoAttack on published checkpoints, in PyTorch.

    .venv-peers/bin/python benchmarks/peers/published_checkpoints.py \
        --checkpoints=DIR

Run benchmarks/published_checkpoints.py first: this script attacks the images
that it wrote to build/published, and writes the verdicts to the same folder.
"""

import argparse
import pathlib

import libraries
import numpy as np
import strength
import torch
from authors_layouts import ColtNet, ResNet2B, SmallCnn

NETWORKS = {
    "cifar10_resnet2b": (ResNet2B, "cifar10_resnet2b.pth", 2 / 255),
    "mnist_trades_smallcnn": (SmallCnn, "mnist_trades_smallcnn.pt", 0.3),
    "mnist_colt_convmed": (ColtNet, "mnist_colt_convmed.pt", 0.1),
}
FOLDER = pathlib.Path("build/published")


def load(name: str, checkpoints: pathlib.Path) -> torch.nn.Module:
    """Returns a network with its published weights."""
    build, file, _ = NETWORKS[name]
    saved = torch.load(
        checkpoints / file, map_location="cpu", weights_only=True
    )
    weights = {
        key: tensor
        for key, tensor in saved.get("state_dict", saved).items()
        if not key.endswith("deepz_lambda")
    }
    network = build()
    network.load_state_dict(weights)
    return network.eval().requires_grad_(False)


def main() -> None:
    """Runs each attack on the images that have withstood the ones before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoints", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.only.split(","):
        network = load(name, options.checkpoints)
        with np.load(options.folder / f"{name}.npz") as arrays:
            images = torch.from_numpy(arrays["images"].transpose(0, 3, 1, 2))
            labels = torch.from_numpy(arrays["labels"].astype(np.int64))
        images = images.contiguous()
        epsilon = NETWORKS[name][2]
        standing = (strength.predict(network, images) == labels).numpy()
        print(f"{name}: natural {standing.sum()} of {len(standing)}")
        for part in strength.PARTS:
            attack = libraries.get(
                f"torchattacks/{part}",
                network,
                shape=images.shape[1:],
                epsilon=epsilon,
                seed=options.seed,
            )
            rows = np.flatnonzero(standing)
            if len(rows):
                x, y = images[rows], labels[rows]
                x_adv = attack(x, y).detach()
                strength.check(x, x_adv, {"epsilon": epsilon})
                standing[rows] = (strength.predict(network, x_adv) == y).numpy()
            print(f"    after {part}: {standing.sum()}", flush=True)
        np.savez(options.folder / f"{name}.torch.npz", standing=standing)


if __name__ == "__main__":
    main()

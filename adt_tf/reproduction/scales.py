"""How large a reproduction is: the paper's size, days, hours, or a minute.

    scale = scales.get("mini")
    scale.protocols["spsa"].attacks      # {"spsa-256": "spsa-256"}

A scale changes numbers, never the path. What it leaves out or makes smaller is
said below every table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from adt_tf.runs import protocols
from adt_tf.runs.config import Config


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How models are attacked.

    Attributes:
        attacks: From the paper's attack to the one that stands for it here; an
            attack that is missing is not run at this scale.
        test_examples: The first n of the test set; None for all.
        independent: Whether each attack sees all images, rather than those
            that the ones before it have left.
    """

    attacks: Mapping[str, str]
    test_examples: int | None
    independent: bool = True


@dataclasses.dataclass(frozen=True)
class Scale:
    """The numbers of a scale.

    Attributes:
        name: As `--scale` takes it.
        description: What was trained on what, for the tables.
        folder: Of the flagfiles in flags/; None for each run's own.
        data_flagfile: In flags/data; what a recipe must not change.
        flags: For every run, after its flagfile.
        data: For runs on other data sets than CIFAR-10, their flags.
        validation_examples: Held out where the best epoch is kept.
        protocols: How models are attacked.
        attack_epochs: Of generators that attack.
        attack_width_factor: Of those generators.
        images: How many images each figure is about.
        num_samples: Perturbations of an image in Figure 1.
        timing: Flags for Figure 7 that keep the paper's proportion of
            generator and classifier.
    """

    name: str
    description: str
    folder: str | None
    data_flagfile: str
    flags: tuple[str, ...]
    data: Mapping[str, tuple[str, ...]]
    validation_examples: int
    protocols: Mapping[str, Protocol]
    attack_epochs: int
    attack_width_factor: float
    images: Mapping[str, int]
    num_samples: int = 50
    timing: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def timed(self, config: Config) -> Config:
        """Returns a run's configuration with the flags for Figure 7.

        A method that has no generator takes none of its flags.
        """
        changes = {
            name: value
            for name, value in self.timing.items()
            if getattr(config, name) is not None
        }
        return dataclasses.replace(config, **changes)


_PROTOCOLS = ("paper", "spsa", "distributional", "rice", "autoattack")


def _protocols(
    test_examples: int | None,
    spsa_examples: int | None,
    replaced: Mapping[str, str | None],
) -> dict[str, Protocol]:
    """The paper's attacks, some of them replaced or, by None, left out."""
    return {
        name: Protocol(
            {
                attack: replaced.get(attack, attack)
                for attack in protocols.attacks_of(name)
                if replaced.get(attack, attack)
            },
            spsa_examples if name == "spsa" else test_examples,
            independent=name != "autoattack",
        )
        for name in _PROTOCOLS
    }


_ONE_SPSA = {"spsa-512": None, "spsa-1024": None, "spsa-2048": None}
_SCALES = (
    Scale(
        "paper",
        "The paper's recipe: full data sets, WRN-28-10 (Tables 5, 6 and 10: "
        "WRN-34-10).",
        folder=None,
        data_flagfile="cifar10",
        flags=(),
        data={},
        validation_examples=1000,
        protocols=_protocols(None, None, {}),
        attack_epochs=10,
        attack_width_factor=1.0,
        images={
            "figure1": 100,
            "figure2": 1000,
            "figure4": 10_000,
            "figure5": 10_000,
            "figure6": 10_000,
        },
    ),
    Scale(
        "small",
        "WRN-10-1, all 50,000 training images, 14 epochs with a one-cycle "
        "learning rate, generators of a sixteenth of the paper's width; the "
        "first 1,000 test images at most.",
        folder="small",
        data_flagfile="cifar10_small",
        flags=(),
        data={
            "cifar100": ("--dataset=cifar100",),
            "svhn": ("--dataset=svhn_cropped", "--epsilon=0.01568627"),
        },
        validation_examples=1000,
        protocols=_protocols(1000, 200, {"fea": "fea-5"} | _ONE_SPSA),
        attack_epochs=4,
        attack_width_factor=0.0625,
        images={
            "figure1": 100,
            "figure2": 200,
            "figure4": 1000,
            "figure5": 1000,
            "figure6": 200,
        },
        timing={"network": "wrn-16-4", "batch_size": 16, "width_factor": 0.274},
    ),
    Scale(
        "mini",
        "WRN-10-1, the first 5,000 training images, 8 epochs, generators of "
        "a sixteenth of the paper's width; the first 1,000 test images at "
        "most.",
        folder="mini",
        data_flagfile="cifar10_mini",
        flags=(),
        data={
            "cifar100": ("--dataset=cifar100",),
            "svhn": ("--dataset=svhn_cropped", "--epsilon=0.01568627"),
        },
        validation_examples=500,
        protocols=_protocols(1000, 200, {"fea": "fea-5"} | _ONE_SPSA),
        attack_epochs=4,
        attack_width_factor=0.0625,
        images={
            "figure1": 100,
            "figure2": 200,
            "figure4": 1000,
            "figure5": 1000,
            "figure6": 200,
        },
        timing={"network": "wrn-16-4", "batch_size": 16, "width_factor": 0.274},
    ),
    Scale(
        "tiny",
        "scikit-learn's 8x8 digits in place of every data set (epsilon 0.15; "
        "for SVHN 0.075), a small CNN, 512 training images, 10 epochs; the "
        "first 100 test images. It shows that all parts work, nothing else.",
        folder="digits",
        data_flagfile="digits",
        flags=("--train_examples=512", "--epochs=10", "--drop_after=8"),
        data={"cifar100": (), "svhn": ("--epsilon=0.075",)},
        validation_examples=200,
        protocols=_protocols(
            100, 20, {"fea": "fea-2", "spsa-256": "spsa-16"} | _ONE_SPSA
        ),
        attack_epochs=2,
        attack_width_factor=0.125,
        images={
            "figure1": 20,
            "figure2": 10,
            "figure4": 100,
            "figure5": 100,
            "figure6": 32,
        },
        num_samples=20,
        timing={"width_factor": 0.043},
    ),
)
SCALES = {scale.name: scale for scale in _SCALES}


def get(name: str) -> Scale:
    """Returns the scale of a name.

    Example:

    >>> get("mini").protocols["paper"].attacks["fea"]
    'fea-5'
    """
    if name not in SCALES:
        raise ValueError(
            f"--scale must be one of {', '.join(SCALES)}. Received: {name!r}"
        )
    return SCALES[name]

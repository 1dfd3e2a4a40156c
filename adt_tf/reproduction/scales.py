"""The size of a reproduction: the paper's, days, hours, or a minute.

    scale = scales.get("mini")
    scale.protocols["spsa"].attacks      # {"spsa-256": "spsa-256"}

A scale changes numbers and never the code path. Every table names the settings
that its scale makes weaker than the paper's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from adt_tf.runs import protocols
from adt_tf.runs.config import Config


@dataclasses.dataclass(frozen=True)
class Protocol:
    """The attacks that measure a model.

    Attributes:
        attacks: Mapping from each attack of the protocol's flagfile to the
            attack that replaces it at this scale. An attack that is missing is
            not run.
        test_examples: Number of test images, taken from the start of the test
            set; None for all.
        independent: Whether each attack runs on all images, or only on those
            that withstood the attacks before it.
        distributions: Names of the distributions that are sampled.
        max_samples: Largest number of samples of an image; None where there
            are no distributions.
    """

    attacks: Mapping[str, str]
    test_examples: int | None
    independent: bool = True
    distributions: tuple[str, ...] = ()
    max_samples: int | None = None


@dataclasses.dataclass(frozen=True)
class Scale:
    """The numbers of a scale.

    Attributes:
        name: Value of `--scale`.
        description: Network, data and epochs, for the captions of tables.
        folder: Folder of the flagfiles in flags/; None if each run has a
            flagfile of its own.
        data_flagfile: Flagfile in flags/data that a recipe must not override.
        flags: Flags of every run, after its flagfile.
        data: Flags of the runs on data sets other than CIFAR-10.
        schedules: Flags of the runs that train for another number of epochs
            than the rest: under the name of a method those that make its
            training cost as much as AT-PGD's (see `tables.matrix`), under
            "overfitting" those that train for three times the epochs.
        validation_examples: Number of held-out images of the runs that keep
            the best epoch.
        protocols: Protocols by name.
        attack_epochs: Number of epochs for which an attacking generator is
            trained.
        attack_width_factor: Factor of the widths of these generators.
        images: Number of images of each figure.
        num_samples: Number of perturbations of an image in Figure 1.
        timing: Flags for Figure 7 that keep the paper's proportion of
            generator and classifier.
    """

    name: str
    description: str
    folder: str | None
    data_flagfile: str
    flags: tuple[str, ...]
    data: Mapping[str, tuple[str, ...]]
    schedules: Mapping[str, tuple[str, ...]]
    validation_examples: int
    protocols: Mapping[str, Protocol]
    attack_epochs: int
    attack_width_factor: float
    images: Mapping[str, int]
    num_samples: int = 50
    timing: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def timed(self, config: Config) -> Config:
        """Returns a run's configuration with the flags for Figure 7.

        A method without a generator keeps its configuration.
        """
        changes = {
            name: value
            for name, value in self.timing.items()
            if getattr(config, name) is not None
        }
        return dataclasses.replace(config, **changes)


def _protocols(
    test_examples: int | None,
    costly_examples: int | None,
    replacements: Mapping[str, str | None],
    max_samples: int = 8192,
) -> dict[str, Protocol]:
    """Returns the protocols of a scale.

    Args:
        test_examples: Number of test images; None for all.
        costly_examples: Number of test images of SPSA and of the sampled
            distributions, which take most of the time.
        replacements: Mapping from an attack to the attack that replaces it;
            None leaves the attack out.
        max_samples: Largest number of samples of an image.
    """
    all_protocols = {
        name: Protocol(
            {
                attack: replacement
                for attack in protocols.attacks_of(name)
                if (replacement := replacements.get(attack, attack))
            },
            test_examples,
            independent=name != "autoattack",
        )
        for name in (
            "paper",
            "spsa",
            "distributional",
            "rice",
            "autoattack",
            "generalisation",
            "probabilistic",
        )
    }
    all_protocols["spsa"] = dataclasses.replace(
        all_protocols["spsa"], test_examples=costly_examples
    )
    all_protocols["probabilistic"] = dataclasses.replace(
        all_protocols["probabilistic"],
        test_examples=costly_examples,
        distributions=_distributions("probabilistic"),
        max_samples=max_samples,
    )
    return all_protocols


def _distributions(protocol: str) -> tuple[str, ...]:
    """Returns the distributions that a protocol's flagfile names."""
    flag = "--distributions="
    (line,) = (x for x in protocols.read(protocol) if x.startswith(flag))
    return tuple(line.removeprefix(flag).split(","))


_ONE_SPSA = {"spsa-512": None, "spsa-1024": None, "spsa-2048": None}

_PAPER = Scale(
    "paper",
    "The paper's recipe: full data sets, WRN-28-10 (Tables 5, 6 and 10: "
    "WRN-34-10).",
    folder=None,
    data_flagfile="cifar10",
    flags=(),
    data={},
    schedules={
        "fgsm_rs": ("--epochs=258", "--drop_after=252"),
        "adt_exp_am": ("--epochs=99", "--drop_after=96"),
        "adt_imp_am": ("--epochs=99", "--drop_after=96"),
        "overfitting": (
            "--train_examples=10000",
            "--epochs=228",
            "--drop_after=222",
        ),
    },
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
        "overfitting": 1000,
    },
)
_SMALL = Scale(
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
    schedules={
        "fgsm_rs": ("--epochs=48",),
        "adt_exp_am": ("--epochs=14",),
        "adt_imp_am": ("--epochs=14",),
        "overfitting": ("--train_examples=10000", "--epochs=42"),
    },
    validation_examples=1000,
    protocols=_protocols(1000, 200, {"fea": "fea-5", **_ONE_SPSA}),
    attack_epochs=4,
    attack_width_factor=0.0625,
    images={
        "figure1": 100,
        "figure2": 200,
        "figure4": 1000,
        "figure5": 1000,
        "figure6": 200,
        "overfitting": 1000,
    },
    timing={"network": "wrn-16-4", "batch_size": 16, "width_factor": 0.274},
)
_MINI = dataclasses.replace(
    _SMALL,
    name="mini",
    description="WRN-10-1, the first 5,000 training images, 8 epochs, "
    "generators of a sixteenth of the paper's width; the first 1,000 test "
    "images at most.",
    folder="mini",
    data_flagfile="cifar10_mini",
    schedules={
        "fgsm_rs": ("--epochs=27", "--drop_after=20"),
        "adt_exp_am": ("--epochs=8", "--drop_after=6"),
        "adt_imp_am": ("--epochs=8", "--drop_after=6"),
        "overfitting": (
            "--train_examples=10000",
            "--epochs=24",
            "--drop_after=18",
        ),
    },
    validation_examples=500,
)
_TINY = Scale(
    "tiny",
    "scikit-learn's 8x8 digits in place of every data set (epsilon 0.15; "
    "for SVHN 0.075), a small CNN, 512 training images, 10 epochs; the "
    "first 100 test images. This scale shows that all parts work and nothing "
    "else.",
    folder="digits",
    data_flagfile="digits",
    flags=("--train_examples=512", "--epochs=10", "--drop_after=8"),
    data={"cifar100": (), "svhn": ("--epsilon=0.075",)},
    schedules={
        "fgsm_rs": ("--epochs=34", "--drop_after=27"),
        "adt_exp_am": ("--epochs=3", "--drop_after=2"),
        "adt_imp_am": ("--epochs=3", "--drop_after=2"),
        "overfitting": ("--epochs=30", "--drop_after=24"),
    },
    validation_examples=200,
    protocols=_protocols(
        100, 20, {"fea": "fea-2", "spsa-256": "spsa-16", **_ONE_SPSA}, 128
    ),
    attack_epochs=2,
    attack_width_factor=0.125,
    images={
        "figure1": 20,
        "figure2": 10,
        "figure4": 100,
        "figure5": 100,
        "figure6": 32,
        "overfitting": 50,
    },
    num_samples=20,
    timing={"width_factor": 0.043},
)
SCALES = {scale.name: scale for scale in (_PAPER, _SMALL, _MINI, _TINY)}


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

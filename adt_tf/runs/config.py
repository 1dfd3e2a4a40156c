"""The configuration of a training run: what to train on what, and how.

    config = Config(method="at_pgd", epsilon=0.15)
    config = Config.parse(["--flagfile=digits/at_pgd", "--epochs=1"])
    config = Config.from_workdir("build/run")
    config.to_flags()                   # the text of a flagfile: flags.txt

Every field is a flag of the commands, with its default, its help and what it
must be. A `Config` that exists has been checked. Nothing here needs
TensorFlow, so that a command answers at once.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from adt_tf.runs import flag_fields, flag_rules, flagfiles
from adt_tf.runs.flag_fields import flag
from adt_tf.runs.method_flags import DEFAULT_METHOD, METHOD_FLAGS

#: The file of a workdir that holds the flags of its run.
FLAGS_FILE = "flags.txt"

#: Values of flags that runs of earlier versions did not write, where they are
#: not today's defaults.
OF_EARLIER_RUNS = {"search_precision": "float32"}


@dataclasses.dataclass(frozen=True)
class Config:
    """The checked values of all flags of a run.

    Example:

    >>> config = Config.parse(["--flagfile=digits/adt_exp", "--epochs=1"])
    >>> config.method, config.epochs, config.drop_after
    ('adt_exp', 1, (25,))
    >>> Config(epochs=0)
    Traceback (most recent call last):
    ValueError: --epochs must be at least 1. Received: 0
    """

    dataset: str = flag(
        "digits",
        "Data set: digits, a TFDS name (cifar10), a .npz file, or a folder of "
        "images with a subfolder for each class, or of .npy files, as in "
        "./pets.",
    )
    image_size: tuple[int, ...] = flag(
        (),
        "Height and width to resize images of a folder, or of array_record "
        "files, to, as in 64,64.",
    )
    stream: bool | None = flag(
        None,
        "Read images from the disk as they are needed (default: where a split "
        "would take more than 512 MiB).",
        decides=False,
    )
    data_dir: str | None = flag(
        None,
        "Directory in which TFDS keeps prepared data sets.",
        decides=False,
    )
    download: bool = flag(
        False,
        "Let TFDS download the data set (counts on the command line only).",
        decides=False,
    )
    train_examples: int | None = flag(
        None, "Train on the first n examples only.", at_least=1
    )
    validation_examples: int = flag(
        0, "Hold n examples out of the training set.", at_least=0
    )
    augment: bool | None = flag(
        None,
        "Random crops and flips (default: for CIFAR, and with --crop=resized).",
    )
    crop: str = flag(
        "shift",
        "Random crops: shift by up to 4 pixels, or a part of the image, "
        "resized.",
        choices=("shift", "resized"),
    )
    randaugment: float = flag(
        0.0,
        "Strength of two random operations, up to 1.",
        at_least=0,
        at_most=1,
    )
    cutout: int = flag(
        0, "Side in pixels of the square that is blanked out.", at_least=0
    )
    cutmix: float = flag(
        0.0,
        "Share of the images that get a box of another one.",
        at_least=0,
        at_most=1,
    )
    extra_data: str | None = flag(
        None,
        "An .npz file of extra training data, with the arrays image and label.",
    )
    extra_fraction: float | None = flag(
        None,
        "Share of each batch that is extra data, such as 0.7.",
        above=0,
        below=1,
    )
    network: str = flag(
        "small_cnn",
        "Classifier: small_cnn, preact_resnet18, wrn-D-K, keras:NAME of "
        "keras.applications, package.module:function of your own (on the "
        "command line only), or a file to start from (.keras, .pt, .pth, "
        ".safetensors, .npz, .onnx, .h5).",
    )
    weights: str | None = flag(
        None,
        "Weights of --network=keras:NAME to start from: imagenet, or a file "
        "of those without a head.",
    )
    frozen_layers: int = flag(
        0,
        "Layers of --network=keras:NAME, from the input on, that stay as they "
        "are.",
        at_least=0,
    )
    activation: str | None = flag(
        None,
        "Activation of --network; without it the network's own.",
        choices=("relu", "silu"),
    )
    architecture: str | None = flag(
        None,
        "Architecture of the weights in a file, such as wrn-28-10; not needed "
        "where their names tell it.",
    )
    method: str = flag(
        DEFAULT_METHOD, "Training method: a name of adt_tf.methods.list()."
    )
    norm: str = flag(
        "linf",
        "Norm of the ball that attacks stay in.",
        choices=("linf", "l2"),
    )
    epsilon: float = flag(
        8 / 255, "Radius of the ball, for pixels in [0, 1].", at_least=0
    )
    num_steps: int | None = flag(
        None, "Number of steps of the inner problem.", at_least=1
    )
    step_size: float | None = flag(
        None, "Step size of the inner problem.", above=0
    )
    step_share: float | None = flag(
        None, "Length of the step, in epsilons (N-FGSM).", above=0
    )
    noise_share: float | None = flag(
        None, "Radius of the noise, in epsilons (N-FGSM).", at_least=0
    )
    num_samples: int | None = flag(
        None, "Monte-Carlo samples a step (ADT-EXP).", at_least=1
    )
    sample_chunk: int | None = flag(
        None, "Samples at once, to save memory (ADT-EXP).", at_least=1
    )
    entropy_weight: float | None = flag(
        None, "Weight of the entropy, lambda (ADT)."
    )
    entropy_reduction: str | None = flag(
        None,
        "Reduction of the entropy over dimensions (ADT).",
        choices=("mean", "sum"),
    )
    entropy: str | None = flag(
        None,
        "Entropy of the perturbation, or of the Gaussian before tanh "
        "(ADT-EXP, ADT-EXP-AM); q's bound, or Stein's estimate (ADT-IMP-AM).",
        choices=("perturbation", "gaussian", "posterior", "stein"),
    )
    family: str | None = flag(
        None,
        "Distributions: gaussian, mixture-N, low-rank-N (ADT-EXP, ADT-EXP-AM) "
        "or flow-N (ADT-EXP-AM).",
    )
    temperature: float | None = flag(
        None, "Temperature of a Langevin chain (AT-PGD).", at_least=0
    )
    entropy_threshold: float | None = flag(
        None, "Hinge of the entropy's mean over a batch (ADT-IMP-AM)."
    )
    gradient_decay: float | None = flag(
        None, "Decay of the gradients over steps (ADT-EXP)."
    )
    adam_epsilon: float | None = flag(
        None, "Epsilon of Adam on mu and rho (ADT-EXP).", above=0
    )
    gradient_scale: float | None = flag(
        None,
        "Factor of the gradients that a generator sees, such as 1/64; by "
        "default they are normalised.",
        above=0,
    )
    beta: float | None = flag(
        None,
        "Weight of the agreement with clean images (TRADES, MART, any ADT "
        "method).",
        at_least=0,
    )
    pairing_weight: float | None = flag(
        None, "Weight of the squared logit difference (ALP).", at_least=0
    )
    label_smoothing: float | None = flag(
        None, "Label smoothing of the outer loss.", at_least=0, below=1
    )
    width_factor: float | None = flag(
        None, "Factor of the widths of the generator and of q.", above=0
    )
    outer_samples: int = flag(
        1, "Samples of the distribution in the outer step.", at_least=1
    )
    sample_temperature: float | None = flag(
        None,
        "Temperature of the softmax of their losses that weighs these samples; "
        "without it they count alike.",
        above=0,
    )
    awp_size: float = flag(
        0.0,
        "Size of the adversarial weight perturbation, relative to each kernel, "
        "such as 0.005.",
        at_least=0,
    )
    awp_warmup: int = flag(
        0, "First epochs without weight perturbation.", at_least=0
    )
    epochs: int = flag(30, "Passes over the training set.", at_least=1)
    batch_size: int = flag(64, "Examples of a training step.", at_least=1)
    learning_rate: float = flag(0.1, "Largest learning rate.", at_least=0)
    schedule: str = flag(
        "steps",
        "Learning rate over the epochs: by --drop_after, half a cosine, or up "
        "and down once.",
        choices=("steps", "cosine", "one_cycle"),
    )
    rate_warmup: float = flag(
        0.0,
        "Epochs over which the rate grows to its value (one_cycle: 30 % of "
        "them, unless given).",
        at_least=0,
    )
    drop_after: tuple[int, ...] = flag(
        (), "Epochs after which the rate is divided by 10, as in 100,150."
    )
    optimizer: str = flag(
        "sgd", "Optimiser of the classifier.", choices=("sgd", "adamw")
    )
    clip_norm: float | None = flag(
        None, "Largest norm of the gradient of all weights.", above=0
    )
    momentum: float = flag(0.9, "Momentum of SGD.", at_least=0)
    weight_decay: float = flag(
        2e-4,
        "L2 term in the gradient, on all weights; of AdamW beside it.",
        at_least=0,
    )
    keep_best: bool = flag(
        False, "Keep the best epoch by robust accuracy (PGD-10)."
    )
    ema_momentum: float | None = flag(
        None,
        "Momentum of averaged weights, such as 0.999, which it grows to.",
        at_least=0,
        below=1,
    )
    epsilon_warmup: int = flag(
        0, "Epochs over which epsilon grows to its value.", at_least=0
    )
    seed: int = flag(0, "Seed of weights, order, augmentation and noise.")
    jit_compile: str = flag(
        "auto",
        "XLA for the inner step; auto: on accelerators.",
        choices=("auto", "true", "false"),
    )
    checkpoint_steps: int = flag(
        0,
        "Save the state every n steps too (0: not).",
        at_least=0,
        decides=False,
    )
    checkpoint_minutes: float = flag(
        10.0,
        "Save the state every n minutes too (0: not).",
        at_least=0,
        decides=False,
    )
    keep_checkpoints: int = flag(
        2,
        "Number of checkpoints that stay on the disk.",
        at_least=1,
        decides=False,
    )
    on_nonfinite: str = flag(
        "stop",
        "After a loss that is not finite: stop, or go back to the last epoch's "
        "end, with other noise, at most 3 times.",
        choices=("stop", "rollback"),
        decides=False,
    )
    precision: str = flag(
        "float32",
        "Precision between a network's first and last layer.",
        choices=("float32", "mixed_float16", "mixed_bfloat16"),
    )
    search_precision: str = flag(
        "auto",
        "Precision of the inner problem alone (PGD, ADT-EXP); auto: bfloat16 "
        "where the CPU has it and the network is large enough.",
        choices=("auto", "float32", "bfloat16"),
    )
    distribute: str = flag(
        "none",
        "All GPUs of this machine, or all machines of TF_CONFIG.",
        choices=("none", "mirrored", "multiworker"),
    )

    def __post_init__(self) -> None:
        flag_fields.check_fields(self)
        flag_rules.check(self)

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Config:
        """Reads flags as a command line has them, flagfiles among them.

        Args:
            arguments: Flags of the form --name=value, --name or --noname.
        """
        flags = flagfiles.expand(arguments)
        return cls(**flag_fields.parse_flags(cls, flags))

    @classmethod
    def from_flagfile(cls, path: str | pathlib.Path) -> Config:
        """Reads a flagfile, wherever `flagfiles.find` finds it."""
        return cls.parse([f"--flagfile={path}"])

    @classmethod
    def from_workdir(
        cls, workdir: str | pathlib.Path, **changes: Any
    ) -> Config:
        """Reads the flags of a run, with some of them changed.

        A workdir may have come from anywhere: its flags cannot name other
        files of flags, start a download or lead to another machine.

        Args:
            workdir: Directory of the run.
            **changes: Values in the place of those of the run.
        """
        path = pathlib.Path(workdir) / FLAGS_FILE
        if not path.is_file():
            raise ValueError(
                f"{workdir} holds no {FLAGS_FILE}, so it is no run's workdir. "
                "Train one first: adt-train --workdir=..."
            )
        try:
            flags = flagfiles.read_lines(path)
            values = flag_fields.parse_flags(cls, flags)
            config = cls(**{**OF_EARLIER_RUNS, **values, "download": False})
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        if "://" in (config.data_dir or "") and "data_dir" not in changes:
            raise ValueError(
                f"{path} says that the data lie on another machine, which "
                "only the command line may say. If you trust it, give the "
                f"same there: --data_dir={config.data_dir}"
            )
        return dataclasses.replace(config, **changes)

    @property
    def network_function(self) -> str | None:
        """The package.module:function that --network names, or None."""
        is_code = flagfiles.names_code(self.network)
        return self.network if is_code else None

    @property
    def network_file(self) -> str | None:
        """The file that --network names, or None where it is a name."""
        is_file = "." in self.network or "/" in self.network
        is_file = is_file and self.network_function is None
        return self.network if is_file else None

    def network_arguments(self) -> dict[str, Any]:
        """Returns the arguments that not every network takes."""
        if not self.network.startswith("keras:"):
            given = self.activation is not None
            return {"activation": self.activation} if given else {}
        return {"weights": self.weights, "frozen_layers": self.frozen_layers}

    def to_flags(self) -> str:
        """Returns the text of a flagfile with all values but None."""
        return "\n".join(flag_fields.format_flags(self)) + "\n"

    def deciding_flags(self) -> set[str]:
        """Returns the flags that decide what a run computes.

        Two configurations are of one run if these are equal.
        """
        fields = dataclasses.fields(self)
        names = [field.name for field in fields if field.metadata["decides"]]
        return set(flag_fields.format_flags(self, names))

    def method_arguments(self) -> dict[str, Any]:
        """Returns what is given of the arguments that methods take."""
        values = {name: getattr(self, name) for name in METHOD_FLAGS}
        if self.search_precision != "bfloat16":
            # What all methods do that have no such argument.
            del values["search_precision"]
        return {
            name: value for name, value in values.items() if value is not None
        }

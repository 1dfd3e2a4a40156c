"""The table of all flags of a training run.

Every field is a flag of the commands, with its default value, its help text
and its range. `adt_tf.runs.config.Config` adds the parsing and the checks.
"""

from __future__ import annotations

import dataclasses

from adt_tf.runs.flag_fields import flag
from adt_tf.runs.method_flags import DEFAULT_METHOD


@dataclasses.dataclass(frozen=True)
class FlagTable:
    """The flags of a training run, as fields with metadata."""

    dataset: str = flag(
        "digits",
        "Data set: digits, the name of a TensorFlow Datasets (TFDS) data set "
        "such as cifar10, an .npz file, or a folder such as ./pets that holds "
        "a subfolder of images for each class, or .npy files.",
    )
    image_size: tuple[int, ...] = flag(
        (),
        "Height and width to which the images of a folder or of array_record "
        "files are resized, such as 64,64.",
    )
    stream: bool | None = flag(
        None,
        "Read images from disk when they are needed, instead of loading all "
        "into memory (default: only if a split takes more than 512 MiB).",
        decides=False,
    )
    data_dir: str | None = flag(
        None,
        "Directory in which TFDS has prepared the data sets.",
        decides=False,
    )
    download: bool = flag(
        False,
        "Let TFDS download the data set. Ignored in a flagfile.",
        decides=False,
    )
    train_examples: int | None = flag(
        None,
        "Number of training examples to use, from the start of the training "
        "set, or of all classes of a folder of images (default: all).",
        at_least=1,
    )
    validation_examples: int = flag(
        0,
        "Number of training examples to hold out for validation.",
        at_least=0,
    )
    augment: bool | None = flag(
        None,
        "Augment images by random crops and flips (default: for CIFAR, and "
        "with --crop=resized).",
    )
    crop: str = flag(
        "shift",
        "Kind of random crop: shift moves the image by up to 4 pixels, "
        "resized cuts out a random part and resizes it.",
        choices=("shift", "resized"),
    )
    randaugment: float = flag(
        0.0,
        "Strength of RandAugment, which applies two random operations to each "
        "image; 0 turns it off.",
        at_least=0,
        at_most=1,
    )
    cutout: int = flag(
        0,
        "Side length, in pixels, of the square that Cutout erases; 0 turns it "
        "off.",
        at_least=0,
    )
    cutmix: float = flag(
        0.0,
        "Fraction of the images into which CutMix pastes a box of another "
        "image.",
        at_least=0,
        at_most=1,
    )
    extra_data: str | None = flag(
        None,
        "An .npz file of extra training data, with arrays `image` and `label`.",
    )
    extra_fraction: float | None = flag(
        None,
        "Fraction of each batch that is taken from --extra_data, such as 0.7.",
        above=0,
        below=1,
    )
    network: str = flag(
        "small_cnn",
        "Classifier: small_cnn, preact_resnet18, wrn-DEPTH-WIDTH, keras:NAME "
        "for a network of keras.applications, package.module:function for "
        "your own Python function (on the command line only), or a file to "
        "start from (.keras, .pt, .pth, .safetensors, .npz, .onnx, .h5, "
        ".index).",
    )
    weights: str | None = flag(
        None,
        "Initial weights of --network=keras:NAME: imagenet, or a weights file "
        "without the head (default: random).",
    )
    frozen_layers: int = flag(
        0,
        "Number of layers of --network=keras:NAME, counted from the input, "
        "that are not trained.",
        at_least=0,
    )
    activation: str | None = flag(
        None,
        "Activation function of --network (default: the network's own).",
        choices=("relu", "silu"),
    )
    architecture: str | None = flag(
        None,
        "Architecture of the weights in a file, such as wrn-28-10. Not needed "
        "if the names of the weights identify it.",
    )
    method: str = flag(
        DEFAULT_METHOD,
        "Training method: a name that adt_tf.methods.list() returns.",
    )
    norm: str = flag(
        "linf",
        "Norm that bounds the perturbations.",
        choices=("linf", "l2"),
    )
    epsilon: float = flag(
        8 / 255,
        "Largest norm of a perturbation, for pixels in [0, 1].",
        at_least=0,
    )
    num_steps: int | None = flag(
        None, "Number of steps of the inner maximisation.", at_least=1
    )
    step_size: float | None = flag(
        None, "Step size of the inner maximisation.", above=0
    )
    step_share: float | None = flag(
        None, "Step size as a multiple of epsilon (N-FGSM).", above=0
    )
    noise_share: float | None = flag(
        None,
        "Radius of the noise as a multiple of epsilon (N-FGSM).",
        at_least=0,
    )
    num_samples: int | None = flag(
        None,
        "Number of Monte Carlo samples in each step (ADT-EXP).",
        at_least=1,
    )
    sample_chunk: int | None = flag(
        None,
        "Number of samples computed at the same time; fewer need less memory "
        "(ADT-EXP).",
        at_least=1,
    )
    entropy_weight: float | None = flag(
        None, "Weight lambda of the entropy term (ADT)."
    )
    entropy_reduction: str | None = flag(
        None,
        "Reduction of the entropy over the dimensions (ADT).",
        choices=("mean", "sum"),
    )
    entropy: str | None = flag(
        None,
        "Kind of entropy: of the perturbation or of the Gaussian before tanh "
        "(ADT-EXP, ADT-EXP-AM); the bound by the network q, or Stein's "
        "estimate (ADT-IMP-AM).",
        choices=("perturbation", "gaussian", "posterior", "stein"),
    )
    family: str | None = flag(
        None,
        "Family of distributions: gaussian, mixture-N, low-rank-N (ADT-EXP, "
        "ADT-EXP-AM) or flow-N (ADT-EXP-AM).",
    )
    temperature: float | None = flag(
        None,
        "Temperature of the Langevin chain (AT-PGD).",
        at_least=0,
    )
    entropy_threshold: float | None = flag(
        None,
        "Threshold of the hinge on the mean entropy of a batch (ADT-IMP-AM).",
    )
    gradient_decay: float | None = flag(
        None, "Factor by which gradients decay from step to step (ADT-EXP)."
    )
    adam_epsilon: float | None = flag(
        None, "Adam's epsilon in the steps on mu and rho (ADT-EXP).", above=0
    )
    gradient_scale: float | None = flag(
        None,
        "Factor of the gradients that a generator receives, such as 1/64 "
        "(default: they are normalised).",
        above=0,
    )
    beta: float | None = flag(
        None,
        "Weight of the agreement with clean images (TRADES, MART, all ADT "
        "methods).",
        at_least=0,
    )
    pairing_weight: float | None = flag(
        None, "Weight of the squared difference of logits (ALP).", at_least=0
    )
    label_smoothing: float | None = flag(
        None, "Label smoothing of the outer loss.", at_least=0, below=1
    )
    width_factor: float | None = flag(
        None,
        "Factor of the number of channels of the generator and of q.",
        above=0,
    )
    outer_samples: int = flag(
        1,
        "Number of samples of the distribution in the outer step.",
        at_least=1,
    )
    sample_temperature: float | None = flag(
        None,
        "Temperature of the softmax over losses that weights the samples of "
        "the outer step (default: equal weights).",
        above=0,
    )
    awp_size: float = flag(
        0.0,
        "Size of the adversarial weight perturbation (AWP), relative to each "
        "kernel, such as 0.005; 0 turns it off.",
        at_least=0,
    )
    awp_warmup: int = flag(0, "Number of epochs before AWP begins.", at_least=0)
    epochs: int = flag(30, "Number of epochs.", at_least=1)
    batch_size: int = flag(
        64, "Number of examples in a training step.", at_least=1
    )
    learning_rate: float = flag(0.1, "Largest learning rate.", at_least=0)
    schedule: str = flag(
        "steps",
        "Schedule of the learning rate: steps divides it by 10 at "
        "--drop_after, cosine follows half a cosine, one_cycle rises and "
        "falls once.",
        choices=("steps", "cosine", "one_cycle"),
    )
    rate_warmup: float = flag(
        0.0,
        "Number of epochs over which the learning rate rises to its value "
        "(one_cycle: 30 % of the epochs, unless given).",
        at_least=0,
    )
    drop_after: tuple[int, ...] = flag(
        (),
        "Epochs after which the learning rate is divided by 10, such as "
        "100,150.",
    )
    optimizer: str = flag(
        "sgd", "Optimiser of the classifier.", choices=("sgd", "adamw")
    )
    clip_norm: float | None = flag(
        None,
        "Largest global norm of the gradient; larger gradients are scaled "
        "down to it.",
        above=0,
    )
    momentum: float = flag(0.9, "Momentum of SGD.", at_least=0)
    weight_decay: float = flag(
        2e-4,
        "Weight decay: an L2 term in the gradient of all weights for SGD, "
        "decoupled for AdamW.",
        at_least=0,
    )
    keep_best: bool = flag(
        False,
        "Keep the weights of the epoch with the best robust accuracy (PGD-10) "
        "on the validation examples.",
    )
    ema_momentum: float | None = flag(
        None,
        "Momentum of the moving average of the weights, such as 0.999; it "
        "grows to this value.",
        at_least=0,
        below=1,
    )
    epsilon_warmup: int = flag(
        0, "Number of epochs over which epsilon rises to its value.", at_least=0
    )
    seed: int = flag(
        0,
        "Seed of the weights, the data order, the augmentation and the noise.",
    )
    jit_compile: str = flag(
        "auto",
        "Whether XLA compiles the inner step; auto: on accelerators only.",
        choices=("auto", "true", "false"),
    )
    checkpoint_steps: int = flag(
        0,
        "Number of steps between checkpoints within an epoch; 0: none.",
        at_least=0,
        decides=False,
    )
    checkpoint_minutes: float = flag(
        10.0,
        "Number of minutes between checkpoints within an epoch; 0: none.",
        at_least=0,
        decides=False,
    )
    keep_checkpoints: int = flag(
        2,
        "Number of checkpoints to keep on disk.",
        at_least=1,
        decides=False,
    )
    on_nonfinite: str = flag(
        "stop",
        "Reaction to a loss that is not finite: stop, or roll back to the end "
        "of the last epoch and continue with other noise, at most 3 times.",
        choices=("stop", "rollback"),
        decides=False,
    )
    precision: str = flag(
        "float32",
        "Precision of the layers between the first and the last.",
        choices=("float32", "mixed_float16", "mixed_bfloat16"),
    )
    search_precision: str = flag(
        "auto",
        "Precision of the inner maximisation only (methods based on PGD, "
        "ADT-EXP); auto: bfloat16 if the CPU supports it and the network is "
        "large enough.",
        choices=("auto", "float32", "bfloat16"),
    )
    distribute: str = flag(
        "none",
        "Devices to train on: mirrored uses all GPUs of this machine, "
        "multiworker all machines of TF_CONFIG.",
        choices=("none", "mirrored", "multiworker"),
    )

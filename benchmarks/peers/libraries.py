"""The attacks of Foolbox, ART and torchattacks behind one signature.

    attack = get(
        "foolbox/pgd-20", network, shape=(3, 32, 32), norm="l2", epsilon=0.5)
    x_adv = attack(images, labels)    # NCHW tensors

Every attack is the library's, called as its documentation describes, with
epsilon, steps and step sizes as arguments. The libraries differ in small ways:
Foolbox's MIM accumulates raw gradients, where the others divide each gradient
by its mean absolute value, and only Foolbox's MIM can have a random start.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

Attack = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def get(
    name: str,
    network: nn.Module,
    *,
    shape: Sequence[int],
    epsilon: float,
    norm: str = "linf",
    num_classes: int = 10,
    seed: int = 0,
) -> Attack:
    """Returns an attack of a library.

    Args:
        name: "library/attack", one of `names()`. A number after it is the
            number of steps, for square the number of queries.
        network: Classifier in inference mode.
        shape: Channels, height and width of an image.
        epsilon: Radius of the ball.
        norm: "linf" or "l2".
        num_classes: Number of classes.
        seed: Seed of torch and NumPy, set before every batch.
    """
    library, _, rest = name.partition("/")
    attack, _, steps = rest.rpartition("-")
    if not re.fullmatch(r"\d+", steps):
        attack, steps = rest, "0"
    if (library, attack) not in _ATTACKS:
        raise ValueError(
            f"Argument `name` must be one of {', '.join(names())}, or have "
            f"another number. Received: name={name!r}"
        )
    if norm != "linf" and (library, attack) in _LINF_ONLY:
        raise ValueError(f"{library} has no {attack} in {norm}.")
    context = _Context(network, tuple(shape), epsilon, norm, num_classes, seed)
    run = _ATTACKS[library, attack](context, int(steps))

    def seeded(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(seed)
        np.random.seed(seed)
        return run(images, labels)

    return seeded


def names(norm: str = "linf") -> list[str]:
    """Returns the names of all attacks in a norm, with the usual steps."""
    return [
        f"{library}/{attack}{_USUAL.get(attack, '')}"
        for library, attack in _ATTACKS
        if norm == "linf" or (library, attack) not in _LINF_ONLY
    ]


_USUAL = {"pgd": "-20", "mim": "-20", "square": "-5000"} | dict.fromkeys(
    ["apgd-ce", "apgd-dlr", "apgd-t", "fab-t"], "-100"
)


_LINF_ONLY = {("torchattacks", "fgsm"), ("torchattacks", "mim")}


class _Context:
    """The classifier, the ball and the seed of an attack."""

    def __init__(self, network, shape, epsilon, norm, num_classes, seed):
        self.network = network
        self.shape = shape
        self.epsilon = epsilon
        self.norm = norm
        # ART takes the order; Foolbox and torchattacks take the prefix.
        self.order = {"linf": np.inf, "l2": 2}[norm]
        self.prefix = {"linf": "Linf", "l2": "L2"}[norm]
        self.num_classes = num_classes
        self.seed = seed

    @functools.cached_property
    def art_classifier(self):
        from art.estimators.classification import PyTorchClassifier

        return PyTorchClassifier(
            self.network,
            loss=nn.CrossEntropyLoss(),
            input_shape=self.shape,
            nb_classes=self.num_classes,
            clip_values=(0.0, 1.0),
            device_type="cpu",
        )


def _foolbox(make):
    """Adapts a function from a context to an attack of Foolbox."""

    def build(context, steps):
        import foolbox

        attack = make(foolbox.attacks, context, steps)
        model = foolbox.PyTorchModel(
            context.network, bounds=(0, 1), device="cpu"
        )

        def run(images, labels):
            _, clipped, _ = attack(
                model, images, labels, epsilons=context.epsilon
            )
            return clipped

        return run

    return build


def _art(make):
    """Adapts a function from a context to an attack of ART."""

    def build(context, steps):
        from art.attacks import evasion

        attack = make(evasion, context, steps)

        def run(images, labels):
            # ART splits larger inputs into batches.
            attack.set_params(batch_size=len(images))
            return torch.from_numpy(
                attack.generate(images.numpy(), labels.numpy())
            )

        return run

    return build


def _torchattacks(
    name: str | dict[str, str],
    arguments: Callable[[_Context, int], dict] = lambda context, steps: {},
) -> Callable:
    """Adapts an attack of torchattacks.

    Args:
        name: Name of its class, or a mapping from a norm to this name.
        arguments: Function from a context and the number of steps to its
            arguments beside the network and epsilon.
    """

    def build(context, steps):
        import torchattacks

        is_same = isinstance(name, str)
        attack = getattr(torchattacks, name if is_same else name[context.norm])
        return attack(
            context.network, eps=context.epsilon, **arguments(context, steps)
        )

    return build


def _steps(context: _Context, steps: int) -> dict:
    """Returns the arguments of steps of epsilon / 4."""
    return {"alpha": context.epsilon / 4, "steps": steps}


def _of_autoattack(
    name: str,
    *,
    steps_name: str | None = "steps",
    classes: bool = False,
    **more,
) -> Callable:
    """Adapts AutoAttack of torchattacks, or one of its attacks.

    Args:
        name: Name of the class.
        steps_name: Argument that takes the number of steps; None for none.
        classes: Whether the attack takes the number of classes.
        **more: Further arguments of the attack.
    """

    def arguments(context, steps):
        values = {"norm": context.prefix, "seed": context.seed, **more}
        if steps_name:
            values[steps_name] = steps
        if classes:
            values["n_classes"] = context.num_classes
        return values

    return _torchattacks(name, arguments)


def _art_attack(
    name: str, arguments: Callable[[_Context, int], dict]
) -> Callable:
    """Adapts an iterative attack of ART.

    Args:
        name: Name of its class.
        arguments: Function from a context and the number of steps to its
            arguments beside the classifier, norm and epsilon.
    """
    return _art(
        lambda evasion, context, steps: getattr(evasion, name)(
            context.art_classifier,
            eps=context.epsilon,
            norm=context.order,
            max_iter=steps,
            verbose=False,
            **arguments(context, steps),
        )
    )


def _art_apgd(loss_type: str) -> Callable:
    return _art_attack(
        "AutoProjectedGradientDescent",
        lambda context, steps: {
            "eps_step": 2 * context.epsilon,
            "nb_random_init": 1,
            "loss_type": loss_type,
        },
    )


_ATTACKS = {
    ("foolbox", "fgsm"): _foolbox(
        lambda attacks, context, steps: getattr(
            attacks, f"{context.prefix}FastGradientAttack"
        )()
    ),
    ("foolbox", "pgd"): _foolbox(
        lambda attacks, context, steps: getattr(
            attacks, f"{context.prefix}ProjectedGradientDescentAttack"
        )(rel_stepsize=0.25, steps=steps, random_start=True)
    ),
    ("foolbox", "mim"): _foolbox(
        lambda attacks, context, steps: getattr(
            attacks, f"{context.prefix}MomentumIterativeFastGradientMethod"
        )(momentum=1.0, rel_stepsize=0.25, steps=steps, random_start=True)
    ),
    ("art", "fgsm"): _art(
        lambda evasion, context, steps: evasion.FastGradientMethod(
            context.art_classifier, norm=context.order, eps=context.epsilon
        )
    ),
    ("art", "pgd"): _art_attack(
        "ProjectedGradientDescentPyTorch",
        lambda context, steps: {
            "eps_step": context.epsilon / 4,
            "num_random_init": 1,
        },
    ),
    ("art", "mim"): _art_attack(
        "MomentumIterativeMethod",
        lambda context, steps: {
            "eps_step": context.epsilon / 4,
            "decay": 1.0,
        },
    ),
    ("art", "apgd-ce"): _art_apgd("cross_entropy"),
    ("art", "apgd-dlr"): _art_apgd("difference_logits_ratio"),
    ("art", "square"): _art_attack(
        "SquareAttack", lambda context, steps: {"p_init": 0.8}
    ),
    ("torchattacks", "fgsm"): _torchattacks("FGSM"),
    ("torchattacks", "pgd"): _torchattacks(
        {"linf": "PGD", "l2": "PGDL2"},
        lambda context, steps: _steps(context, steps) | {"random_start": True},
    ),
    ("torchattacks", "mim"): _torchattacks(
        "MIFGSM", lambda context, steps: _steps(context, steps) | {"decay": 1.0}
    ),
    ("torchattacks", "apgd-ce"): _of_autoattack("APGD", loss="ce"),
    ("torchattacks", "apgd-t"): _of_autoattack("APGDT", classes=True),
    ("torchattacks", "fab-t"): _of_autoattack(
        "FAB", classes=True, multi_targeted=True
    ),
    ("torchattacks", "square"): _of_autoattack(
        "Square", steps_name="n_queries"
    ),
    ("torchattacks", "autoattack"): _of_autoattack(
        "AutoAttack", steps_name=None, classes=True
    ),
}

"""The attacks of Foolbox, ART and torchattacks behind one signature.

    attack = get(
        "foolbox/pgd-20", network, shape=(3, 32, 32), norm="l2", epsilon=0.5)
    x_adv = attack(images, labels)    # NCHW tensors

Every attack is the library's own, called as its documentation says; only
epsilon, steps and step sizes are given. They differ in small ways that belong
to the libraries: Foolbox accumulates MIM's raw gradients, where the others
divide each by its mean absolute value, and only Foolbox's MIM can start at
random.
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
        name: "library/attack", of `names()`; the number behind pgd, mim and
            apgd is that of the steps, behind square that of the queries.
        network: A classifier in inference mode.
        shape: Of an image: channels, height, width.
        epsilon: Radius of the ball.
        norm: "linf" or "l2".
        num_classes: Of the classifier.
        seed: Of torch's and NumPy's random numbers, set before every batch.
    """
    library, _, rest = name.partition("/")
    attack, _, steps = rest.rpartition("-")
    if not re.fullmatch(r"\d+", steps):
        attack, steps = rest, "0"
    if (library, attack) not in _ATTACKS:
        raise ValueError(
            f"Argument `name` must be one of {', '.join(names())}, with other "
            f"numbers if you like. Received: name={name!r}"
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
    """Returns all attacks in a norm, with the usual numbers of steps."""
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
    """What the attacks of all libraries are made from."""

    def __init__(self, network, shape, epsilon, norm, num_classes, seed):
        self.network = network
        self.shape = shape
        self.epsilon = epsilon
        self.norm = norm
        # As ART, Foolbox and torchattacks call it.
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
            # One batch in, one batch through.
            attack.set_params(batch_size=len(images))
            return torch.from_numpy(
                attack.generate(images.numpy(), labels.numpy())
            )

        return run

    return build


def _torchattacks(make):
    """Adapts a function from a context to an attack of torchattacks."""

    def build(context, steps):
        import torchattacks

        return make(torchattacks, context, steps)

    return build


def _art_apgd(loss_type: str) -> Callable:
    return _art(
        lambda evasion, context, steps: evasion.AutoProjectedGradientDescent(
            context.art_classifier,
            eps=context.epsilon,
            norm=context.order,
            eps_step=2 * context.epsilon,
            max_iter=steps,
            nb_random_init=1,
            loss_type=loss_type,
            verbose=False,
        )
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
    ("art", "pgd"): _art(
        lambda evasion, context, steps: evasion.ProjectedGradientDescentPyTorch(
            context.art_classifier,
            eps=context.epsilon,
            norm=context.order,
            eps_step=context.epsilon / 4,
            max_iter=steps,
            num_random_init=1,
            verbose=False,
        )
    ),
    ("art", "mim"): _art(
        lambda evasion, context, steps: evasion.MomentumIterativeMethod(
            context.art_classifier,
            eps=context.epsilon,
            norm=context.order,
            eps_step=context.epsilon / 4,
            decay=1.0,
            max_iter=steps,
            verbose=False,
        )
    ),
    ("art", "apgd-ce"): _art_apgd("cross_entropy"),
    ("art", "apgd-dlr"): _art_apgd("difference_logits_ratio"),
    ("art", "square"): _art(
        lambda evasion, context, steps: evasion.SquareAttack(
            context.art_classifier,
            eps=context.epsilon,
            norm=context.order,
            max_iter=steps,
            p_init=0.8,
            verbose=False,
        )
    ),
    ("torchattacks", "fgsm"): _torchattacks(
        lambda library, context, steps: library.FGSM(
            context.network, eps=context.epsilon
        )
    ),
    ("torchattacks", "pgd"): _torchattacks(
        lambda library, context, steps: getattr(
            library, {"linf": "PGD", "l2": "PGDL2"}[context.norm]
        )(
            context.network,
            eps=context.epsilon,
            alpha=context.epsilon / 4,
            steps=steps,
            random_start=True,
        )
    ),
    ("torchattacks", "mim"): _torchattacks(
        lambda library, context, steps: library.MIFGSM(
            context.network,
            eps=context.epsilon,
            alpha=context.epsilon / 4,
            steps=steps,
            decay=1.0,
        )
    ),
    ("torchattacks", "apgd-ce"): _torchattacks(
        lambda library, context, steps: library.APGD(
            context.network,
            norm=context.prefix,
            eps=context.epsilon,
            steps=steps,
            loss="ce",
            seed=context.seed,
        )
    ),
    ("torchattacks", "apgd-t"): _torchattacks(
        lambda library, context, steps: library.APGDT(
            context.network,
            norm=context.prefix,
            eps=context.epsilon,
            steps=steps,
            n_classes=context.num_classes,
            seed=context.seed,
        )
    ),
    ("torchattacks", "fab-t"): _torchattacks(
        lambda library, context, steps: library.FAB(
            context.network,
            norm=context.prefix,
            eps=context.epsilon,
            steps=steps,
            multi_targeted=True,
            n_classes=context.num_classes,
            seed=context.seed,
        )
    ),
    ("torchattacks", "square"): _torchattacks(
        lambda library, context, steps: library.Square(
            context.network,
            norm=context.prefix,
            eps=context.epsilon,
            n_queries=steps,
            seed=context.seed,
        )
    ),
    ("torchattacks", "autoattack"): _torchattacks(
        lambda library, context, steps: library.AutoAttack(
            context.network,
            norm=context.prefix,
            eps=context.epsilon,
            n_classes=context.num_classes,
            seed=context.seed,
        )
    ),
}

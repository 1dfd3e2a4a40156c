"""Checks for gradient masking: do stronger attacks break more?

    status, evidence, advice = black_box(subject)

On an honest classifier more steps, more room and more knowledge help the
attacker. Where they do not, its gradients mislead the attack, and accuracy
under it says nothing about robustness. `CHECKS` holds them by name:
`single_step`, `random_noise`, `black_box`, `unbounded`, `larger_epsilon`,
`more_steps`, `loss_choice`.

All look at the examples that are classified correctly when clean, and fail
only where `counts` finds more than chance.

References: Athalye et al., Obfuscated Gradients Give a False Sense of
Security, 2018; Carlini et al., On Evaluating Adversarial Robustness, 2019;
Croce and Hein, Reliable Evaluation of Adversarial Robustness with an Ensemble
of Diverse Parameter-free Attacks, 2020.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from adt_tf import attacks, objectives, seeds
from adt_tf.attacks import Attack
from adt_tf.linting import counts
from adt_tf.linting.findings import Verdict
from adt_tf.linting.subject import Subject
from adt_tf.objectives import Objective

# Between losses more is usual than between attacks: on honestly robust models
# the margin beats the cross-entropy by some points.
_LOSS_TOLERANCE = 0.05
# Spread of the logits from which on the cross-entropy climbs towards one wrong
# class. Where it is less it climbs towards all of them at once, which is a weak
# attack on an honest classifier: no sign that gradients mislead.
_SHARP = 40.0
_NUM_STEPS = 20
# Of random noise: half of them anywhere in the ball, half extreme points.
_NUM_DRAWS = 20

_MASKED = (
    "Gradients mislead the attack (gradient masking): report the strongest "
    "attack on each example, black-box ones included, and look for what "
    "breaks the gradient: saturation, quantisation, noise, or single-step "
    "training that has overfitted."
)
_SUSPECT = (
    "This may be chance still: look again at more examples "
    "(`num_examples=512`), and until then report the strongest attack on each "
    "example, black-box ones included."
)


def single_step(subject: Subject) -> Verdict:
    """FGSM finds nothing that PGD misses."""
    fgsm = ~subject.standing(attacks.fgsm(subject.threat_model))
    pgd = ~subject.standing(_pgd(subject))
    return _advised(*counts.compared("FGSM", fgsm, f"PGD-{_NUM_STEPS}", pgd))


def random_noise(subject: Subject) -> Verdict:
    """Noise in the ball finds nothing that gradients miss."""
    images = subject.images[subject.correct]
    labels = subject.labels[subject.correct]
    seed = seeds.fold(seeds.make(subject.seed), 1)
    fallen = np.zeros(len(labels), bool)
    for start in range(0, len(labels), subject.batch_size):
        rows = slice(start, start + subject.batch_size)
        x = tf.constant(images[rows])
        noisy = subject.threat_model.random_noise(x, _NUM_DRAWS, seed)
        for draw in range(_NUM_DRAWS):
            seen = subject.predict(noisy[:, draw].numpy()).argmax(-1)
            fallen[rows] |= seen != labels[rows]
    return _beaten(subject, f"The best of {_NUM_DRAWS} draws of noise", fallen)


def black_box(subject: Subject) -> Verdict:
    """An attack by queries finds nothing that gradients miss."""
    attack = attacks.square(subject.threat_model, num_queries=500)
    return _beaten(
        subject, f"{attack.name} (500 queries)", ~subject.standing(attack)
    )


def unbounded(subject: Subject) -> Verdict:
    """With all of [0, 1] to move in, nothing withstands."""
    radius = _largest_epsilon(subject)
    standing = np.logical_and(
        *(
            subject.standing(
                _pgd(subject, epsilon=radius, num_steps=50, objective=objective)
            )
            for objective in (objectives.cross_entropy, _margin())
        )
    )
    count, n = int(standing.sum()), len(standing)
    status, p = counts.judged(count, n, min(1 / subject.num_classes, 0.05))
    return (
        status,
        f"{count} of {n} examples withstand PGD-50 on the cross-entropy and "
        f"on the margin at epsilon {radius:g} (p = {p:.1g}).",
        _SUSPECT
        if status == "warn"
        else "An image may become any other one at that epsilon, so the "
        f"attack, not the classifier, is what holds. {_MASKED}",
    )


def larger_epsilon(subject: Subject) -> Verdict:
    """What falls at an epsilon falls at every larger one."""
    most = _largest_epsilon(subject)
    radii = sorted({min(most, k * subject.epsilon) for k in (0.5, 1, 2, 4)})
    fallen = [~subject.standing(_pgd(subject, epsilon=r)) for r in radii]
    names = [f"epsilon {radius:.3g}" for radius in radii]
    return _advised(*counts.monotone(np.stack(fallen), names))


def more_steps(subject: Subject) -> Verdict:
    """What falls to a few steps falls to more, and smaller, ones."""
    steps = (1, 5, _NUM_STEPS, 50)
    fallen = [~subject.standing(_pgd(subject, num_steps=t)) for t in steps]
    names = ["1 step", *(f"{t} steps" for t in steps[1:])]
    return _advised(*counts.monotone(np.stack(fallen), names))


def loss_choice(subject: Subject) -> Verdict:
    """The cross-entropy is about as good a guide as the margin.

    Nor does it gain from logits that are divided by their spread, which
    undoes a factor that makes the softmax saturate. Small logits are multiplied
    first: see `_SHARP`.
    """
    plain = ~subject.standing(_pgd(subject))
    if subject.spread < _SHARP:
        sharp = subject.spread / _SHARP
        plain |= ~subject.standing(_pgd(subject), scale=sharp)
    margin = ~subject.standing(_pgd(subject, objective=_margin()))
    scaled = ~subject.standing(_pgd(subject), scale=subject.spread)
    missed = {
        "on the margin": int(np.sum(margin & ~plain)),
        "on logits / spread": int(np.sum(scaled & ~plain)),
    }
    worst = max(missed, key=missed.get)
    status, p = counts.judged(
        missed[worst], len(plain), _LOSS_TOLERANCE, comparisons=len(missed)
    )
    return (
        status,
        f"PGD-{_NUM_STEPS} breaks {plain.sum()} of {len(plain)} examples on "
        f"the cross-entropy, {margin.sum()} on the margin, {scaled.sum()} on "
        f"logits / spread; {missed[worst]} fall only {worst} (p = {p:.1g}).",
        "The cross-entropy may be a poor guide on this classifier: report "
        "attacks on the margin (`attacks.cw`) beside it."
        if status == "warn"
        else "The cross-entropy saturates on this classifier and is a poor "
        "guide: report attacks on the margin (`attacks.cw`), or divide the "
        "logits, and believe no attack on the cross-entropy alone.",
    )


def _largest_epsilon(subject: Subject) -> float:
    return subject.threat_model.largest_epsilon(subject.images.shape[1:])


def _margin() -> Objective:
    # A confidence out of reach: the climb never ends of itself.
    return objectives.margin(1e6)


def _pgd(
    subject: Subject,
    *,
    epsilon: float | None = None,
    num_steps: int = _NUM_STEPS,
    objective: Objective = objectives.cross_entropy,
) -> Attack:
    """PGD that walks 2.5 epsilon in all, so that more steps are finer ones.

    With steps of one size, the path of few would be the start of the path of
    many, and an attack that keeps its best image could only gain by them.
    """
    epsilon = subject.epsilon if epsilon is None else epsilon
    return attacks.pgd(
        subject.threat_model.with_epsilon(epsilon),
        num_steps=num_steps,
        step_size=2.5 * epsilon / num_steps,
        objective=objective,
    )


def _beaten(subject: Subject, name: str, fallen: np.ndarray) -> Verdict:
    """Compares what falls without gradients with what falls to them."""
    white_box = np.logical_or(
        *(
            ~subject.standing(_pgd(subject, objective=objective))
            for objective in (objectives.cross_entropy, _margin())
        )
    )
    strong = f"PGD-{_NUM_STEPS} (cross-entropy and margin)"
    return _advised(*counts.compared(name, fallen, strong, white_box))


def _advised(status: str, evidence: str) -> Verdict:
    return status, evidence, _SUSPECT if status == "warn" else _MASKED


CHECKS = {
    check.__name__: check
    for check in (
        single_step,
        random_noise,
        black_box,
        unbounded,
        larger_epsilon,
        more_steps,
        loss_choice,
    )
}

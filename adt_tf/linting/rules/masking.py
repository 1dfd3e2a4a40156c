"""Checks for gradient masking: stronger attacks should break more examples.

    status, evidence, advice = black_box(subject)

On a classifier without masking, more steps, a larger ball and access to the
gradient help the attacker. If they do not, the gradients mislead the attack,
and accuracy under it says nothing about robustness. `CHECKS` holds the checks
by name: `single_step`, `random_noise`, `black_box`, `unbounded`,
`larger_epsilon`, `more_steps`, `loss_choice`.

Each check uses the examples that are classified correctly when clean, and
fails only if the difference is more than chance (`counts`).

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

# Losses differ more than attacks: on truly robust models the margin breaks
# some per cent more examples than the cross-entropy.
_LOSS_TOLERANCE = 0.05
# Spread of the logits above which the cross-entropy's gradient points to one
# wrong class. Below it points to all of them at once, which is a weak attack
# even on a classifier without masking.
_SHARP = 40.0
_NUM_STEPS = 20
# Draws of random noise: half anywhere in the ball, half extreme points.
_NUM_DRAWS = 20

_MASKED = (
    "The gradients mislead the attack (gradient masking): report the strongest "
    "attack on each example, including black-box attacks, and look for the "
    "cause: saturation, quantisation, noise, or catastrophic overfitting in "
    "single-step training."
)
_SUSPECT = (
    "This may be chance: run lint on more examples (`num_examples=512`), and "
    "until then report the strongest attack on each example, including "
    "black-box attacks."
)


def single_step(subject: Subject) -> Verdict:
    """Checks that PGD breaks the examples that FGSM breaks."""
    fgsm = ~subject.standing(attacks.fgsm(subject.threat_model))
    pgd = ~subject.standing(_pgd(subject))
    return _with_advice(*counts.compare("FGSM", fgsm, f"PGD-{_NUM_STEPS}", pgd))


def random_noise(subject: Subject) -> Verdict:
    """Checks that PGD breaks the examples that random noise breaks."""
    images = subject.images[subject.correct]
    labels = subject.labels[subject.correct]
    seed = seeds.fold(seeds.make(subject.seed), 1)
    fallen = np.zeros(len(labels), bool)
    for start in range(0, len(labels), subject.batch_size):
        rows = slice(start, start + subject.batch_size)
        x = tf.constant(images[rows])
        noisy = subject.threat_model.random_noise(x, _NUM_DRAWS, seed)
        for draw in range(_NUM_DRAWS):
            predicted = subject.predict(noisy[:, draw].numpy()).argmax(-1)
            fallen[rows] |= predicted != labels[rows]
    return _compare_with_pgd(
        subject, f"The best of {_NUM_DRAWS} draws of noise", fallen
    )


def black_box(subject: Subject) -> Verdict:
    """Checks that PGD breaks the examples that a query attack breaks."""
    attack = attacks.square(subject.threat_model, num_queries=500)
    return _compare_with_pgd(
        subject, f"{attack.name} (500 queries)", ~subject.standing(attack)
    )


def unbounded(subject: Subject) -> Verdict:
    """Checks that no example withstands changes anywhere in [0, 1]."""
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
    status, p = counts.judge(count, n, min(1 / subject.num_classes, 0.05))
    return (
        status,
        f"{count} of {n} examples withstand PGD-50 on the cross-entropy and "
        f"on the margin at epsilon {radius:g} (p = {p:.1g}).",
        _SUSPECT
        if status == "warn"
        else "At that epsilon an image may become any other image, so the "
        f"attack has failed; the classifier is not robust. {_MASKED}",
    )


def larger_epsilon(subject: Subject) -> Verdict:
    """Checks that examples that fall at an epsilon fall at larger ones."""
    most = _largest_epsilon(subject)
    radii = sorted({min(most, k * subject.epsilon) for k in (0.5, 1, 2, 4)})
    fallen = [~subject.standing(_pgd(subject, epsilon=r)) for r in radii]
    names = [f"epsilon {radius:.3g}" for radius in radii]
    return _with_advice(*counts.monotone(np.stack(fallen), names))


def more_steps(subject: Subject) -> Verdict:
    """Checks that examples that fall to few steps fall to many small ones."""
    steps = (1, 5, _NUM_STEPS, 50)
    fallen = [~subject.standing(_pgd(subject, num_steps=t)) for t in steps]
    names = ["1 step", *(f"{t} steps" for t in steps[1:])]
    return _with_advice(*counts.monotone(np.stack(fallen), names))


def loss_choice(subject: Subject) -> Verdict:
    """Checks that the cross-entropy breaks about as much as other losses.

    The others are the margin, and the cross-entropy of the logits divided by
    their spread, which removes a factor that saturates the softmax. For small
    logits, the cross-entropy of enlarged logits counts too: see `_SHARP`.
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
    worst = max(missed, key=missed.__getitem__)
    status, p = counts.judge(
        missed[worst], len(plain), _LOSS_TOLERANCE, comparisons=len(missed)
    )
    return (
        status,
        f"PGD-{_NUM_STEPS} breaks {plain.sum()} of {len(plain)} examples on "
        f"the cross-entropy, {margin.sum()} on the margin, {scaled.sum()} on "
        f"logits / spread; {missed[worst]} fall only {worst} (p = {p:.1g}).",
        "The cross-entropy may be a weak objective on this classifier: also "
        "report attacks on the margin (`attacks.cw`)."
        if status == "warn"
        else "The cross-entropy saturates on this classifier and is a weak "
        "objective: report attacks on the margin (`attacks.cw`) or divide the "
        "logits, and trust no attack on the cross-entropy alone.",
    )


def _largest_epsilon(subject: Subject) -> float:
    return subject.threat_model.largest_epsilon(subject.images.shape[1:])


def _margin() -> Objective:
    # The confidence cannot be reached, so the ascent never stops early.
    return objectives.margin(1e6)


def _pgd(
    subject: Subject,
    *,
    epsilon: float | None = None,
    num_steps: int = _NUM_STEPS,
    objective: Objective = objectives.cross_entropy,
) -> Attack:
    """Returns PGD with a total step length of 2.5 epsilon.

    With a fixed step size, fewer steps would be the beginning of the same path.
    An attack that keeps its best image could then never get worse with more
    steps, and `more_steps` could never fail.
    """
    epsilon = subject.epsilon if epsilon is None else epsilon
    return attacks.pgd(
        subject.threat_model.with_epsilon(epsilon),
        num_steps=num_steps,
        step_size=2.5 * epsilon / num_steps,
        objective=objective,
    )


def _compare_with_pgd(
    subject: Subject, name: str, fallen: np.ndarray
) -> Verdict:
    """Compares an attack without gradients with PGD."""
    white_box = np.logical_or(
        *(
            ~subject.standing(_pgd(subject, objective=objective))
            for objective in (objectives.cross_entropy, _margin())
        )
    )
    strong = f"PGD-{_NUM_STEPS} (cross-entropy and margin)"
    return _with_advice(*counts.compare(name, fallen, strong, white_box))


def _with_advice(status: str, evidence: str) -> Verdict:
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

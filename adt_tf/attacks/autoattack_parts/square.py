"""The Square attack: random patches, kept where they lower the margin.

    attack = square(8 / 255)
    x_adv = attack(classifier, x, y).x_adv

A black box: it asks for logits and never for a gradient. So it also breaks
classifiers whose gradients lead nowhere, and an accuracy that is lower under
it than under PGD says that the gradients are masked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf import checks, objectives, seeds, threat_models
from adt_tf.attacks.base import (
    Decided,
    PointAttack,
    Progress,
    Strongest,
    judged,
)
from adt_tf.threat_models import ThreatModel

# The proposals, of 10,000, after which the share of a patch is halved.
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)

# Noise keyed by image takes a loop over the batch, so it is drawn for many
# proposals at once: the loop then costs next to nothing. The price is memory,
# a few numbers for each proposal and image, and what is drawn in vain when the
# batch breaks in mid-block. The number is part of which noise a seed gives.
BLOCK = 100


class Square(PointAttack):
    """Tries squares of one colour at random places, one query each.

        start:    x_adv = clip(x + epsilon s),    s = +-1 a column and channel
        proposal: x_new = clip(x + epsilon s)     in a square, s = +-1 a channel
                          x_adv                   outside it
        if z_y - max_{c != y} z_c is lower at x_new, or x_new is misclassified:
            x_adv <- x_new

    The square has a side of sqrt(p H W), rounded, from 1 to the shorter side
    of the image; p is halved after 10, 50, 200, 500, 1000, 2000, 4000, 6000
    and 8000 of 10,000 proposals, in proportion to `num_queries`.

    Start and proposals, here those of l-infinity, are the threat model's.

    An image is left alone once it is misclassified, and the search ends when
    all are. Place and signs come from the seed, the image and the proposal's
    number: no result depends on the batch.

    Where this departs from AutoAttack's code: that adds +-2 epsilon to x_adv
    and projects on the ball, which comes to the same; it draws one square a
    proposal for the whole batch, never at the last row or column, and makes
    one query more, since it does not count that of the start; and it takes
    equal logits for a success, even where the prediction is still right.

    Args:
        threat_model: The ball and the box.
        num_queries: How many images `solve` shows the classifier at most for
            each example. A call of the attack adds two, to judge the clean
            image and the result.
        p_init: The share of the image that the first squares cover.
        name: How tables call it.

    Reference: Andriushchenko et al., Square Attack: a query-efficient
    black-box adversarial attack via random search, 2020. The defaults are
    those of AutoAttack (Croce and Hein, 2020).

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> Square(Linf(0.1))
    <Square: Linf(epsilon=0.1, bounds=(0.0, 1.0)), num_queries=5000, p_init=0.8>
    """

    def __init__(
        self,
        threat_model: ThreatModel,
        *,
        num_queries: int = 5000,
        p_init: float = 0.8,
        name: str = "Square",
    ):
        if not isinstance(num_queries, int) or num_queries < 1:
            raise ValueError(
                "Argument `num_queries` must be a positive integer. Received: "
                f"num_queries={num_queries}"
            )
        if not 0 < p_init <= 1:
            raise ValueError(
                "Argument `p_init` must be a share of the image, above 0 and "
                f"at most 1; 0.8 is usual. Received: p_init={p_init}"
            )
        super().__init__(threat_model, name)
        threat_model.require(
            "square_start", "square_draws", "square_proposal", by=name
        )
        self.num_queries = num_queries
        self.p_init = p_init

    def __repr__(self) -> str:
        return (
            f"<{self.name}: {self.threat_model}, "
            f"num_queries={self.num_queries}, p_init={self.p_init:g}>"
        )

    @property
    def length(self) -> int:
        """The number of proposals: the first query is that of the start."""
        return self.num_queries - 1

    @property
    def passes(self) -> int:
        """The number of queries."""
        return self.num_queries

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        """Returns the best image after at most `num_queries` queries."""
        del part
        x, y = tf.convert_to_tensor(x), tf.convert_to_tensor(y)
        y = checks.classes_of(y)
        best = self._start(classifier, x, y, seed)
        steps = (tf.constant(0), tf.constant(self.length))
        best = self._search(classifier, x, y, best, steps, seed, jit_compile)
        return tf.stop_gradient(best.x_adv)

    def begin(self, classifier, x, y, *, seed, part=0):
        """Makes the query of the start."""
        best = self._start(classifier, x, y, seeds.fold(seed, 0))
        return Progress(tf.constant(0), best, judged(classifier, x, y))

    def advance(
        self,
        classifier,
        x,
        y,
        progress,
        *,
        seed,
        part=0,
        num_steps,
        jit_compile=False,
    ):
        """Makes further queries."""
        last = tf.minimum(progress.step + num_steps, self.length)
        best = self._search(
            classifier,
            x,
            y,
            progress.state,
            (progress.step, last),
            seeds.fold(seed, 0),
            jit_compile,
        )
        last = tf.where(tf.reduce_all(best.wrong), self.length, last)
        return progress._replace(step=last, state=best)

    def finish(self, classifier, x, y, progress, *, seed, part=0):
        """Returns the best image, or the clean one if it is stronger."""
        found = judged(classifier, progress.state.x_adv, y)
        best = progress.best.updated(found)
        return self._point(progress._replace(best=best))

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples that have fallen: they take no proposal."""
        fallen = progress.state.wrong
        return Decided(fallen, tf.zeros_like(fallen))

    def _start(self, classifier, x, y, seed):
        start = self.threat_model.square_start(x, seeds.fold(seed, -1))
        return _seen(classifier, start, y)

    def _search(self, classifier, x, y, best, steps, seed, jit_compile):
        """Makes the proposals from the first to the last.

        Returns the image of the largest margin, as a `Strongest` whose loss is
        that margin.
        """
        sides = self._sides(x)
        num_draws = self.threat_model.square_draws(x)

        def step(best, draws, side):
            proposal = self.threat_model.square_proposal(
                x, best.x_adv, draws, side
            )
            new = _seen(classifier, proposal, y)
            better = new.wrong | (new.loss > best.loss)
            return best.where(better & ~best.wrong, new)

        if jit_compile:
            step = tf.function(step, jit_compile=True, autograph=False)
        first, last = steps

        def goes_on(t, best):
            return (t < last) & ~tf.reduce_all(best.wrong)

        def block(t, best):
            # A block that was cut is drawn again, the same.
            start = t - t % BLOCK
            draws = seeds.per_example(
                lambda s: tf.random.stateless_uniform([BLOCK, num_draws], s),
                x,
                seeds.fold(seed, start),
            )
            # The loop stays in graph mode: see `GradientAscent`.
            return tf.while_loop(
                lambda t, best: (t < start + BLOCK) & goes_on(t, best),
                lambda t, best: (
                    t + 1,
                    step(best, draws[:, t % BLOCK], sides[t]),
                ),
                (t, best),
            )

        _, best = tf.while_loop(goes_on, block, (first, best))
        return best

    def _sides(self, x):
        """The side of the square of every proposal, in pixels."""
        shape = tf.shape(x)
        area = tf.cast(shape[1] * shape[2], tf.float64)
        share = tf.constant(
            patch_shares(self.num_queries, self.p_init), tf.float64
        )
        side = tf.cast(tf.round(tf.sqrt(share * area)), tf.int32)
        return tf.clip_by_value(side, 1, tf.minimum(shape[1], shape[2]))


def _seen(classifier: Any, x_adv: tf.Tensor, y: tf.Tensor) -> Strongest:
    """Queries the classifier; the loss of what it returns is the margin."""
    logits = checks.as_logits(classifier(x_adv, training=False), classifier)
    wrong = tf.argmax(logits, axis=-1, output_type=y.dtype) != y
    margin = objectives.margin_of(logits, y)
    return Strongest(x_adv, wrong, margin)


def patch_shares(num_queries: int, p_init: float = 0.8) -> np.ndarray:
    """Returns the share p of the image for each of the proposals.

    There is one proposal less than queries: the first query is of the start.

    Example:

    >>> patch_shares(1000)[[0, 1, 2, 999 - 1]]
    array([0.8      , 0.8      , 0.4      , 0.0015625])
    """
    number = np.arange(num_queries - 1) * 10_000 // num_queries
    return p_init / 2.0 ** np.searchsorted(HALVED_AFTER, number)


def square(epsilon: float | ThreatModel, *, num_queries: int = 5000) -> Square:
    """The Square attack, as in AutoAttack.

    Args:
        epsilon: The radius of the ball, or a threat model.
        num_queries: How many images it shows the classifier at most.

    Reference: Andriushchenko et al., Square Attack: a query-efficient
    black-box adversarial attack via random search, 2020.
    """
    return Square(threat_models.get(epsilon), num_queries=num_queries)

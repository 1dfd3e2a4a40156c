"""The Square attack: random patches, kept if they lower the margin.

    attack = square(8 / 255)
    x_adv = attack(classifier, x, y).x_adv

It is a black-box attack, which uses logits but no gradients. So it also works
on classifiers with useless gradients, and if the accuracy is lower than under
PGD, the gradients are masked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf import checks, objectives, seeds, threat_models
from adt_tf.attacks.base import PointAttack
from adt_tf.attacks.results import (
    AdversarialBatch,
    Decided,
    Problem,
    Progress,
    Strongest,
    judged,
)
from adt_tf.checks import arguments
from adt_tf.threat_models import ThreatModel

# The share of a patch is halved after these proposals, of 10,000.
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)

# Noise keyed by image needs a loop over the batch. It is drawn for many
# proposals at once, so that the loop costs almost nothing. The price is memory,
# a few numbers for each proposal and image, and unused draws when all images
# are misclassified in mid-block. The noise of a seed depends on this number.
BLOCK = 100


class Square(PointAttack):
    """Tries squares of one colour at random positions, one query each.

        start:    x_adv = clip(x + epsilon s),    s = +-1 a column and channel
        proposal: x_new = clip(x + epsilon s)     in a square, s = +-1 a channel
                          x_adv                   outside it
        if z_y - max_{c != y} z_c is lower at x_new, or x_new is misclassified:
            x_adv <- x_new

    The square has a side of sqrt(p H W), rounded, from 1 to the shorter side
    of the image; p is halved after 10, 50, 200, 500, 1000, 2000, 4000, 6000
    and 8000 of 10,000 proposals, in proportion to `num_queries`.

    The threat model defines start and proposals; these are for l-infinity.

    A misclassified image is not changed any more, and the search ends when all
    images are misclassified. Position and signs are functions of the seed, the
    image and the proposal's number, so the result does not depend on the batch.

    AutoAttack's code differs in five details. It adds +-2 epsilon to x_adv and
    projects onto the ball, which is equivalent. It draws one square per
    proposal for the whole batch, never at the last row or column. It makes one
    query more, since it does not count the start. It counts equal logits as a
    success, even if the prediction is still correct. It halves p at fixed
    numbers of proposals, so that its 5,000 proposals end with p_init / 128;
    here these numbers are in proportion to the proposals, as in the code of
    Square's authors, and the last p is p_init / 512.

    Args:
        threat_model: Ball and pixel box.
        num_queries: Largest number of images of an example that the classifier
            sees in `solve`. A call of the attack adds two, to judge the clean
            image and the result.
        p_init: Share of the image that the first squares cover.
        name: Name in tables.

    Reference: Andriushchenko et al., Square Attack: a query-efficient
    black-box adversarial attack via random search, 2020. The defaults are
    those of AutoAttack (Croce and Hein, 2020).

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> Square(Linf(0.1))
    <Square: Linf(epsilon=0.1, bounds=(0.0, 1.0)), num_queries=5000, p_init=0.8>
    """

    search = "queries"
    #: The methods of the threat model that the attack needs.
    hooks = ("square_start", "square_draws", "square_proposal")

    def __init__(
        self,
        threat_model: ThreatModel,
        *,
        num_queries: int = 5000,
        p_init: float = 0.8,
        name: str = "Square",
    ) -> None:
        arguments.integer_at_least(1, num_queries=num_queries)
        arguments.number_between(0, 1, "(]", "0.8 is usual.", p_init=p_init)
        super().__init__(threat_model, name)
        threat_model.require(*self.hooks, by=name)
        self.num_queries = num_queries
        self.p_init = p_init

    def __repr__(self) -> str:
        return (
            f"<{self.name}: {self.threat_model}, "
            f"num_queries={self.num_queries}, p_init={self.p_init:g}>"
        )

    @property
    def length(self) -> int:
        """Number of proposals; the first query is the start."""
        return self.num_queries - 1

    @property
    def passes(self) -> int:
        """Number of queries."""
        return self.num_queries

    def _solve(self, problem: Problem) -> tf.Tensor:
        """Returns the best image after at most `num_queries` queries."""
        x, y = map(tf.convert_to_tensor, (problem.x, problem.y))
        problem = problem._replace(x=x, y=checks.classes_of(y))
        steps = (tf.constant(0), tf.constant(self.length))
        best = self._search(problem, self._start(problem), steps)
        return tf.stop_gradient(best.x_adv)

    def begin(self, problem: Problem) -> Progress:
        """Makes the query of the start."""
        clean = judged(problem.classifier, problem.x, problem.y)
        problem = problem._replace(seed=seeds.fold(problem.seed, 0))
        return Progress(tf.constant(0), self._start(problem), clean)

    def advance(
        self, problem: Problem, progress: Progress, num_steps: int | tf.Tensor
    ) -> Progress:
        """Makes further queries."""
        problem = problem._replace(seed=seeds.fold(problem.seed, 0))
        last = tf.minimum(progress.step + num_steps, self.length)
        best = self._search(problem, progress.state, (progress.step, last))
        last = tf.where(tf.reduce_all(best.wrong), self.length, last)
        return progress._replace(step=last, state=best)

    def finish(self, problem: Problem, progress: Progress) -> AdversarialBatch:
        """Returns the best image, or the clean one if it is stronger."""
        seen = judged(problem.classifier, progress.state.x_adv, problem.y)
        best = progress.best.updated(seen)
        return self._point(progress._replace(best=best))

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples that have fallen: they take no proposal."""
        fallen = progress.state.wrong
        return Decided(fallen, tf.zeros_like(fallen))

    def _start(self, problem: Problem) -> Strongest:
        classifier, x, y, seed, *_ = problem
        start = self.threat_model.square_start(x, seeds.fold(seed, -1))
        return _seen(classifier, start, y)

    def _search(
        self,
        problem: Problem,
        best: Strongest,
        steps: tuple[tf.Tensor, tf.Tensor],
    ) -> Strongest:
        """Makes the proposals from the first to the last.

        Returns the image of the largest margin, as a `Strongest` whose loss is
        that margin.
        """
        classifier, x, y, seed, _, jit_compile = problem
        sides = self._sides(x)
        num_draws = self.threat_model.square_draws(x)

        def step(
            best: Strongest, draws: tf.Tensor, side: tf.Tensor
        ) -> Strongest:
            proposal = self.threat_model.square_proposal(
                x, best.x_adv, draws, side
            )
            new = _seen(classifier, proposal, y)
            better = new.wrong | (new.loss > best.loss)
            return best.where(better & ~best.wrong, new)

        if jit_compile:
            step = tf.function(step, jit_compile=True, autograph=False)
        first, last = steps

        def goes_on(t: tf.Tensor, best: Strongest) -> tf.Tensor:
            return (t < last) & ~tf.reduce_all(best.wrong)

        def block(t: tf.Tensor, best: Strongest) -> Any:
            # An interrupted block is drawn again, with the same noise.
            start = t - t % BLOCK
            draws = seeds.per_example(
                lambda s: tf.random.stateless_uniform([BLOCK, num_draws], s),
                x,
                seeds.fold(seed, start),
            )
            # The loop stays in graph mode: see `ascent_loop`.
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

    def _sides(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the side of the square of every proposal, in pixels."""
        shape = tf.shape(x)
        area = tf.cast(shape[1] * shape[2], tf.float64)
        share = tf.constant(
            patch_shares(self.num_queries, self.p_init), tf.float64
        )
        side = tf.cast(tf.round(tf.sqrt(share * area)), tf.int32)
        return tf.clip_by_value(side, 1, tf.minimum(shape[1], shape[2]))


def _seen(classifier: Any, x_adv: tf.Tensor, y: tf.Tensor) -> Strongest:
    """Queries the classifier; the loss of the result is the margin."""
    logits = checks.as_logits(classifier(x_adv, training=False), classifier)
    wrong = tf.argmax(logits, axis=-1, output_type=y.dtype) != y
    margin = objectives.margin_of(logits, y)
    return Strongest(x_adv, wrong, margin)


def patch_shares(num_queries: int, p_init: float = 0.8) -> np.ndarray:
    """Returns the share p of the image for each of the proposals.

    There is one proposal fewer than queries: the first query is the start.

    Example:

    >>> patch_shares(1000)[[0, 1, 2, 999 - 1]]
    array([0.8      , 0.8      , 0.4      , 0.0015625])
    """
    number = np.arange(num_queries - 1) * 10_000 // num_queries
    return p_init / 2.0 ** np.searchsorted(HALVED_AFTER, number)


def square(epsilon: float | ThreatModel, *, num_queries: int = 5000) -> Square:
    """The Square attack, as in AutoAttack.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_queries: Largest number of queries for each example.

    Reference: Andriushchenko et al., Square Attack: a query-efficient
    black-box adversarial attack via random search, 2020.
    """
    return Square(threat_models.get(epsilon), num_queries=num_queries)

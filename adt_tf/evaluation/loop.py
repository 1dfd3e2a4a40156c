"""The loop of an evaluation: attacks in order, on the examples standing."""

from __future__ import annotations

import pathlib
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm

from adt_tf import checks, configs, data, linting
from adt_tf.attacks import Attack
from adt_tf.attacks.resumable import Pieces
from adt_tf.checks import arguments
from adt_tf.evaluation import classes, time_left
from adt_tf.evaluation.batches import batches, sizes_at_most
from adt_tf.evaluation.outcome import NATURAL, RIGHT, ROBUST, Report
from adt_tf.evaluation.state import State, fingerprint, probe

# Images that a classifier is shown at once by attacks that look at many for
# each example, such as SPSA. More are not faster, and an attack that stops when
# its examples have fallen goes on until the last of a batch has.
_IMAGES_AT_ONCE = 1024

# An attack is run in pieces of about this length, so that its bar moves and a
# killed evaluation loses little.
_PIECE_SECONDS = 5.0


def evaluate(
    classifier: Any,
    dataset: Any,
    attacks: Attack | Sequence[Attack],
    *,
    batch_size: int = 128,
    seed: int = 0,
    independent: bool = False,
    keep_examples: bool = False,
    directory: str | pathlib.Path | None = None,
    write: Callable[[Report], None] | None = None,
    class_names: Sequence[str] | None = None,
    verbose: bool = True,
) -> Report:
    """Measures natural accuracy, accuracy under attack, and A_rob.

    Attacks run in order, each on the examples that are still right: an
    example counts as robust only if it withstands them all, so what has fallen
    need not be attacked again. The classifier runs in inference mode. Each
    batch of adversarial images is checked against the threat model before it
    is counted. The result does not depend on `batch_size`.

    About thirty passes of 32 examples look for what makes such a number wrong,
    as `adt_tf.lint` does: no input gradient, random outputs, outputs that
    depend on the batch, another range of the input. What they find stands
    beside A_rob wherever the report shows it, and in `report.warnings`.

    Args:
        classifier: A Keras model from images in [0, 1] to logits, or any
            object that is called as `classifier(images, training=False)`.
        dataset: (images, labels), or a data set of such in any form that
            `adt_tf.data.as_arrays` takes.
        attacks: An attack or several, such as `[adt_tf.attacks.pgd(8 / 255)]`.
        batch_size: Images at once.
        seed: Of the attacks' noise.
        independent: Whether each attack runs on all examples that are right
            when clean: its own accuracy, as tables of attacks have it.
        keep_examples: Whether the report holds the adversarial images.
        directory: Where an interrupted evaluation leaves what it knows, and
            the same call goes on from; None for nowhere.
        write: Is called with the report. Only then is what `directory` holds
            removed, so that nothing is lost if it cannot be written.
        class_names: A name for each class; by default those of an
            `ImageData`, or numbers.
        verbose: Whether to show progress.
    """
    checks.check_classifier(classifier)
    attacks = [attacks] if isinstance(attacks, Attack) else attacks
    names = _checked_names(attacks)
    for attack in attacks:
        attack.check(classifier)
    arguments.integer_at_least(1, batch_size=batch_size)
    bounds = _bounds(attacks)
    images, labels = data.as_examples(dataset, bounds=bounds)
    if class_names is None:
        class_names = getattr(dataset, "class_names", None)
    if class_names is not None:
        class_names = classes.checked_names(class_names, labels)
    checks.check_answer(classifier, images[:1])
    descriptions = {attack.name: repr(attack) for attack in attacks}
    key, logits = "", None
    if directory is not None:
        identities = [configs.fingerprint(attack) for attack in attacks]
        settings = (identities, seed, independent, keep_examples)
        models = [classifier, *(m for a in attacks for m in a.models)]
        key = fingerprint(models, images, labels, settings)
        sources = [m for a in attacks for m in a.models if m not in a.networks]
        logits = probe([classifier, *sources], images)
    state = State(
        [NATURAL, *names],
        images,
        keep_examples=keep_examples,
        directory=directory,
        key=key,
        probe=logits,
    )
    run = _Run(classifier, images, labels, state, seed, batch_size, verbose)
    if state.resumed and not run.agrees(bounds):
        state.reset(images)
    if state.resumed and verbose:
        print("Going on with an evaluation that was interrupted.")
    if state.refused and verbose:
        print(
            "Starting anew: an evaluation was interrupted here, but of a model "
            "that gives other logits or verdicts."
        )
    run.natural()
    warnings = linting.quick_failures(classifier, images, labels, bounds=bounds)
    if warnings and verbose:
        print(*(line for w in warnings for line in w.lines()), sep="\n")
    for row, attack in enumerate(attacks, start=1):
        before = state.outcomes[: 1 if independent else row]
        run.attack(row, attack, np.all(before == RIGHT, axis=0))
    report = Report(
        dict(zip([NATURAL, *names], state.outcomes, strict=True)),
        descriptions,
        seed,
        independent,
        dict(zip([NATURAL, *names], map(float, state.seconds), strict=True)),
        state.examples if keep_examples else None,
        checks.digest(images, labels),
        warnings,
        labels,
        class_names,
    )
    if write is not None:
        write(report)
    state.remove()
    return report


def _checked_names(attacks: Sequence[Attack]) -> list[str]:
    for attack in attacks:
        if not isinstance(attack, Attack):
            raise ValueError(
                "Argument `attacks` must hold attacks such as "
                "`adt_tf.attacks.get('pgd-20', epsilon=8 / 255)`. Received: "
                f"{attack!r}"
            )
    names = [attack.name for attack in attacks]
    if len({NATURAL, ROBUST, *names}) != len(names) + 2:
        raise ValueError(
            "Argument `attacks` must hold attacks with different names, none "
            f"of them {NATURAL!r} or {ROBUST!r}. Received: {names}; set "
            "`attack.name` to tell them apart."
        )
    return names


def _bounds(attacks: Sequence[Attack]) -> tuple[float, float]:
    """The pixel bounds of all attacks, [0, 1] where there is none."""
    bounds = {tuple(attack.threat_model.bounds) for attack in attacks}
    if len(bounds) > 1:
        raise ValueError(
            "Argument `attacks` must hold attacks with the same pixel bounds. "
            f"Received: {sorted(bounds)}"
        )
    return bounds.pop() if bounds else (0.0, 1.0)


class _Run:
    """One pass over attacks, parts and batches."""

    def __init__(
        self, classifier, images, labels, state, seed, batch_size, verbose
    ):
        self.classifier = classifier
        self.images = images
        self.labels = labels
        self.state = state
        self.seed = seed
        self.batch_size = batch_size
        self.verbose = verbose
        self.predict = _predict_function(classifier)
        # How many steps of each attack take a piece's time.
        self._piece: dict[str, int] = {}

    def agrees(self, bounds: tuple[float, float]) -> bool:
        """Whether the saved verdicts on clean images are the classifier's.

        Args:
            bounds: Range of the pixels, which saved images must keep to.
        """
        low, high = bounds[0] - checks.TOLERANCE, bounds[1] + checks.TOLERANCE
        examples = self.state.examples
        if (
            examples.size
            and not low <= examples.min() <= examples.max() <= high
        ):
            return False
        rows = np.flatnonzero(self.state.parts_done[0])
        for chosen, size in batches(rows, self.batch_size):
            clean = self._padded(self.images, chosen, size)
            logits = self.predict(clean).numpy()[: len(chosen)]
            right = logits.argmax(-1) == self.labels[chosen]
            if not np.array_equal(right, self.state.outcomes[0, chosen]):
                return False
        return True

    def natural(self) -> None:
        """Classifies the clean images."""
        rows = np.flatnonzero(self.state.parts_done[0] == 0)
        with self._bar(NATURAL, len(rows)) as bar:
            for chosen, size in batches(rows, self.batch_size):
                clean = self._padded(self.images, chosen, size)
                self._record(0, NATURAL, chosen, clean)
                bar.update(len(chosen))
            self._show(bar, 0, np.ones(len(self.labels), bool))
        self.state.save(now=True)

    def attack(self, row: int, attack: Attack, target: np.ndarray) -> None:
        """Runs all parts of an attack on the examples of a mask."""
        state = self.state
        largest = max(1, _IMAGES_AT_ONCE // attack.images_per_example)
        largest = min(self.batch_size, largest)
        left = np.where(target, attack.num_parts - state.parts_done[row], 0)
        left = np.where(state.outcomes[row] == 0, 0, left)
        clock = time_left.TimeLeft(attack.length)
        with self._bar(attack.name, int(left.sum())) as bar:
            passes = (
                f"{attack.passes:,} pass{'' if attack.passes == 1 else 'es'}"
            )
            bar.set_postfix_str(f"up to {passes} an image")
            for part in range(attack.num_parts):
                parts_left = attack.num_parts - part - 1
                rows = np.flatnonzero(
                    target
                    & (state.parts_done[row] == part)
                    & (state.outcomes[row] != 0)
                )
                batches_left = list(batches(rows, largest))
                for i, (chosen, size) in enumerate(batches_left):
                    standing = np.flatnonzero(
                        target & (state.outcomes[row] != 0)
                    )
                    clock.batch(
                        size,
                        [size for _, size in batches_left[i + 1 :]]
                        + parts_left * sizes_at_most(standing, largest),
                    )
                    x = self._padded(self.images, chosen, size)
                    y = self._padded(self.labels, chosen, size)
                    pieces = Pieces(
                        attack, self.classifier, x, y, seed=self.seed, part=part
                    )
                    x_adv = self._in_pieces(
                        pieces, (row, part), chosen, bar, clock
                    )
                    attack.threat_model.check(x, x_adv)
                    fallen = self._record(row, attack.name, chosen, x_adv)
                    clock.ended()
                    # What has fallen is spared the other parts.
                    bar.total -= fallen * parts_left
                    self._show(bar, row, target, clock)
                    state.save()
            self._show(bar, row, target)
        state.save(now=True)

    def _in_pieces(
        self,
        pieces: Pieces,
        place: tuple[int, int],
        chosen: np.ndarray,
        bar: tqdm.tqdm,
        clock: time_left.TimeLeft,
    ) -> tf.Tensor:
        """Attacks a batch; the bar moves and the state is saved on the way.

        Args:
            pieces: The attack on the batch.
            place: The row of the attack and its part.
            chosen: The examples of the batch.
            bar: Counts them.
            clock: Times them.
        """
        length, before = pieces.attack.length, bar.n
        key = np.array([*place, *chosen])
        pieces.progress = self.state.load_batch(key, pieces.progress)
        num_steps = self._piece.get(pieces.attack.name, 1)
        clock.begun()
        while not pieces.done:
            step = pieces.step
            pieces.advance(num_steps)
            taken = pieces.step - step
            # An attack that has broken all goes to its end at once.
            seconds = clock.stepped(
                taken if taken <= num_steps else 0, length - pieces.step
            )
            if not pieces.done:
                bar.n = before + len(chosen) * pieces.step / length
                bar.set_postfix_str(
                    _told(f"step {pieces.step} of {length}", clock)
                )
                self.state.save_batch(key, pieces.progress)
                seconds = max(seconds, 1e-3)
                fitting = max(1, int(num_steps * _PIECE_SECONDS / seconds))
                num_steps = min(2 * num_steps, fitting)
        self._piece[pieces.attack.name] = num_steps
        bar.n = before
        bar.update(len(chosen))
        return pieces.finish().x_adv

    def _record(
        self, row: int, name: str, chosen: np.ndarray, x_adv: tf.Tensor
    ) -> int:
        """Counts what is classified correctly; returns how many are not."""
        state = self.state
        logits = self.predict(x_adv).numpy()[: len(chosen)]
        spoiled = ~np.isfinite(logits).all(axis=-1)
        if row > 0 and spoiled.any():
            raise ValueError(
                f"The classifier returned NaN or infinite logits for example "
                f"{chosen[spoiled.argmax()]} under {name}, though not for its "
                "clean image: it overflows, or divides by 0, within epsilon "
                "of it. Evaluate it in float32 if it computes in float16, and "
                "look for a quotient, a root or a logarithm in it."
            )
        logits = _checked_logits(logits, self.labels)
        right = logits.argmax(-1) == self.labels[chosen]
        if state.examples.size:
            unbroken = np.all(state.outcomes[:, chosen] != 0, axis=0)
            state.examples[chosen[unbroken]] = x_adv.numpy()[: len(chosen)][
                unbroken
            ]
        state.outcomes[row, chosen] = right
        state.parts_done[row, chosen] += 1
        now = time.monotonic()
        state.seconds[row] += now - self._since
        self._since = now
        return int(np.sum(~right))

    def _show(
        self,
        bar: tqdm.tqdm,
        row: int,
        target: np.ndarray,
        clock: time_left.TimeLeft | None = None,
    ) -> None:
        standing = np.mean(target & (self.state.outcomes[row] != 0))
        bar.set_postfix_str(_told(f"{100 * standing:.2f} % standing", clock))

    def _padded(self, array: np.ndarray, chosen: np.ndarray, size: int):
        """Repeats the last example up to a full batch: few shapes."""
        index = np.minimum(np.arange(size), len(chosen) - 1)
        return tf.constant(array[chosen[index]])

    def _bar(self, name: str, total: int) -> tqdm.tqdm:
        self._since = time.monotonic()
        return tqdm.tqdm(
            total=total,
            desc=f"{name:<10}",
            unit="image",
            disable=not self.verbose,
            bar_format="{desc} {bar:24} {n:.0f}/{total:.0f} "
            "[{elapsed}]{postfix}",
        )


def _told(text: str, clock: time_left.TimeLeft | None) -> str:
    """Adds what is known of the time left."""
    seconds = clock and clock.seconds
    if not seconds:
        return text
    return f"{text}, at most {time_left.upper(seconds)} left"


_PREDICT = weakref.WeakKeyDictionary()


def _predict_function(classifier: Any) -> Any:
    """Traces a classifier once, and forgets it with it."""
    if classifier not in _PREDICT:
        # A strong reference here would keep the classifier alive for ever.
        reference = weakref.ref(classifier)
        _PREDICT[classifier] = tf.function(
            lambda x: checks.as_logits(
                reference()(x, training=False), reference()
            ),
            autograph=False,
            reduce_retracing=True,
        )
    return _PREDICT[classifier]


def _checked_logits(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    if logits.ndim != 2 or labels.max() >= logits.shape[1]:
        raise ValueError(
            f"Labels go up to {labels.max()}, so the classifier must return "
            f"logits (batch, {labels.max() + 1} or more). Received: logits of "
            f"shape {logits.shape}."
        )
    if not np.isfinite(logits).all():
        raise ValueError(
            "The classifier returned NaN or infinite logits: no accuracy can "
            "be told from them. Check its weights (did training diverge?)."
        )
    if bool(checks.looks_like_softmax(tf.constant(logits))):
        raise ValueError(checks.SOFTMAX_MESSAGE)
    return logits

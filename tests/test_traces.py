"""How often an evaluation traces: once an attack, whatever parts and sizes.

The first batch is traced with its size. The next size is traced once more, for
batches of any size, and that trace serves all others.
"""

import numpy as np
import pytest

import adt_tf
from adt_tf import attacks
from tests.support.models import make_convolutional, predicted


def short(name, ball, images):
    """An attack of a protocol, with fewer steps and parts."""
    if name == "fea":
        return attacks.fea(ball, targets=images, num_targets=3, num_steps=2)
    if name == "square":
        return attacks.square(ball, num_queries=40)
    if name in ("apgd-t", "fab-t"):
        recipe = {"apgd-t": attacks.apgd_t, "fab-t": attacks.fab_t}[name]
        return recipe(ball, num_steps=6, num_targets=3)
    return attacks.get(name, ball)


PROTOCOLS = {
    "paper": ["fgsm", "pgd-4", "pgd-9", "mim-random-4", "cw-4", "fea"],
    "autoattack": ["apgd-ce-6", "apgd-t", "fab-t", "square"],
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_parts_and_sizes_share_traces(protocol):
    classifier = make_convolutional()
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(75, 8, 8, 1)).astype("float32")
    y = predicted(classifier, x)
    chosen = [short(name, 0.01, (x, y)) for name in PROTOCOLS[protocol]]
    adt_tf.evaluate(
        classifier,
        (x, y),
        chosen,
        batch_size=64,
        independent=True,
        verbose=False,
    )
    counts = {
        (attack.name, task): function.experimental_get_tracing_count()
        for attack in chosen
        for (task, _), function in attack._compiled[classifier][1].items()
    }
    print(f"\n{protocol}: {sum(counts.values())} traces", counts)
    # Batches of 64 and 16 rows.
    assert len(counts) == 3 * len(chosen)
    assert max(counts.values()) <= 2


def test_several_evaluations_are_not_taken_for_retraces(caplog):
    """New attack objects are traced anew, which TensorFlow must not deplore."""
    classifier = make_convolutional()
    x = np.random.default_rng(0).uniform(size=(4, 8, 8, 1)).astype("float32")
    y = predicted(classifier, x)
    with caplog.at_level("WARNING", logger="tensorflow"):
        for _ in range(7):
            adt_tf.evaluate(
                classifier, (x, y), attacks.fgsm(0.01), verbose=False
            )
    assert not [r for r in caplog.records if "retracing" in r.getMessage()]

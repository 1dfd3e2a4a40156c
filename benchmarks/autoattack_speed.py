"""Compares AutoAttack's processor time with torchattacks' on one classifier.

    python benchmarks/peers/export_weights.py --workdir=build/mini/at_pgd \\
      --examples=200 --output=build/peers/mini-at_pgd.npz
    python benchmarks/autoattack_speed.py --workdir=build/mini/at_pgd \\
      --weights=build/peers/mini-at_pgd.npz

Both run the standard version on the images in the file of weights, the first
images of the run's test set. Writes build/bench/autoattack_speed.json: the
ratio of processor seconds, which depends less on other work of the machine than
the clock does, and how many more images withstand our attack. Our time includes
tracing.
"""

from __future__ import annotations

import json
import time

import measuring
from absl import app, flags

measuring.prepare_tensorflow()

WORKDIR = flags.DEFINE_string(
    "workdir", None, "Directory of the run.", required=True
)
WEIGHTS = flags.DEFINE_string(
    "weights", None, "File of export_weights.py.", required=True
)
ROUNDS = flags.DEFINE_integer("rounds", 1, "Number of rounds.")


def main(_) -> None:
    """Runs both attacks in turns."""
    import numpy as np

    import adt_tf
    from adt_tf.runs.workdir import Workdir

    with np.load(WEIGHTS.value) as file:
        examples = file["input_0"], file["labels"]
        epsilon = json.loads(str(file["details"]))["epsilon"]
    classifier = Workdir(WORKDIR.value).load_classifier()
    peer = measuring.Peer(
        task="attack",
        attack="torchattacks/autoattack",
        weights=WEIGHTS.value,
        batch=len(examples[0]),
        epsilon=epsilon,
    )
    times, more = {"ours": [], "torchattacks": []}, []
    for _ in range(ROUNDS.value):
        start = time.process_time()
        report = adt_tf.evaluate(
            classifier,
            examples,
            adt_tf.attacks.autoattack(epsilon),
            verbose=False,
        )
        times["ours"].append(time.process_time() - start)
        answer = peer.answer()
        times["torchattacks"].append(answer["cpu_seconds"])
        standing = round(report.robust_accuracy * len(examples[0]))
        more.append(standing - answer["standing"])
    peer.close()
    case = f"{len(examples[0])} images of {WORKDIR.value}"
    measuring.write(
        "autoattack_speed",
        [
            measuring.ratio_row(
                f"AutoAttack, processor time over torchattacks', {case}",
                times,
                "ours",
                "torchattacks",
                aim="<= 0.6",
            ),
            measuring.value_row(
                f"AutoAttack, more images withstand than torchattacks', {case}",
                more,
                "images",
                aim="<= 1",
            ),
        ],
    )


if __name__ == "__main__":
    app.run(main)

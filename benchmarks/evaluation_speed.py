"""How fast an evaluation is: survivors only, and PGD-20 beside other libraries.

    python benchmarks/evaluation_speed.py --workdir=build/mini/at_pgd
    python benchmarks/evaluation_speed.py --peers=.venv-peers/bin/python

The first times the attacks of the protocol `paper` on a trained classifier in
three ways, interleaved: each part on the examples still standing, as
`evaluate` runs them; each attack on all that are right when clean
(`--independent`); and everything on everything. FeaAttack has fewer targets
than in the protocol, which makes the ratios smaller than they are there.

The second times PGD-20 on one network in Foolbox, ART and torchattacks (see
peers/requirements.txt for their environment) and here, interleaved. Here the
attack also keeps the strongest image that it meets, which takes two forward
passes more.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

from absl import flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import common  # noqa: E402

common.define_experiment_flags()
flags.DEFINE_string("workdir", None, "A trained run, for the survivors.")
flags.DEFINE_string("peers", None, "The Python with the other libraries.")
flags.DEFINE_integer("examples", 256, "Of the survivors' run.")
flags.DEFINE_integer("fea_targets", 4, "Of FeaAttack in it.")
flags.DEFINE_integer("images", 128, "At once in PGD-20.")
flags.DEFINE_integer("rounds", 5, "Interleaved rounds of PGD-20.")
flags.DEFINE_boolean("frozen", True, "The others' weights need no gradient.")
LIBRARIES = ("foolbox", "art", "torchattacks")
NETWORK, SHAPE = "wrn-10-1", (32, 32, 3)


def timed(work) -> float:
    """Returns the seconds that the work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def survivors(values) -> None:
    """Prints what it saves to attack the survivors only."""
    common.read_workdir(values.workdir)
    config = common.experiment_config()
    import numpy as np

    import adt_tf
    from adt_tf import assessment, data, workdir

    classifier = workdir.load_classifier(values.workdir)
    test = workdir.load_data(config, "test", values.examples)
    x, y = data.as_arrays(test)
    names = ["fgsm", "pgd-20", "pgd-100", "mim-20", "cw-30"]
    chosen = assessment.build_attacks(
        [*names, f"fea-{values.fea_targets}"], config["epsilon"], test
    )
    size = min(128, len(x))

    def everything():
        for attack in chosen:
            for start in range(0, len(x), size):
                rows = np.arange(start, start + size) % len(x)
                attack(classifier, x[rows], y[rows])

    def evaluated(independent):
        return adt_tf.evaluate(
            classifier, (x, y), chosen, independent=independent, verbose=False
        )

    report = evaluated(False)  # traces everything once
    evaluated(True)
    work = {
        "survivors": lambda: evaluated(False),
        "independent": lambda: evaluated(True),
        "everything": everything,
    }
    seconds = {name: [] for name in work}
    for _ in range(2):
        for name, run in work.items():
            seconds[name].append(timed(run))
    natural = 100 * report.accuracy["natural"]
    print(
        f"{values.workdir}: {len(x)} examples, {natural:.1f} % natural, A_rob "
        f"{100 * report.robust_accuracy:.1f} %"
    )
    for name, taken in seconds.items():
        ratios = np.array(taken) / seconds["survivors"]
        told = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"  {name:<12} {min(taken):6.1f} s, over survivors: {told}")


class Peer:
    """A library's PGD-20 in a process of its own; see peers/worker.py."""

    def __init__(self, python: str, **task):
        self.process = subprocess.Popen(
            [python, str(ROOT / "benchmarks" / "peers" / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.chosen = self.ask(task)["chosen"]

    def ask(self, question: dict) -> dict:
        """Sends a line and reads the answer."""
        print(json.dumps(question), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline() or "{}")
        if "error" in answer or not answer:
            raise ValueError(f"{question}: {answer.get('error', 'no answer')}")
        return answer

    def close(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def throughput(values) -> None:
    """Prints PGD-20's images per second, here and in other libraries."""
    import numpy as np

    import adt_tf

    generator = np.random.default_rng(0)
    x = generator.uniform(size=(values.images, *SHAPE)).astype("float32")
    classifier = adt_tf.networks.get(NETWORK, input_shape=SHAPE)
    y = generator.integers(0, 10, values.images).astype("int32")
    attack = adt_tf.attacks.pgd(8 / 255, num_steps=20)

    def here():
        return attack(classifier, x, y).x_adv.numpy()

    here()
    peers = {
        name: Peer(
            values.peers,
            task="pgd",
            library=name,
            network=NETWORK,
            batch=values.images,
            steps=20,
            frozen=values.frozen,
        )
        for name in LIBRARIES
    }
    seconds = {name: [] for name in ("adt_tf", *LIBRARIES)}
    for _ in range(values.rounds):
        seconds["adt_tf"].append(timed(here))
        for name, peer in peers.items():
            seconds[name].append(peer.ask({"run": True})["seconds"])
    weights = "frozen" if values.frozen else "not frozen"
    print(f"PGD-20, {NETWORK}, {values.images} images, weights {weights}")
    for name, taken in seconds.items():
        low, ratio, high = np.percentile(
            np.array(taken) / seconds["adt_tf"], [25, 50, 75]
        )
        speed = values.images / np.median(taken)
        chosen = peers[name].chosen if name in peers else ""
        print(
            f"  {name:<13} {speed:6.1f} images/s, adt_tf is {ratio:.2f} times "
            f"as fast ({low:.2f} to {high:.2f}) {chosen}"
        )
    for peer in peers.values():
        peer.close()


def main() -> None:
    """Times what is asked for."""
    values = flags.FLAGS
    if not (values.workdir or values.peers):
        raise ValueError("Give --workdir, --peers, or both.")
    if values.workdir:
        survivors(values)
    if values.peers:
        throughput(values)


if __name__ == "__main__":
    common.run(main)

"""Times evaluations of survivors only, and PGD-20 in several libraries.

    python benchmarks/evaluation_speed.py --workdir=build/mini/at_pgd
    python benchmarks/evaluation_speed.py

The first command times the attacks of the protocol `paper` on a trained
classifier in three ways, interleaved: each part of an attack on the examples
that have withstood so far, as `evaluate` runs them; each attack on all examples
that are classified correctly (`--independent`); and all attacks on all
examples. FeaAttack has fewer targets than in the protocol, which makes the
ratios smaller.

The second command times PGD-20 on one network in Foolbox, ART, torchattacks
(peers/requirements.txt) and adt_tf, interleaved. Each library runs twice: as
documented, with a PyTorch model in eval mode, and tuned, with frozen weights
and the faster memory format. Our attack also returns the strongest image of all
steps, which takes two more forward passes. Writes
build/bench/evaluation_speed.json.
"""

import measuring
from absl import flags

from adt_tf.cli import command
from adt_tf.cli.flags import OF_EVALUATION, config_of_run, define_config
from adt_tf.cli.quiet_import import import_tensorflow

measuring.prepare_tensorflow()

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "workdir", None, "Trained run of the first command.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "examples", 256, "Number of its examples.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "fea_targets", 4, "Number of targets of FeaAttack.", flag_values=FLAGS
)
flags.DEFINE_integer("images", 128, "Batch size of PGD-20.", flag_values=FLAGS)
flags.DEFINE_integer(
    "rounds", 5, "Number of rounds of PGD-20.", flag_values=FLAGS
)
flags.DEFINE_string(
    "peer_network",
    "wrn-10-1",
    "Network that PGD-20 attacks.",
    flag_values=FLAGS,
)
define_config(FLAGS, shown=OF_EVALUATION)
# Aims of our images per second over each library's.
LIBRARIES = {"foolbox": ">= 2.2", "art": ">= 2.2", "torchattacks": ">= 1.5"}
# Changes of the PyTorch model before a library attacks it.
FORMS = {
    "as documented": {"frozen": False, "channels_last": False},
    "tuned": {"frozen": True},
}


def survivors(values) -> None:
    """Prints the time that attacking only the survivors saves."""
    config = config_of_run(values, values.workdir)
    import numpy as np

    import adt_tf
    from adt_tf import data
    from adt_tf.runs import evaluation_job, inputs
    from adt_tf.runs.workdir import Workdir

    classifier = Workdir(values.workdir).load_classifier()
    test = inputs.load_data(config, "test", values.examples)
    x, y = data.as_arrays(test)
    names = ["fgsm", "pgd-20", "pgd-100", "mim-20", "cw-30"]
    attacks = evaluation_job.build_attacks(
        [*names, f"fea-{values.fea_targets}"], config.epsilon, test
    )
    size = min(128, len(x))

    def everything():
        for attack in attacks:
            for start in range(0, len(x), size):
                rows = np.arange(start, start + size) % len(x)
                attack(classifier, x[rows], y[rows])

    def evaluated(independent):
        return adt_tf.evaluate(
            classifier, (x, y), attacks, independent=independent, verbose=False
        )

    report = evaluated(False)  # The first calls trace the functions.
    evaluated(True)
    work = {
        "survivors": lambda: evaluated(False),
        "independent": lambda: evaluated(True),
        "everything": everything,
    }
    seconds = {name: [] for name in work}
    for _ in range(2):
        for name, run in work.items():
            seconds[name].append(measuring.seconds_of(run))
    natural = 100 * report.accuracy["natural"]
    print(
        f"{values.workdir}: {len(x)} examples, {natural:.1f} % natural, A_rob "
        f"{100 * report.robust_accuracy:.1f} %"
    )
    for name, times in seconds.items():
        ratios = np.array(times) / seconds["survivors"]
        text = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"  {name:<12} {min(times):6.1f} s, over survivors: {text}")


def throughput(values) -> None:
    """Prints PGD-20's images per second, here and in other libraries."""
    import adt_tf

    x, y = measuring.batch_of(values.images)
    network = values.peer_network
    classifier = adt_tf.networks.get(network)
    attack = adt_tf.attacks.pgd(measuring.EPSILON, num_steps=20)
    peers = {
        (name, form): measuring.Peer(
            task="pgd",
            library=name,
            network=network,
            batch=values.images,
            steps=20,
            **fields,
        )
        for form, fields in FORMS.items()
        for name in LIBRARIES
    }
    ours = {"adt_tf": lambda: attack(classifier, x, y).x_adv.numpy()}
    times = measuring.interleaved(ours | peers, values.rounds)
    rows = [
        measuring.ratio_row(
            f"PGD-20 images/s over {name}'s, {form}, {network}, "
            f"{values.images} images",
            times,
            (name, form),
            "adt_tf",
            aim=LIBRARIES[name],
        )
        for name, form in peers
    ]
    for peer in peers.values():
        peer.close()
    measuring.write("evaluation_speed", rows)


def main() -> None:
    """Times the survivors of a run or, without --workdir, PGD-20."""
    import_tensorflow()
    if FLAGS.workdir:
        survivors(FLAGS)
    else:
        throughput(FLAGS)


if __name__ == "__main__":
    command.run("evaluation_speed.py", __doc__, FLAGS, main)

"""Makes tables and figures of the paper.

python scripts/reproduce.py --target=table1,figure2 --scale=tiny
python scripts/reproduce.py --target=all --scale=mini --data_dir=DIR --dry_run

Trains and attacks what is missing, reuses what is there, and writes each table
beside the paper's numbers and each figure to OUTPUT (build/reproduce/SCALE).
Interrupted, the same command goes on where it stopped.
"""

import pathlib

import common
from absl import flags

flags.DEFINE_list(
    "target", None, "table1 ... table11, figure1 ... figure7, claims, or all."
)
flags.DEFINE_enum(
    "scale",
    "tiny",
    ["paper", "mini", "tiny"],
    "paper: for GPUs; mini: hours on two cores; tiny: about a minute each.",
)
flags.DEFINE_string(
    "output", None, "Directory (default: build/reproduce/SCALE)."
)
flags.DEFINE_boolean(
    "dry_run", False, "Print what would be done, and how long it would take."
)
flags.DEFINE_boolean(
    "measure",
    True,
    "With --dry_run: time a step of each method whose cost is not known yet.",
)
flags.DEFINE_list(
    "seeds", ["0"], "Train each row of a table with each of them."
)
flags.DEFINE_list(
    "rows", None, "Make only these runs of a table, such as at_pgd,adt_exp."
)
flags.DEFINE_integer(
    "epochs", None, "Other than the scale's, to try things out."
)
flags.DEFINE_string("data_dir", None, "Where TFDS keeps prepared data sets.")
flags.DEFINE_boolean("download", False, "Let TFDS download data sets.")
flags.mark_flag_as_required("target")


def main() -> None:
    """Plans or makes the targets."""
    from adt_tf import reproduction
    from adt_tf.reproduction import scales

    values = flags.FLAGS
    names = reproduction.choose(values.target)
    given = [
        flags.FLAGS[name].serialize()
        for name in ("epochs", "data_dir", "download")
        if values[name].present
    ]
    study = reproduction.Study(
        scales.get(values.scale),
        pathlib.Path(values.output or f"build/reproduce/{values.scale}"),
        _configure,
        seeds=_seeds(values.seeds),
        flags=tuple(given),
        rows=tuple(values.rows) if values.rows else None,
    )
    if values.dry_run:
        print(reproduction.describe(names, study, measure=values.measure))
    else:
        reproduction.reproduce(names, study)


def _configure(arguments):
    from adt_tf import reproduction

    values = common.parse_experiment(arguments)
    return reproduction.Configuration(
        common.experiment_config(values),
        lambda workdir: common.claim_workdir(workdir, values),
    )


def _seeds(texts):
    try:
        seeds = tuple(int(text) for text in texts)
    except ValueError:
        seeds = ()
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ValueError(
            "--seeds must be different whole numbers from 0 on, as in 0,1,2. "
            f"Received: {','.join(texts)}"
        )
    return seeds


if __name__ == "__main__":
    common.run(main)

"""Reproduces tables and figures of the paper.

    adt-reproduce --target=table1,figure2 --scale=tiny
    adt-reproduce --target=all --scale=mini --data_dir=DIR --dry_run
    adt-reproduce --target=table1 --scale=paper --released=DIR --rows=released

The command trains and attacks the missing classifiers, reuses existing
results, and writes each table, with the paper's numbers, and each figure to
--output. If it is interrupted, the same command continues where it stopped.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from absl import flags

from adt_tf.cli import command
from adt_tf.cli.quiet_import import import_tensorflow

FLAGS = flags.FlagValues()
flags.DEFINE_list(
    "target",
    None,
    "Tables and figures to produce: table1 ... table11, figure1 ... figure7, "
    "autoattack, recipe, generalisation, overfitting, probabilistic, claims, "
    "or all.",
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "scale",
    "tiny",
    ["paper", "small", "mini", "tiny"],
    "Size of the experiments. paper: for GPUs; small: all of CIFAR-10, days "
    "on two cores; mini: hours on two cores; tiny: about a minute each.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "output",
    None,
    "Directory for the results (default: build/reproduce/SCALE).",
    flag_values=FLAGS,
)
flags.DEFINE_boolean(
    "dry_run",
    False,
    "Print the planned work and its estimated time, and exit.",
    flag_values=FLAGS,
)
flags.DEFINE_boolean(
    "measure",
    True,
    "With --dry_run: time one step of each method whose cost is unknown.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "seeds",
    ["0"],
    "Seeds; each row of a table is trained once with each seed.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "rows",
    None,
    "Rows of a table to train, such as at_pgd,adt_exp (default: all); "
    "`released` evaluates only the models of --released.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "released",
    None,
    "Directory of released models for Table 1. Any of the files at_pgd_plus.*, "
    "adt_exp.*, adt_exp_am.* and adt_imp_am.* may be missing.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "epochs",
    None,
    "Number of epochs, instead of that of the scale, for a quick trial.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "data_dir",
    None,
    "Directory in which TFDS has prepared the data sets.",
    flag_values=FLAGS,
)
flags.DEFINE_boolean(
    "download",
    False,
    "Let TFDS download the data sets. Ignored in a flagfile.",
    flag_values=FLAGS,
)


def reproduce() -> None:
    """Plans or produces the targets."""
    targets = command.required(FLAGS, "target")
    seeds = _seeds(FLAGS.seeds)
    import_tensorflow()
    from adt_tf import reproduction
    from adt_tf.reproduction import scales

    names = reproduction.choose(targets)
    study = reproduction.Study(
        scales.get(FLAGS.scale),
        pathlib.Path(FLAGS.output or f"build/reproduce/{FLAGS.scale}"),
        seeds=seeds,
        flags=tuple(
            FLAGS[name].serialize()
            for name in ("epochs", "data_dir", "download")
            if FLAGS[name].present
        ),
        rows=_rows(FLAGS.rows, FLAGS.released),
        released=FLAGS.released and pathlib.Path(FLAGS.released),
    )
    if FLAGS.dry_run:
        print(reproduction.describe(names, study, measure=FLAGS.measure))
    else:
        reproduction.reproduce(names, study)


def _rows(
    names: Sequence[str] | None, released: str | None
) -> tuple[str, ...] | None:
    if released is not None and names == ["released"]:
        return ()
    return tuple(names) if names else None


def _seeds(texts: Sequence[str]) -> tuple[int, ...]:
    try:
        seeds = tuple(int(text) for text in texts)
    except ValueError:
        seeds = ()
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ValueError(
            "--seeds must be distinct integers of at least 0, as in 0,1,2. "
            f"Received: {','.join(texts)}"
        )
    return seeds


def main() -> None:
    """Runs adt-reproduce."""
    command.run("adt-reproduce", __doc__, FLAGS, reproduce)

"""Writes an HTML page on the robustness of evaluated runs.

    adt-report --workdirs=DIR1,DIR2 --output=DIR3
    adt-report --workdirs=model-evaluation.json --output=DIR3

DIR3/index.html is a single file. A .json file of adt-evaluate names the model
that it is about, such as that of adt-evaluate --model=model.keras.
--protocol=NAME reports the results of adt-evaluate --protocol=NAME in
workdirs. --noanalyses leaves out the accuracy against epsilon and the
analyses, which take long for large networks.
"""

from absl import flags

from adt_tf.cli import command
from adt_tf.cli.quiet_import import import_tensorflow

FLAGS = flags.FlagValues()
flags.DEFINE_list(
    "workdirs",
    None,
    "Directories of runs that were measured by adt-evaluate, or .json files "
    "that it wrote.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "output", None, "Directory of the report.", flag_values=FLAGS
)
flags.DEFINE_string(
    "protocol",
    None,
    "NAME of the file evaluation-NAME.json to read in workdirs (default: "
    "evaluation.json).",
    flag_values=FLAGS,
)
flags.DEFINE_boolean(
    "analyses",
    True,
    "Include the accuracy against epsilon, and the analyses.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "images", 8, "Number of images to show.", lower_bound=1, flag_values=FLAGS
)


def write() -> None:
    """Writes the page."""
    workdirs = command.required(FLAGS, "workdirs")
    output = command.required(FLAGS, "output")
    import_tensorflow()
    from adt_tf import report

    report.write(
        workdirs,
        output,
        protocol=FLAGS.protocol,
        analyses=FLAGS.analyses,
        num_images=FLAGS.images,
    )


def main() -> None:
    """Runs adt-report."""
    command.run("adt-report", __doc__, FLAGS, write)

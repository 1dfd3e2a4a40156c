"""Writes one page on the robustness of evaluated runs.

python scripts/report.py --workdirs=DIR1,DIR2 --output=DIR3

DIR3/index.html holds all it shows. --protocol=NAME reports on what
evaluate.py --protocol=NAME measured; --noanalyses spares the accuracy against
epsilon and the analyses, which take long for large networks.
"""

import common
from absl import flags

flags.DEFINE_list("workdirs", None, "Runs that evaluate.py has measured.")
flags.DEFINE_string("output", None, "Directory of the report.")
flags.DEFINE_string(
    "protocol", None, "Take evaluation-NAME.json (default: evaluation.json)."
)
flags.DEFINE_boolean(
    "analyses", True, "Accuracy against epsilon, and the analyses."
)
flags.DEFINE_integer("images", 8, "How many images to show.", lower_bound=1)
flags.mark_flags_as_required(["workdirs", "output"])


def main() -> None:
    """Writes the page."""
    from adt_tf import report

    values = flags.FLAGS
    report.write(
        values.workdirs,
        values.output,
        protocol=values.protocol,
        analyses=values.analyses,
        num_images=values.images,
    )


if __name__ == "__main__":
    common.run(main)

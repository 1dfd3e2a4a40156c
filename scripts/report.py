"""Writes a report on evaluated runs: a page, a table and pictures.

python scripts/report.py --workdirs=DIR1,DIR2 --output=DIR3
"""

import common
from absl import flags

flags.DEFINE_list("workdirs", None, "Runs that evaluate.py has measured.")
flags.DEFINE_string("output", None, "Directory of the report.")
flags.mark_flags_as_required(["workdirs", "output"])


def main() -> None:
    """Writes the report."""
    from adt_tf import report

    report.write(flags.FLAGS.workdirs, flags.FLAGS.output)


if __name__ == "__main__":
    common.run(main)

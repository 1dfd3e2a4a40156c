"""Runs adt-report from a checkout."""

from adt_tf.cli.report import main

if __name__ == "__main__":
    main()

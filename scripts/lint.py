"""Runs adt-lint from a checkout."""

from adt_tf.cli.lint import main

if __name__ == "__main__":
    main()

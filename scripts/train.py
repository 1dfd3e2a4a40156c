"""Runs adt-train from a checkout."""

from adt_tf.cli.train import main

if __name__ == "__main__":
    main()

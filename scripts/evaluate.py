"""Runs adt-evaluate from a checkout."""

from adt_tf.cli.evaluate import main

if __name__ == "__main__":
    main()

"""Runs adt-reproduce from a checkout."""

from adt_tf.cli.reproduce import main

if __name__ == "__main__":
    main()

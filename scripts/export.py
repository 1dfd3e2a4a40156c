"""Runs adt-export from a checkout."""

from adt_tf.cli.export import main

if __name__ == "__main__":
    main()

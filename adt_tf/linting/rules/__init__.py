"""The checks that `adt_tf.lint` runs, by what they look at."""

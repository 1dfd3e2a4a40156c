"""The checks of `adt_tf.lint`, one module for each subject."""

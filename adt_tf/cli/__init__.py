"""The commands: adt-train, adt-evaluate, adt-lint and so on.

Each command is a module with its own flags and a `main()`. `command` runs a
command, and `flags` defines the flags of a training run for it. A command
imports TensorFlow only after it has parsed its flags.
"""

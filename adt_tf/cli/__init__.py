"""The commands: adt-train, adt-evaluate, adt-lint and so on.

Each is a module with its own flags and a `main()`. `command` runs them,
`flags` gives them the flags of a training run. TensorFlow is imported only
when a command has read its flags.
"""

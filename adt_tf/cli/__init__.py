"""The commands: one absl app a module."""

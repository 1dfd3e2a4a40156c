"""Models that leave the house, and models that come in.

`saved_model` exports a classifier as a SavedModel; `loading` reads a `.keras`
file, a SavedModel, or, through `bridge`, weights and graphs of others;
`preset_models` has classifiers by name (their files in `preset_files`), and
`replay` shows one the perturbations that were found for it.
"""

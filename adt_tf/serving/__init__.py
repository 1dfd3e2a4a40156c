"""Models that leave the house, and models that come in.

`saved_model` exports a classifier as a SavedModel (`request_checks` has what a
request may hold), `bundle` as versions that a server loads, with `warmup`
requests and what is known of them (`facts`, `cards`); `runtimes` converts it
for others than TensorFlow, and `artifact` loads what is to be attacked as it
was shipped. `loading` reads a `.keras` file, a SavedModel, or, through
`bridge`, weights and graphs of others; `preset_models` has classifiers by name
(their files in `preset_files`), and `replay` shows one the perturbations that
were found for it.
"""

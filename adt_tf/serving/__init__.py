"""Exports classifiers, and loads them from files and presets.

Export:

- `saved_model`: writes a SavedModel; `request_checks` checks its requests;
- `bundle`: writes versions for a server, with `warmup` requests and their
  evaluations (`facts`, `cards`);
- `runtimes`: converts a classifier for ONNX, LiteRT and OpenVINO;
- `artifact`: loads an exported file in order to attack it.

Loading:

- `loading`: loads a `.keras` file, a SavedModel, or, with `bridge`, weights
  and graphs of others;
- `preset_models`: loads classifiers by name; `preset_files` finds their files;
- `replay`: classifies the stored perturbations of a preset again.
"""

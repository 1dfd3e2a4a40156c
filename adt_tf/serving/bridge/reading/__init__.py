"""Reads files of weights as data: no name in them is imported or run.

    arrays = state_dicts.read("file.pt")

- `state_dicts`: reads the state dict in a file of any form;
- `torch_files`: reads torch's zip and legacy forms. `pickles` interprets their
  pickles; `torch_values`, `numpy_values` and `tensors` define the values that
  a pickle may have;
- `array_files`: reads safetensors and `.npz`;
- `keras_weights`: reads Keras' HDF5 files of weights;
- `tensorflow_checkpoints`: reads checkpoints of TensorFlow 1;
- `budget`: limits the memory that a file can take.
"""

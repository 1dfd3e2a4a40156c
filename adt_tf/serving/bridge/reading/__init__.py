"""Files of weights, read as data: nothing that they name is imported or run.

    arrays = state_dicts.read("file.pt")

- `state_dicts`: the state dict in a file of any form;
- `torch_files`: torch's zip and legacy forms, with `pickles`, the machine for
  their pickles, and `torch_values`, `numpy_values` and `tensors`, what such a
  pickle may hold;
- `array_files`: safetensors and `.npz`;
- `keras_weights`: Keras' own HDF5 files;
- `budget`: the bound on the memory that a file can ask for.
"""

"""Weights of others in Keras: PyTorch, safetensors, NumPy, ONNX, TensorFlow 1.

    classifier = adt_tf.load_classifier("file.pt", architecture="wrn-28-10")
    adt_tf.transplant("file.pt", keras_model)
    verification.verify(classifier, "reference.npz")

torch is not needed, and no name in a file is imported or run.

- `reading`: reads arrays from each form of file;
- `architectures`: builds a model by name, with one module of `layouts` for
  each family of networks;
- `transplant`, with `matching`: fills any Keras model with weights;
- `onnx_graphs`: converts an ONNX graph to a model;
- `entries`, `layer_graph`, `slots`, `filling`: the parts that these share;
- `verification`: compares logits and gradients with stored ones.
"""

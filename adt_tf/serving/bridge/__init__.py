"""Others' weights in Keras: PyTorch's files, safetensors, arrays, ONNX.

    classifier = adt_tf.load_classifier("file.pt", architecture="wrn-28-10")
    adt_tf.transplant("file.pt", keras_model)
    verification.verify(classifier, "reference.npz")

No torch is needed, and nothing that a file names is imported or run.

- `reading`: from bytes to arrays, for each form of file;
- `architectures`: a model by name, with a module of `layouts` for each family;
- `transplant`, with `matching`: the weights of any network into any model;
- `onnx_graphs`: a model from a graph;
- `entries`, `layer_graph`, `slots`, `filling`: what these share;
- `verification`: logits and gradients beside stored ones.
"""

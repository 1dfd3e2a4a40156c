"""Converts ONNX graphs to functional Keras models.

    classifier = conversion.load("model.onnx")

- `conversion`: converts the nodes of a graph in order;
- `layers`, `pooling`, `arithmetic`: convert operators to Keras layers;
- `constants`: computes operators on constants;
- `values`: represents a value of the graph.
"""

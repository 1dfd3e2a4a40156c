"""ONNX graphs as functional Keras models.

    classifier = conversion.load("model.onnx")

- `conversion`: the walk over the graph;
- `layers`, `pooling`, `arithmetic`: the operators as Keras layers;
- `constants`: operators on what does not depend on the images;
- `values`: what a value of the graph is.
"""

"""The feature map of a classifier, before its global pooling.

    extractor = feature_extractor(classifier)
    features = extractor(images, training=False)

Attacks on features and distances in feature space use it.
"""

import keras

from adt_tf import checks

_POOLING_LAYERS = (
    keras.layers.GlobalAveragePooling2D,
    keras.layers.GlobalMaxPooling2D,
    keras.layers.Flatten,
)


def feature_extractor(
    classifier: keras.Model, *, with_outputs: bool = False
) -> keras.Model:
    """Returns the part of a classifier from images to the last feature map.

    The feature map is the output of the layer named `"features"`, which all
    classifiers of this package have. In other models it is the input of the
    last global pooling or flatten layer. If a `keras.Sequential` ends in a
    model, such as a classifier after a rescaling layer, that model is searched.

    Args:
        classifier: A functional or sequential Keras model.
        with_outputs: Whether the result returns [features, logits] instead of
            the features.

    Returns:
        A model that shares its layers, hence its weights, with `classifier`.

    Example:

    >>> from adt_tf.networks.wide_resnet import wide_resnet
    >>> feature_extractor(wide_resnet(10, 1)).output_shape
    (None, 8, 8, 64)
    """
    inputs = getattr(classifier, "inputs", None)
    if not inputs or len(inputs) != 1:
        raise ValueError(
            "Argument `classifier` must be a functional model of one input, "
            "or a `keras.Sequential` that starts with a `keras.Input`, "
            "because other models have no graph. Build it as "
            "`keras.Model(images, logits)`, or write the extractor yourself. "
            f"Received: classifier={classifier}"
        )

    (images,) = inputs
    outputs = checks.named_outputs(classifier, classifier.outputs)
    logits = checks.named_logits(outputs, classifier)

    def extractor(
        features: keras.KerasTensor, outputs: keras.KerasTensor
    ) -> keras.Model:
        results = [features, outputs] if with_outputs else features
        return keras.Model(images, results, name="feature_extractor")

    for layer in classifier.layers:
        if layer.name == "features":
            return extractor(layer.output, logits)
    for layer in reversed(classifier.layers):
        if isinstance(layer, _POOLING_LAYERS):
            return extractor(layer.input, logits)

    *others, last = classifier.layers
    if isinstance(classifier, keras.Sequential) and isinstance(
        last, keras.Model
    ):
        x = images
        for layer in others:
            x = layer(x)
        return extractor(*feature_extractor(last, with_outputs=True)(x))

    raise ValueError(
        "Argument `classifier` must have a layer named 'features', or a "
        "global pooling or flatten layer, which determines the feature map. "
        "Name the layer that returns the feature map 'features'. If the "
        "classifier is a model inside this one, apply `feature_extractor` to "
        "that model and put the layers before it in front. "
        f"Received: classifier={classifier} with layers "
        f"{[layer.name for layer in classifier.layers]}"
    )

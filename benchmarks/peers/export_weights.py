"""Writes a Keras network with inputs and outputs to a file for its twin.

    python benchmarks/peers/export_weights.py --workdir=DIR --output=FILE.npz
    python benchmarks/peers/export_weights.py --fresh=posterior --output=...

The first command writes the classifier of a run with test images, labels and
logits; the second a network with random weights, to check its twin. They run in
the environment of adt_tf; weights.py reads the file in the peers' environment.
"""

import json
import pathlib

from absl import flags

from adt_tf.cli import command
from adt_tf.cli.flags import OF_EVALUATION, config_of_run, define_config
from adt_tf.cli.quiet_import import import_tensorflow

FRESH = ["explicit_generator", "implicit_generator", "posterior"]

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "workdir", None, "Run whose classifier is written.", flag_values=FLAGS
)
flags.DEFINE_enum(
    "fresh",
    None,
    FRESH,
    "Network with random weights to write instead.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "examples", 1000, "Number of test images or inputs.", flag_values=FLAGS
)
flags.DEFINE_list(
    "input_shape",
    ["32", "32", "3"],
    "Shape of --fresh's images.",
    flag_values=FLAGS,
)
flags.DEFINE_float(
    "twin_width_factor",
    0.125,
    "Factor of --fresh's widths.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "output", None, "The .npz file to write.", flag_values=FLAGS
)
define_config(FLAGS, shown=OF_EVALUATION)


def from_workdir(values) -> tuple:
    """Returns the details, model, inputs and labels of a run."""
    config = config_of_run(values, values.workdir)
    from adt_tf import data
    from adt_tf.runs import inputs
    from adt_tf.runs.workdir import Workdir

    classifier = Workdir(values.workdir).load_classifier()
    test = inputs.load_data(config, "test")
    images, labels = data.as_arrays(test)
    images, labels = images[: values.examples], labels[: values.examples]
    details = {
        "network": config.network,
        "settings": {
            "input_shape": list(classifier.input_shape[1:]),
            "num_classes": classifier.output_shape[-1],
        },
        "workdir": values.workdir,
        "method": config.method,
        "dataset": test.name,
        "norm": config.norm,
        "epsilon": config.epsilon,
    }
    return details, classifier, [images], labels


def from_scratch(values) -> tuple:
    """Returns the same for a network with random weights and statistics."""
    import numpy as np

    from adt_tf import networks

    generator = np.random.default_rng(0)
    shape = [int(size) for size in values.input_shape]
    settings = {"width_factor": values.twin_width_factor}
    network = getattr(networks, values.fresh)(shape, **settings)
    for variable in network.weights:
        # The initial ones and zeros of batch normalisation would hide a wrong
        # twin.
        if variable.name in ("gamma", "moving_variance"):
            variable.assign(generator.uniform(0.5, 1.5, variable.shape))
        elif variable.name in ("beta", "moving_mean", "bias"):
            variable.assign(generator.normal(0, 0.1, variable.shape))
    details = {
        "network": values.fresh,
        "settings": {"input_shape": shape, **settings},
    }
    inputs = [
        generator.normal(size=(values.examples, *tensor.shape[1:])).astype(
            "float32"
        )
        for tensor in network.inputs
    ]
    return details, network, inputs, None


def main() -> None:
    """Writes the file."""
    values, output = FLAGS, command.required(FLAGS, "output")
    if (values.workdir is None) == (values.fresh is None):
        raise ValueError(
            "Give either --workdir or --fresh. Received: "
            f"--workdir={values.workdir}, --fresh={values.fresh}"
        )
    import_tensorflow()
    build = from_scratch if values.workdir is None else from_workdir
    details, network, inputs, labels = build(values)
    import numpy as np

    outputs = network.predict(
        inputs if len(inputs) > 1 else inputs[0], batch_size=128, verbose=0
    )
    arrays = {"details": np.array(json.dumps(details)), "output": outputs}
    for index, array in enumerate(inputs):
        arrays[f"input_{index}"] = array
    if labels is not None:
        arrays["labels"] = labels
    for layer in network.layers:
        for variable in layer.weights:
            key = f"weights/{layer.name}/{variable.name}"
            arrays[key] = np.asarray(variable)
    path = pathlib.Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez(file, **arrays)
    print(f"{details['network']}, {len(outputs)} examples, written to {path}")


if __name__ == "__main__":
    command.run("export_weights.py", __doc__, FLAGS, main)

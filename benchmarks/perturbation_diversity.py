"""Measures the distances between perturbations of one image.

    python benchmarks/perturbation_diversity.py --workdir=DIR --data_dir=DIR

Compares PGD's restarts with samples of ADT-EXP's distributions for three forms
of the entropy, as in Figure 1 of the paper, on the first 100 test images and a
trained classifier.
"""

import argparse

import numpy as np

from adt_tf import attacks, data, methods
from adt_tf.analysis import diversity
from adt_tf.runs import inputs
from adt_tf.runs.config import Config
from adt_tf.runs.workdir import Workdir


def main() -> None:
    """Prints a line for each kind of perturbation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--workdir", required=True, help="A finished run.")
    parser.add_argument("--data_dir", help="Prepared data of TFDS.")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=8 / 255)
    options = parser.parse_args()
    config = Config.from_workdir(options.workdir, data_dir=options.data_dir)
    classifier = Workdir(options.workdir).load_classifier()
    x, y = data.as_arrays(inputs.load_data(config, "test", 1000))
    right = np.argmax(classifier.predict(x, verbose=0), axis=-1) == y
    print(f"{100 * right.mean():.1f} % natural accuracy, 1,000 test images")
    sources = [
        diversity.restarts(attacks.pgd(options.epsilon), "PGD, restarts")
    ]
    for name, form in (
        ("ADT-EXP, samples", {}),
        ("ADT-EXP by Eq. 11, samples", {"entropy_reduction": "sum"}),
        (
            "ADT-EXP with the Gaussian's entropy, samples",
            {"entropy_reduction": "sum", "entropy": "gaussian"},
        ),
    ):
        attack = methods.adt_exp(options.epsilon, **form).attack
        sources.append(diversity.samples(attack, name))
    few = x[: options.images], y[: options.images]
    result = diversity.measure_diversity(
        classifier, few, sources, num_samples=100
    )
    for name in result.names:
        print(
            f"{name}: mean distance {result.mean_distance[name]:.3f}, "
            f"{100 * result.fooled[name]:.1f} % fool the classifier"
        )
    print(
        f"{result.right.sum()} of {options.images} images are classified "
        "correctly without perturbation"
    )


if __name__ == "__main__":
    main()

"""An evaluation by names, with its files: what adt-evaluate does.

    chosen = build_attacks(["pgd-20", "fea"], 8 / 255, test)
    assess(classifier, test, chosen, "evaluation.json", details={...})

Writes the verdicts as JSON, CSV and a Markdown table, and the adversarial
images if asked. An interrupted assessment goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from adt_tf import (
    attacks,
    configs,
    data,
    evaluation,
    networks,
    threat_models,
)
from adt_tf.array_files import read_arrays, write_arrays
from adt_tf.attacks import Attack
from adt_tf.evaluation import state
from adt_tf.markdown import code, escape
from adt_tf.runs import evaluation_files, inputs, provenance
from adt_tf.runs.config import Config
from adt_tf.threat_models import ThreatModel

# Images of a data set on the disk among which feature attacks find a target.
_MOST_TARGETS = 1000


def build_attacks(
    names: Sequence[str],
    epsilon: float | ThreatModel,
    test: data.ImageData,
    *,
    classifier: Any = None,
    source: Any = None,
    width_factor: float = 1.0,
) -> list[Attack]:
    """Returns the attacks of the names, with what they need from the data.

    Args:
        names: As `adt_tf.attacks.get` takes them.
        epsilon: The threat model, or the radius of an l-infinity ball.
        test: The examples; feature attacks draw their targets from them.
        classifier: What is to be attacked. Where it has no feature map to be
            found, feature attacks take its logits, and say so; None if it is
            known to have one.
        source: A classifier to attack in place of the one that is measured.
        width_factor: Of the generators of amortised attacks.
    """
    attacked = classifier if source is None else source
    context = {
        "features": "map" if _has_feature_map(attacked) else "logits",
        "targets": _targets(test, names),
        "input_shape": test.input_shape,
        "width_factor": width_factor,
    }
    chosen = [attacks.get(name, epsilon, **context) for name in names]
    if context["features"] == "logits":
        for attack in chosen:
            if attack.name.startswith("Fea"):
                print(
                    f"{attack.name}: the model is no functional Keras model "
                    "with a feature map, so its logits are the features."
                )
    if source is not None:
        chosen = [attacks.Transfer(source, attack) for attack in chosen]
    return chosen


def _targets(
    test: data.ImageData, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the images whose features attacks aim at, in memory."""
    if not any(name.lower().startswith("fea") for name in names):
        return None
    images, labels = data.as_examples(test)
    if test.is_streamed:
        places = np.linspace(0, len(labels) - 1, _MOST_TARGETS)
        chosen = np.unique(places.astype(int))
        images, labels = images.take(chosen), labels[chosen]
    return images[:], labels


def build_distributions(
    names: Sequence[str], *arguments: Any, **settings: Any
) -> list[Attack]:
    """Returns the attacks that are sampled, such as those of "exp@0.01".

    Args:
        names: As in `build_attacks`, each with an entropy weight after @ if
            you like.
        *arguments: As in `build_attacks`.
        **settings: As in `build_attacks`.
    """
    chosen = []
    for name in names:
        plain, at, weight = name.partition("@")
        (attack,) = build_attacks([plain], *arguments, **settings)
        if at:
            if not isinstance(attack, attacks.GradientAscent) or not re.match(
                r"\d+(\.\d+)?(e-?\d+)?$", weight
            ):
                raise ValueError(
                    "--distributions must hold names of attacks, those of "
                    "`exp` with an entropy weight of 0 or more if you like, as "
                    f"in exp@0.01. Received: {name}"
                )
            attack.entropy_weight = float(weight)
            attack.name = f"{attack.name} at {float(weight):g}"
        chosen.append(attack)
    return chosen


def _has_feature_map(classifier: Any) -> bool:
    if classifier is None:
        return True
    try:
        networks.feature_extractor(classifier)
    except ValueError:
        return False
    return True


@contextlib.contextmanager
def trained_generators(
    chosen: Sequence[Attack],
    classifier: Any,
    load_train: Callable[[], data.ImageData],
    *,
    epochs: int,
    directory: str | pathlib.Path,
    batch_size: int = 64,
    seed: int = 0,
) -> Iterator[None]:
    """Trains the networks of amortised attacks against the classifier.

    They are kept in the directory until the block has ended well, so that an
    assessment in it that is interrupted goes on with the same attack.

    Args:
        chosen: Attacks; those without networks are left as they are.
        classifier: What they attack.
        load_train: Returns the images to train on; asked for if need be.
        epochs: Passes over them.
        directory: Where the networks are kept.
        batch_size: Images at once.
        seed: Of the batches and the noise.
    """
    kept = []
    amortized = [attack for attack in chosen if attack.networks]
    train = load_train() if amortized else None
    for attack in amortized:
        settings = (configs.fingerprint(attack), epochs, batch_size, seed)
        examples = data.as_examples(train)
        key = state.fingerprint(
            [classifier, *attack.models], *examples, settings
        )
        path = pathlib.Path(directory) / f"unfinished-networks-{key[:16]}.npz"
        logits = state.probe([classifier], examples[0])
        if not _restored(attack, path, logits):
            _train(attack, classifier, train, epochs, batch_size, seed)
            arrays = {k: np.asarray(v) for k, v in _weights(attack).items()}
            write_arrays(path, {"probe": logits, **arrays})
        kept.append(path)
    yield
    for path in kept:
        path.unlink(missing_ok=True)


def _weights(attack: Attack) -> dict[str, Any]:
    variables = [v for model in attack.networks for v in model.variables]
    return {f"weight{i}": variable for i, variable in enumerate(variables)}


def _restored(attack: Attack, path: pathlib.Path, logits: np.ndarray) -> bool:
    """Whether the networks have been trained; then they are as they were."""
    weights = _weights(attack)
    size = sum(np.asarray(weight).nbytes for weight in weights.values())
    size += logits.nbytes + (1 << 20)  # and the headers of its parts
    found = read_arrays(path, largest=size)
    if found is None or found.keys() != {"probe", *weights}:
        return False
    if any(found[k].shape != tuple(v.shape) for k, v in weights.items()):
        return False
    if not all(np.isfinite(found[name]).all() for name in weights):
        return False
    if not state.agree(found["probe"], logits):
        return False
    print(f"Going on with {attack.name} as it was trained.")
    for name, variable in weights.items():
        variable.assign(found[name])
    return True


def _train(attack, classifier, train, epochs, batch_size, seed) -> None:
    print(f"Training {attack.name} against the classifier ...")
    batch_size = min(batch_size, len(train))
    steps = data.steps_per_epoch(train, batch_size)
    batches = data.train_pipeline(train, batch_size=batch_size, seed=seed)
    attack.fit(classifier, batches.take(epochs * steps), epochs=1, seed=seed)


def assess(
    classifier: Any,
    test: data.ImageData,
    chosen: Sequence[Attack],
    output: str | pathlib.Path,
    *,
    details: dict[str, Any],
    distributions: Sequence[Attack] = (),
    max_samples: int = 8192,
    **arguments: Any,
) -> evaluation.Report | evaluation.ProbabilisticReport:
    """Evaluates, prints the table and writes the files.

    Args:
        classifier: From images to logits.
        test: The examples.
        chosen: The attacks.
        output: Where the JSON goes; .csv, .md and, if adversarial images are
            kept, .npz stand beside it.
        details: What the JSON says beside the verdicts, such as the command.
        distributions: Attacks that are sampled, if any: then the evaluation
            is that of `adt_tf.evaluate_probabilistic`.
        max_samples: Largest number of samples of an image.
        **arguments: Further fields of `evaluation.Settings`.
    """
    keep_examples = arguments.get("keep_examples", False)
    output = evaluation_files.checked_output(output, keep_examples)

    norms = {
        threat_models.norm_of(a.threat_model) for a in (*distributions, *chosen)
    }
    if len(norms) == 1:
        details = {"norm": norms.pop(), **details}

    settings = evaluation.Settings(directory=output.parent, **arguments)
    if distributions:
        block = evaluation.evaluated_probabilistic(
            classifier,
            test,
            distributions,
            chosen,
            settings,
            max_samples=max_samples,
        )
    else:
        block = evaluation.evaluated(classifier, test, chosen, settings)
    is_chief = settings.workers is None or settings.workers.index == 0
    with block as report:
        if is_chief:
            print(report)
            evaluation_files.write(output, report, test, details)
    if not is_chief:
        return report
    print(f"Written to {output}, and as .csv and .md beside it")
    if getattr(report, "unfinished", None):
        print(
            f"The {settings.minutes:g} minutes are over; the same command with "
            "more --minutes goes on."
        )
    return report


def assess_experiment(
    config: Config,
    classifier: Any,
    test: data.ImageData,
    chosen: Sequence[Attack],
    output: str | pathlib.Path,
    *,
    attack_epochs: int,
    details: dict[str, Any],
    **arguments: Any,
) -> evaluation.Report:
    """Assesses, with amortised attacks trained on the experiment's images.

    Args:
        config: The experiment's.
        classifier: As in `assess`, and so are the others.
        test: The examples.
        chosen: The attacks.
        output: Where the JSON goes.
        attack_epochs: Of the generators' training.
        details: Joined by what the configuration says, and the commit.
        **arguments: Further arguments of `assess`, but for the seed.
    """
    keep_examples = arguments.get("keep_examples", False)
    output = evaluation_files.checked_output(output, keep_examples)
    told = {
        name: getattr(config, name)
        for name in ("dataset", "data_dir", "image_size", "norm", "epsilon")
    }
    with trained_generators(
        [*arguments.get("distributions", ()), *chosen],
        classifier,
        lambda: inputs.load_data(config, "train", config.train_examples),
        epochs=attack_epochs,
        directory=output.parent,
        seed=config.seed,
    ):
        return assess(
            classifier,
            test,
            chosen,
            output,
            details={**details, **told, "commit": provenance.commit()},
            seed=config.seed,
            **arguments,
        )


def compare(
    first: str | pathlib.Path,
    second: str | pathlib.Path,
    *,
    protocol: str | None = None,
) -> str:
    """Returns a Markdown table of the paired tests of two assessments.

    Args:
        first: Workdir, or .json file.
        second: Another one.
        protocol: Protocol of the evaluations in workdirs; None for those
            without a name.
    """
    one, other = (
        evaluation_files.read(path, protocol=protocol)
        for path in (first, second)
    )
    for name in ("dataset", "norm", "epsilon"):
        values = [{"norm": "linf", **each}.get(name) for each in (one, other)]
        if values[0] != values[1]:
            raise ValueError(
                f"{first} and {second} differ in their {name}: {values[0]} "
                f"and {values[1]}; compare evaluations on the same examples."
            )
    tests = evaluation.compare(one["report"], other["report"])
    lines = [
        f"A = {code(first)}, B = {code(second)}, "
        f"{one['num_examples']} examples",
        "",
        "| | only A right | only B right | A - B (points) | McNemar p |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, test in tests.items():
        lines.append(
            f"| {escape(name)} | {test.first_only} | {test.second_only} | "
            f"{100 * test.difference:+.2f} | {test.p_value:.2g} |"
        )
    for path, values in ((first, one), (second, other)):
        if values["report"].caveat:
            lines += ["", f"A_rob of {path}: {values['report'].caveat}"]
    return "\n".join(lines)

"""Measures a classifier under attacks.

python scripts/evaluate.py --workdir=DIR --protocol=autoattack
python scripts/evaluate.py --model=model.keras --dataset=mine.npz --epsilon=0.03
python scripts/evaluate.py --compare DIR1 DIR2 --protocol=autoattack

Data set and epsilon are those of the run, unless given. The protocols are the
flagfiles in flags/protocols. Writes DIR/evaluation.json (with a protocol
DIR/evaluation-NAME.json), and the same as .csv and .md. Interrupted, the same
command goes on where it stopped.
"""

import pathlib

import common
from absl import flags

PROTOCOLS = pathlib.Path(__file__).parents[1] / "flags" / "protocols"

common.define_experiment_flags()
flags.adopt_module_key_flags(common)
flags.DEFINE_string("workdir", None, "Directory of the run.")
flags.DEFINE_string("model", None, "A .keras file or SavedModel in its place.")
flags.DEFINE_boolean(
    "probabilities", False, "The model gives probabilities, not logits."
)
flags.DEFINE_string(
    "protocol",
    None,
    "paper, spsa, transfer, distributional, rice, autoattack or quick (the "
    "default, unless --attacks is given).",
)
flags.DEFINE_list(
    "attacks", None, "Names, each with a number of steps if you like."
)
flags.DEFINE_boolean(
    "independent", False, "Each attack on all examples, not on those standing."
)
flags.DEFINE_string(
    "source", None, "Workdir or model that is attacked instead."
)
flags.DEFINE_integer("attack_epochs", 10, "Of generators (exp-am, imp-am).")
flags.DEFINE_float("attack_width_factor", 1.0, "Of those generators.")
flags.DEFINE_integer("test_examples", None, "The first n test examples only.")
flags.DEFINE_integer("eval_batch_size", 128, "Images at once.")
flags.DEFINE_boolean("keep_examples", False, "Write adversarial images (.npz).")
flags.DEFINE_string("output", None, "Another name for evaluation.json.")
flags.DEFINE_list("compare", None, "Two evaluated workdirs or .json files.")


def main(*arguments: str) -> None:
    """Attacks the classifier of a workdir or a file."""
    values = flags.FLAGS
    if values.compare:
        pair = [*values.compare, *arguments]
        if len(pair) != 2:
            raise ValueError(
                "--compare takes two workdirs or .json files of "
                f"scripts/evaluate.py. Received: {pair}"
            )
        from adt_tf.runs import evaluation_job

        print(evaluation_job.compare(*pair, protocol=values.protocol))
        return
    if arguments:
        raise ValueError(f"Arguments without a flag: {list(arguments)}")
    if (values.workdir is None) == (values.model is None):
        raise ValueError("Give either --workdir or --model.")
    command = ["python scripts/evaluate.py", *_given()]
    protocol = _choose_protocol()
    if values.workdir:
        common.read_workdir(values.workdir)
    else:
        # Generators are trained on them.
        common.check_model_flags("train_examples")
    config = common.experiment_config()

    from adt_tf.runs import evaluation_job, evaluation_settings, workdir

    output = evaluation_job.checked_output(
        values.output or _default_output(protocol)
    )

    names, epsilon = values.attacks, config["epsilon"]
    test = workdir.load_test_data(config, values.test_examples)
    source = values.source and workdir.load_any(values.source)
    classifier = workdir.load_any(
        values.workdir or values.model, probabilities=values.probabilities
    )
    chosen = evaluation_job.build_attacks(
        names,
        epsilon,
        test,
        classifier=classifier,
        source=source,
        width_factor=values.attack_width_factor,
    )
    method = config["method"] if values.workdir else values.model
    print(f"{method} on {test.name}, protocol {protocol}: {', '.join(names)}")
    evaluation_job.assess_experiment(
        config,
        classifier,
        test,
        chosen,
        output,
        attack_epochs=values.attack_epochs,
        details={
            "command": " ".join(command),
            "protocol": protocol,
            "method": method,
            "network": config["network"] if values.workdir else None,
            **evaluation_settings.describe(
                config,
                names,
                classifier=workdir.fingerprint(values.workdir)
                if values.workdir
                else None,
                test_examples=values.test_examples,
                independent=values.independent,
                attack_epochs=values.attack_epochs,
                attack_width_factor=values.attack_width_factor,
                source=values.source,
            ),
        },
        batch_size=values.eval_batch_size,
        independent=values.independent,
        keep_examples=values.keep_examples,
    )


def _given() -> list[str]:
    """The flags of the command line, to print them with the result."""
    all_flags = [flags.FLAGS[name] for name in flags.FLAGS]
    return [flag.serialize() for flag in all_flags if flag.present]


def _choose_protocol() -> str:
    """Sets the flags of the protocol, but for those given."""
    values = flags.FLAGS
    if values.protocol is None and values.attacks is not None:
        return "custom"
    name = values.protocol or "quick"
    known = sorted(path.stem for path in PROTOCOLS.glob("*.flags"))
    if name not in known:
        raise ValueError(
            f"--protocol must be one of {known}. Received: {name!r}"
        )
    common.set_unless_given(PROTOCOLS / f"{name}.flags", values)
    if name == "transfer" and values.source is None:
        raise ValueError(
            "The protocol 'transfer' needs --source, the workdir or model "
            "that is attacked in place of this one."
        )
    return name


def _default_output(protocol: str) -> pathlib.Path:
    values = flags.FLAGS
    suffix = f"-{protocol}" if values.protocol else ""
    if values.workdir:
        return pathlib.Path(values.workdir) / f"evaluation{suffix}.json"
    model = pathlib.Path(values.model)
    name = common.model_name(model)
    return model.with_name(f"{name}-evaluation{suffix}.json")


if __name__ == "__main__":
    common.run(main, takes_arguments=True)

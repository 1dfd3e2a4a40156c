"""Measures a classifier under attacks.

    adt-evaluate --workdir=DIR --protocol=autoattack
    adt-evaluate --workdir=DIR --protocol=budget --minutes=10
    adt-evaluate --model=model.keras --dataset=mine.npz --epsilon=0.03
    adt-evaluate --model=weights.pt --architecture=wrn-28-10 --dataset=cifar10
    adt-evaluate --workdir=DIR --norm=l2 --epsilon=0.5
    adt-evaluate --preset=digits_small_cnn_adt_exp --replay
    adt-evaluate --compare DIR1 DIR2 --protocol=autoattack
    adt-evaluate --workdir=DIR --artifact=DIR/saved_model/1/model_int8.tflite

The data set, the norm and epsilon default to those of the run. Protocols are
the flagfiles in flags/protocols. The command writes DIR/evaluation.json (with
--protocol=NAME: DIR/evaluation-NAME.json), and the same as .csv and .md;
beside a model, model-evaluation.json. A file on another classifier, data set,
norm or epsilon is not overwritten: choose another --output. adt-report takes
the .json file in place of a workdir. If it is interrupted, the same command
continues where it stopped. --artifact attacks an exported file by queries, and
with adversarial images of the classifier it was converted from, and reports
what the conversion costs.
"""

import os
import pathlib
import shlex
import sys

from adt_tf.cli import command
from adt_tf.cli.evaluation_flags import FLAGS
from adt_tf.cli.flags import (
    classifier_fingerprint,
    config_to_measure,
    default_output,
    describe_classifier,
    load_classifier,
    set_unless_given,
)
from adt_tf.cli.quiet_import import import_tensorflow
from adt_tf.runs import evaluation_settings, file_names, protocols


def evaluate(*arguments: str) -> None:
    """Attacks the classifier of a workdir or a file, or compares two."""
    if FLAGS.compare:
        _compare([*FLAGS.compare, *arguments])
        return
    if arguments:
        raise ValueError(f"Arguments without a flag: {list(arguments)}")
    if FLAGS.replay:
        _replay()
        return
    if FLAGS.artifact:
        _evaluate_artifact()
        return
    command_line = shlex.join(["adt-evaluate", *command.given(FLAGS)])
    protocol = _choose_protocol()
    _check_attacks()
    _check_minutes(protocol)
    distribute = _chosen_distribution()
    # Attacks with generators use the training examples.
    config = config_to_measure(FLAGS, "train_examples")
    output = FLAGS.output or default_output(
        FLAGS, file_names.evaluation(FLAGS.protocol)
    )
    # A process can join other machines only before it has devices.
    import_tensorflow(
        devices=distribute != "multiworker", streams=config.may_stream
    )
    from adt_tf.runs import (
        evaluation_files,
        evaluation_job,
        inputs,
        strategies,
    )

    strategy = strategies.get(distribute)
    workers = strategies.Shared(strategy)
    output = evaluation_files.checked_output(output, FLAGS.keep_examples)
    test = inputs.load_test_data(config, FLAGS.test_examples)
    with strategies.placed(strategy):
        source = FLAGS.source and inputs.load_classifier(
            FLAGS.source, like=test
        )
        classifier = load_classifier(
            FLAGS, test, probabilities=FLAGS.probabilities
        )
    context = {
        "classifier": classifier,
        "source": source,
        "width_factor": FLAGS.attack_width_factor,
    }
    ball = inputs.threat_model(config)
    attacks = evaluation_job.build_attacks(FLAGS.attacks, ball, test, **context)
    more = {}
    if FLAGS.distributions:
        more["distributions"] = evaluation_job.build_distributions(
            FLAGS.distributions, ball, test, **context
        )
        more["max_samples"] = FLAGS.max_samples
    method = config.method if FLAGS.workdir else FLAGS.model or FLAGS.preset
    details = {
        "command": command_line,
        "protocol": protocol,
        "method": method,
        "network": config.network if FLAGS.workdir else None,
        "default_epsilon": bool(FLAGS.model) and not FLAGS["epsilon"].present,
        **describe_classifier(FLAGS, output),
        **evaluation_settings.describe(
            config,
            FLAGS.attacks,
            classifier=classifier_fingerprint(FLAGS),
            test_examples=FLAGS.test_examples,
            independent=FLAGS.independent,
            attack_epochs=FLAGS.attack_epochs,
            attack_width_factor=FLAGS.attack_width_factor,
            source=FLAGS.source,
            distributions=FLAGS.distributions,
            max_samples=FLAGS.max_samples,
            minutes=FLAGS.minutes,
        ),
    }
    if workers.index == 0:
        print(
            f"{evaluation_files.title(details)}: "
            f"{', '.join([*(FLAGS.distributions or ()), *FLAGS.attacks])}"
        )
    evaluation_job.assess_experiment(
        config,
        classifier,
        test,
        attacks,
        output,
        attack_epochs=FLAGS.attack_epochs,
        details=details,
        batch_size=FLAGS.eval_batch_size,
        independent=FLAGS.independent,
        keep_examples=FLAGS.keep_examples,
        minutes=FLAGS.minutes,
        workers=workers,
        verbose=workers.index == 0,
        **more,
    )
    if workers.index == 0:
        print(
            "To write a page about it: adt-report "
            f"--workdirs={shlex.quote(str(output))} --output=DIR"
        )


def _replay() -> None:
    """Tests the classifier of a preset on its stored perturbations."""
    preset = command.required(FLAGS, "preset")
    _refuse_others("replay", "preset", "data_dir")
    import_tensorflow()
    from adt_tf.serving import replay

    result = replay.replay(preset, data_dir=FLAGS.data_dir)
    print(result)
    if not result.agrees:
        sys.exit(1)


def _refuse_others(name: str, *allowed: str) -> None:
    """Raises if flags are given that a use of this command ignores."""
    for other in FLAGS:
        if FLAGS[other].present and other not in (name, *allowed):
            raise ValueError(
                f"--{name} accepts no other flags than "
                f"{' and '.join(f'--{each}' for each in allowed)}. "
                f"Received: --{other}"
            )


def _evaluate_artifact() -> None:
    """Measures an exported file and the classifier it was converted from."""
    command_line = shlex.join(["adt-evaluate", *command.given(FLAGS)])
    for name in ("model", "preset", "keep_examples", "probabilities"):
        if FLAGS[name].value:
            raise ValueError(
                f"--artifact cannot be combined with --{name}: give --source, "
                "or the --workdir that the file was exported from."
            )
    if (FLAGS.source is None) == (FLAGS.workdir is None):
        raise ValueError(
            "--artifact needs either --source, the float classifier that the "
            "file was converted from, or --workdir, the run of that classifier."
        )
    # absl declares an unbound type variable as the value of a flag.
    FLAGS.protocol = FLAGS.protocol or (  # type: ignore[assignment]
        None if FLAGS.attacks else "artifact"
    )
    protocol = _choose_protocol()
    _check_attacks()
    for name in ("minutes", "distributions"):
        if FLAGS[name].value or (protocol, name) == ("budget", "minutes"):
            raise ValueError(
                f"--artifact cannot be combined with --{name}: remove it, or "
                "the protocol that sets it, and name the attacks, as in "
                "--attacks=fgsm,square."
            )
    file_name = pathlib.PurePath(os.path.abspath(FLAGS.artifact)).name
    output = FLAGS.output or default_output(
        FLAGS, file_names.artifact(file_name), model="source"
    )
    config = config_to_measure(FLAGS, model="source")
    import_tensorflow(streams=config.may_stream)
    from adt_tf.runs import artifact_job, evaluation_files, inputs
    from adt_tf.serving import artifact

    output = evaluation_files.checked_output(output)
    test = inputs.load_test_data(config, FLAGS.test_examples)
    source = inputs.load_classifier(
        FLAGS.source or FLAGS.workdir, FLAGS.architecture, like=test
    )
    artifact_job.assess(
        config,
        source,
        artifact.load(FLAGS.artifact, source, like=test),
        test,
        FLAGS.attacks,
        output,
        details={
            "command": command_line,
            "protocol": protocol,
            "method": file_name,
            "artifact": FLAGS.artifact,
            "source": FLAGS.source or FLAGS.workdir,
        },
        batch_size=FLAGS.eval_batch_size,
        independent=FLAGS.independent,
    )


def _compare(paths: list[str]) -> None:
    _refuse_others("compare", "protocol")
    if len(paths) != 2:
        raise ValueError(
            "--compare takes two workdirs or .json files of adt-evaluate. "
            f"Received: {paths}"
        )
    import_tensorflow()
    from adt_tf.runs import evaluation_job

    print(evaluation_job.compare(*paths, protocol=FLAGS.protocol))


def _choose_protocol() -> str:
    """Sets the flags of the protocol, except those on the command line."""
    if FLAGS.protocol is None and FLAGS.attacks is not None:
        return "custom"
    name = FLAGS.protocol or "quick"
    set_unless_given(FLAGS, protocols.read(name))
    if name == "transfer" and FLAGS.source is None:
        raise ValueError(
            "The protocol 'transfer' needs --source, the workdir or model to "
            "compute the adversarial images on."
        )
    return name


def _chosen_distribution() -> str:
    """Returns --distribute of the command line, or raises `ValueError`."""
    if not FLAGS["distribute"].present:
        return "none"
    distribute = FLAGS.distribute
    if distribute not in ("none", "mirrored", "multiworker"):
        raise ValueError(
            "--distribute must be one of none, mirrored, multiworker. "
            f"Received: --distribute={distribute}"
        )
    # The configuration keeps the value of the training.
    FLAGS["distribute"].unparse()
    generators = [
        name
        for name in (*FLAGS.attacks, *(FLAGS.distributions or ()))
        if name.lower().startswith(evaluation_settings.GENERATORS)
    ]
    for flag, is_set in {
        "keep_examples": FLAGS.keep_examples,
        "distributions": FLAGS.distributions,
        f"attacks={','.join(generators)}": generators,
    }.items():
        if distribute != "none" and is_set:
            raise ValueError(
                f"--distribute={distribute} cannot be combined with --{flag}: "
                "leave one of them out."
            )
    return distribute


def _check_attacks() -> None:
    """Raises if there is no attack."""
    if not FLAGS.attacks and not FLAGS.distributions:
        raise ValueError(
            "--attacks must name an attack, such as pgd-20: without one, every "
            "image counts as robust that is right when clean. Received: "
            "--attacks="
        )


def _check_minutes(protocol: str) -> None:
    """Raises if --minutes is missing, not positive, or has no effect."""
    minutes = FLAGS.minutes
    if minutes is None:
        if protocol == "budget":
            raise ValueError(
                "The protocol 'budget' needs --minutes, such as --minutes=10."
            )
        return
    if not 0 < minutes < float("inf"):
        raise ValueError(
            "--minutes must be a finite number above 0, such as --minutes=10. "
            f"Received: --minutes={minutes:g}"
        )
    for name in ("independent", "distributions"):
        if FLAGS[name].value:
            raise ValueError(
                "--minutes requires attacks that run in turn, so it cannot be "
                f"combined with --{name}, which the protocol {protocol!r} or "
                "the command line sets: use --protocol=budget."
            )


def main() -> None:
    """Runs adt-evaluate."""
    command.run("adt-evaluate", __doc__, FLAGS, evaluate)

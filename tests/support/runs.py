"""Training runs as real processes, and all that they leave behind."""

import json
import pathlib
import time

import keras
import tensorflow as tf

from tests.support import processes

# Everything that a run can carry over from step to step takes part: momentum,
# a schedule, averaged weights, augmentation, validation, the best. MODERN has
# what goes on top: weight perturbation, mixed images and labels, extra data.
COMMON = [
    "--dataset=digits",
    "--train_examples=256",
    "--validation_examples=64",
    "--batch_size=32",
    "--epochs=3",
    "--drop_after=2",
    "--epsilon=0.15",
    "--augment",
    "--ema_momentum=0.9",
    "--keep_best",
]
STEPS = 24
MODERN = [
    "--drop_after=",
    "--schedule=one_cycle",
    "--awp_size=0.01",
    "--awp_warmup=1",
    "--label_smoothing=0.1",
    "--activation=silu",
    "--clip_norm=5",
    "--cutout=3",
    "--cutmix=0.5",
    "--randaugment=0.2",
    "--outer_samples=2",
    "--sample_temperature=1",
    "--extra_fraction=0.4",
]
METHODS = {
    "standard": [],
    "at_pgd": ["--num_steps=2", "--epsilon_warmup=2"],
    "adt_exp": ["--num_steps=2", "--num_samples=2"],
    "adt_exp_am": ["--width_factor=0.05"],
    "adt_imp_am": ["--width_factor=0.05"],
}


def start(workdir, *arguments):
    """Starts adt-train; what it tells goes to a file beside."""
    workdir = pathlib.Path(workdir)
    return processes.start(
        "train",
        *arguments,
        f"--workdir={workdir}",
        stderr=workdir.with_name("told.txt"),
    )


def finish(workdir, *arguments, code=0):
    """Runs to the end; returns what was told as an error or warning."""
    process = start(workdir, *arguments)
    process.join()
    told = pathlib.Path(workdir).with_name("told.txt").read_text()
    assert process.exitcode == code, told
    return processes.without_log(told)


def kill_when(process, condition):
    """Sends SIGKILL at the first moment at which the condition holds."""
    while not condition():
        assert process.is_alive(), "it has ended before it was killed"
        time.sleep(0.001)
    process.kill()
    process.join()
    assert process.exitcode == -9, "it had ended before it was killed"


def last_step(workdir):
    steps = [p.name for p in pathlib.Path(workdir).glob("checkpoints/step-*")]
    return max((int(name.removeprefix("step-")) for name in steps), default=-1)


def end_of(workdir):
    """All numbers that a finished run leaves, in one dictionary."""
    workdir = pathlib.Path(workdir)
    newest = max(workdir.glob("checkpoints/*step-*"))
    reader = tf.train.load_checkpoint(str(newest / "state"))
    end = {
        f"state: {name}": reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    }
    for name in ("classifier", "best"):
        path = workdir / f"{name}.keras"
        if path.exists():
            weights = keras.saving.load_model(path).get_weights()
            end |= {f"{name}: {i}": w for i, w in enumerate(weights)}
    end["metrics.csv"] = (workdir / "metrics.csv").read_bytes()
    if (workdir / "best.json").exists():
        end["best.json"] = json.loads((workdir / "best.json").read_text())
        # Of files that hold their dates.
        del end["best.json"]["sha256"], end["best.json"]["replaces"]
    return end


def differences(ours, theirs):
    """What is not the same, bit for bit."""

    def bits(value):
        return value.tobytes() if hasattr(value, "tobytes") else value

    return [
        name
        for name in ours.keys() | theirs.keys()
        if bits(ours.get(name)) != bits(theirs.get(name))
    ]

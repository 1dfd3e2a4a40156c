"""Times one piece of work in PyTorch, a round at a time.

The process reads JSON lines and answers each with one (answering.py). The first
line prepares the work, each {"run": true} does it once, and the end of the
input ends the process:

    {"task": "pgd", "library": "foolbox", "network": "wrn-10-1",
     "batch": 128, "steps": 20}            -> {"ready": true, "chosen": {...}}
    {"task": "train", "method": "adt_exp", "variant": "tuned",
     "network": "wrn-16-4", "batch": 16, "k": 5, "T": 7}  -> {"ready": true, ..}
    {"run": true}                          -> {"seconds": 1.23, "images": 128}

A benchmark can so interleave the rounds of several processes. Fields of all
tasks, with their defaults:

    network       "wrn-10-1"; "wrn-<depth>-<widen_factor>" or "small_cnn"
    input_shape   [32, 32, 3]: height, width, channels
    batch         128 images
    epsilon       8 / 255
    threads       2
    seed          0; seed of weights, images and noise
    weights       none; file of export_weights.py with weights and images

Fields of "pgd": library ("foolbox", "art" or "torchattacks"), steps (20),
frozen (true: no weight gradients), channels_last. Fields of "train": method
("at_pgd", "adt_exp", "adt_exp_am" or "adt_imp_am"), variant ("released" or
"tuned"), k (5), T (7), width_factor (1.0), learning_rate (1e-6), samples
("batched" or "one_by_one"; tuned ADT-EXP only), compile ("none", "default",
"max-autotune" or "best", the faster of the last two), bfloat16 (false: no
autocast). Without channels_last or samples, both values are timed and the
faster one is kept.
"convolution" runs a 3x3 convolution and its input gradient on images of
input_shape, `repeats` times; bfloat16 as above.
"attack" runs an attack of libraries.py by its name (field attack, such as
"torchattacks/autoattack"); its answers also hold the number of images that
withstand it. Every answer has the processor's seconds. The answer to a line
that fails is {"error": "..."}.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import answering
import torch
import twins

_COMMON = {"task", "network", "input_shape", "batch", "epsilon", "threads"}
_COMMON |= {"seed", "weights"}
_FIELDS = {
    "pgd": {"library", "steps", "frozen", "channels_last"},
    "train": {"method", "variant", "k", "T", "width_factor"}
    | {"learning_rate", "samples", "compile", "bfloat16"},
    "attack": {"attack"},
    "convolution": {"bfloat16", "repeats"},
}
_MODES = ["default", "max-autotune"]


def prepare(fields: dict[str, Any]) -> tuple[Callable[[], Any], dict, int]:
    """Returns the work, the choices for it and the number of images."""
    task = fields.get("task")
    if task not in _FIELDS:
        raise ValueError(
            f"Field `task` must be one of {', '.join(_FIELDS)}. Received: "
            f"task={task!r}"
        )
    unknown = sorted(set(fields) - _COMMON - _FIELDS[task])
    if unknown:
        raise ValueError(f"Task {task!r} has no field {', '.join(unknown)}.")
    torch.set_num_threads(fields.get("threads", 2))
    images, labels = _data(fields)
    if task == "convolution":
        return _convolution(fields, images), {}, len(images)
    if task == "attack":
        return _attack(fields, images, labels), {}, len(images)
    if task == "pgd":
        build, open_fields = _pgd, {"channels_last": [False, True]}
    else:
        build, open_fields = _train, {"samples": ["batched", "one_by_one"]}
        if (fields.get("method"), fields.get("variant")) != (
            "adt_exp",
            "tuned",
        ):
            open_fields = {"samples": ["one_by_one"]}
    open_fields = {n: c for n, c in open_fields.items() if n not in fields}
    if fields.get("compile") == "best":
        open_fields["compile"] = _MODES
    choices = [
        dict(zip(open_fields, values, strict=True))
        for values in itertools.product(*open_fields.values())
    ]
    candidates = [build(fields | choice, images, labels) for choice in choices]
    index = answering.fastest(candidates)
    requested_choices = {
        n: fields[n] for n in ("samples", "compile") if n in fields
    }
    return candidates[index], requested_choices | choices[index], len(images)


def _data(fields):
    batch = fields.get("batch", 128)
    if fields.get("weights"):
        import weights

        exported = weights.load(fields["weights"])
        return exported.inputs[0][:batch], exported.labels[:batch]
    height, width, channels = fields.get("input_shape", [32, 32, 3])
    generator = torch.Generator().manual_seed(fields.get("seed", 0))
    images = torch.rand(batch, channels, height, width, generator=generator)
    return images, torch.randint(10, (batch,), generator=generator)


def _network(fields):
    if fields.get("weights"):
        import weights

        return weights.load(fields["weights"]).network
    torch.manual_seed(fields.get("seed", 0))
    return twins.build(
        fields.get("network", "wrn-10-1"),
        input_shape=fields.get("input_shape", [32, 32, 3]),
    )


def _pgd(fields, images, labels):
    import libraries

    network = _network(fields)
    network.requires_grad_(not fields.get("frozen", True))
    if fields["channels_last"]:
        network.to(memory_format=torch.channels_last)
        # ART takes NumPy arrays and turns them into NCHW.
        if fields["library"] != "art":
            images = images.contiguous(memory_format=torch.channels_last)
    attack = libraries.get(
        f"{fields['library']}/pgd-{fields.get('steps', 20)}",
        network,
        shape=images.shape[1:],
        epsilon=fields.get("epsilon", 8 / 255),
        num_classes=network.logits.out_features,
        seed=fields.get("seed", 0),
    )
    return lambda: attack(images, labels)


def _attack(fields, images, labels):
    import libraries

    network = _network(fields).requires_grad_(False)
    attack = libraries.get(
        fields["attack"],
        network,
        shape=images.shape[1:],
        epsilon=fields.get("epsilon", 8 / 255),
        num_classes=network.logits.out_features,
        seed=fields.get("seed", 0),
    )

    def work():
        x_adv = attack(images, labels)
        with torch.inference_mode():
            return int((network(x_adv).argmax(1) == labels).sum())

    return work


def _convolution(fields, images):
    dtype = torch.bfloat16 if fields.get("bfloat16") else torch.float32
    channels = images.shape[1]
    images, slopes, kernel = (
        tensor.to(dtype).contiguous(memory_format=torch.channels_last)
        for tensor in (
            images,
            torch.rand_like(images),
            torch.randn(channels, channels, 3, 3),
        )
    )

    images.requires_grad_()

    def work():
        for _ in range(fields.get("repeats", 1)):
            outputs = torch.nn.functional.conv2d(images, kernel, padding=1)
            torch.autograd.grad(outputs, images, slopes)

    return work


def _train(fields, images, labels):
    import released
    import tuned

    variants = {"released": released.METHODS, "tuned": tuned.METHODS}
    variant, method = fields.get("variant"), fields.get("method")
    if variant not in variants or method not in variants[variant]:
        raise ValueError(
            f"Fields `variant` and `method` must be one of {list(variants)} "
            f"and one of {list(released.METHODS)}. Received: "
            f"variant={variant!r}, method={method!r}"
        )
    names = {"k": "num_samples", "T": "num_steps"}
    of_settings = {"k", "T", "epsilon", "width_factor", "learning_rate"}
    of_settings |= {"samples", "compile", "bfloat16"}
    _, channels, height, width = images.shape
    settings = released.Settings(
        input_shape=(height, width, channels),
        **{names.get(n, n): fields[n] for n in of_settings & set(fields)},
    )
    network = released.prepared(_network(fields), settings)
    step = variants[variant][method](network, settings)
    return lambda: step(images, labels)


if __name__ == "__main__":
    answering.serve(prepare)

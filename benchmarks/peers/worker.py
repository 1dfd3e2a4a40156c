"""A process that times one piece of work in PyTorch, a round at a time.

It reads JSON lines and answers each with one. The first prepares the work,
each {"run": true} does it once, the end of the input ends the process:

    {"task": "pgd", "library": "foolbox", "network": "wrn-10-1",
     "batch": 128, "steps": 20}            -> {"ready": true, "chosen": {...}}
    {"task": "train", "method": "adt_exp", "variant": "tuned",
     "network": "wrn-16-4", "batch": 16, "k": 5, "T": 7}  -> {"ready": true, ..}
    {"run": true}                          -> {"seconds": 1.23, "images": 128}

So whoever asks can interleave rounds of several processes. Fields of both
tasks, with their defaults:

    network       "wrn-10-1"; "wrn-<depth>-<widen_factor>" or "small_cnn"
    input_shape   [32, 32, 3], height, width, channels
    batch         128 images
    epsilon       8 / 255
    threads       2
    seed          0, of weights, images and noise
    weights       none; a file of export_weights.py, for its weights and images

of "pgd": library ("foolbox", "art" or "torchattacks"), steps (20), frozen
(true: no weight gradients), channels_last; of "train": method ("at_pgd",
"adt_exp", "adt_exp_am" or "adt_imp_am"), variant ("released" or "tuned"), k
(5), T (7), width_factor (1.0), learning_rate (1e-6), samples ("batched" or
"one_by_one"; the tuned ADT-EXP), compile ("none", "default", "max-autotune"
or "best", the faster of the two), bfloat16 (false: no autocast). Where
channels_last or samples is not given, preparing tries both and keeps the
faster. "attack" runs an attack of libraries.py by its name (attack,
"torchattacks/autoattack") and also answers how many images stand. Every answer
has the processor's seconds as well. An error is answered by {"error": "..."}.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import twins

_COMMON = {"task", "network", "input_shape", "batch", "epsilon", "threads"}
_COMMON |= {"seed", "weights"}
_OF_TASK = {
    "pgd": {"library", "steps", "frozen", "channels_last"},
    "train": {"method", "variant", "k", "T", "width_factor"}
    | {"learning_rate", "samples", "compile", "bfloat16"},
    "attack": {"attack"},
}
_MODES = ["default", "max-autotune"]


def prepare(fields: dict[str, Any]) -> tuple[Callable[[], Any], dict, int]:
    """Returns the work, the choices made for it and the number of images."""
    task = fields.get("task")
    if task not in _OF_TASK:
        raise ValueError(
            f"Field `task` must be one of {', '.join(_OF_TASK)}. Received: "
            f"task={task!r}"
        )
    unknown = sorted(set(fields) - _COMMON - _OF_TASK[task])
    if unknown:
        raise ValueError(f"Task {task!r} has no field {', '.join(unknown)}.")
    torch.set_num_threads(fields.get("threads", 2))
    images, labels = _data(fields)
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
    index = _fastest(candidates)
    given = {n: fields[n] for n in ("samples", "compile") if n in fields}
    return candidates[index], given | choices[index], len(images)


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
        # ART takes NumPy arrays, which it makes NCHW again.
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
    renamed = {"k": "num_samples", "T": "num_steps"}
    taken = {"k", "T", "epsilon", "width_factor", "learning_rate", "samples"}
    taken |= {"compile", "bfloat16"}
    _, channels, height, width = images.shape
    settings = released.Settings(
        input_shape=(height, width, channels),
        **{renamed.get(n, n): fields[n] for n in taken & set(fields)},
    )
    network = released.prepared(_network(fields), settings)
    step = variants[variant][method](network, settings)
    return lambda: step(images, labels)


def _fastest(candidates: list[Callable[[], Any]]) -> int:
    """Warms up; where there is a choice, returns the faster one's index."""
    for candidate in candidates:
        candidate()
    if len(candidates) == 1:
        return 0
    best = [float("inf")] * len(candidates)
    for _ in range(3):
        for index, candidate in enumerate(candidates):
            best[index] = min(best[index], timed(candidate))
    return best.index(min(best))


def timed(work: Callable[[], Any]) -> float:
    """Returns the seconds that the work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Answers line by line."""
    # Libraries print to the standard output; it belongs to the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    work, images = None, 0
    for line in filter(str.strip, sys.stdin):
        try:
            fields = json.loads(line)
            if fields == {"run": True}:
                if work is None:
                    raise ValueError("Nothing is prepared: send a task first.")
                cpu, begin = time.process_time(), time.perf_counter()
                result = work()
                answer = {
                    "seconds": time.perf_counter() - begin,
                    "cpu_seconds": time.process_time() - cpu,
                    "images": images,
                    "standing": result if isinstance(result, int) else None,
                }
            else:
                work, chosen, images = prepare(fields)
                answer = {"ready": True, "chosen": chosen}
        except Exception as error:
            # Whoever asks waits for a line, whatever went wrong.
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

"""Which flags the training methods take, known without TensorFlow.

    takes("at_pgd", "num_steps")          # True
    takes("at_pgd", "num_samples")        # False: `methods.get` refuses it

A recipe sets flags for many methods at once. Those that the chosen method does
not take are left out of it; on a command line they are refused.
"""

from __future__ import annotations

#: The method of a run that names none.
DEFAULT_METHOD = "adt_exp"

_STEPS = ("num_steps", "step_size", "search_precision")
_ENTROPY = ("entropy_weight", "entropy_reduction")
_GENERATOR = ("width_factor", "gradient_scale")
_TAKEN = {
    "standard": (),
    "at_fgsm": (),
    "fgsm_rs": ("step_size",),
    "n_fgsm": ("step_share", "noise_share"),
    "at_pgd": (*_STEPS, "temperature"),
    "alp": (*_STEPS, "pairing_weight"),
    "fea_scatter": (),
    "trades": (*_STEPS, "beta"),
    "mart": (*_STEPS, "beta"),
    "l2l": _GENERATOR,
    "adt_exp": (
        *_STEPS,
        "num_samples",
        "sample_chunk",
        *_ENTROPY,
        "entropy",
        "family",
        "gradient_decay",
        "adam_epsilon",
        "beta",
    ),
    "adt_exp_am": (*_GENERATOR, *_ENTROPY, "entropy", "family", "beta"),
    "adt_imp_am": (
        *_GENERATOR,
        *_ENTROPY,
        "entropy",
        "entropy_threshold",
        "beta",
    ),
}
#: All flags that are arguments of some method.
METHOD_FLAGS = ("epsilon", *dict.fromkeys(sum(_TAKEN.values(), ())))


def takes(method: str, flag: str) -> bool:
    """Says whether a method takes a flag.

    A flag that is no method's argument, such as --epochs, goes with all of
    them, and so does every flag with a method that does not exist.
    """
    if flag == "epsilon" or flag not in METHOD_FLAGS or method not in _TAKEN:
        return True
    return flag in _TAKEN[method]

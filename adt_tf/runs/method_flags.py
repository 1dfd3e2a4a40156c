"""Lists the flags that each training method accepts, without TensorFlow.

    takes("at_pgd", "num_steps")          # True
    takes("at_pgd", "num_samples")        # False: `methods.get` refuses it

A recipe sets flags for many methods. Flags that the method does not accept are
dropped from a recipe, and refused on a command line.
"""

from __future__ import annotations

#: Default of --method.
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
#: All flags that are arguments of a method.
METHOD_FLAGS = ("epsilon", *dict.fromkeys(sum(_TAKEN.values(), ())))


def takes(method: str, flag: str) -> bool:
    """Returns whether a method accepts a flag.

    The result is True for flags that are not arguments of a method, such as
    --epochs, and for methods that do not exist.
    """
    if flag == "epsilon" or flag not in METHOD_FLAGS or method not in _TAKEN:
        return True
    return flag in _TAKEN[method]

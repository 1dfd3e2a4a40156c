"""Named attacks in which a network takes the place of the ascent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras

from adt_tf import networks, threat_models
from adt_tf.attacks.amortized import Amortized
from adt_tf.attacks.options import (
    ExpAmOptions,
    FamilyOptions,
    ImpAmOptions,
    ImplicitOptions,
    ScaleOptions,
    pick,
    takes,
)
from adt_tf.checks import arguments
from adt_tf.distributions import (
    AmortizedFamily,
    Dirac,
    Flow,
    Generated,
    Implicit,
    ImplicitStein,
    named,
)
from adt_tf.threat_models import ThreatModel

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(ExpAmOptions)
def exp_am(
    epsilon: float | ThreatModel,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    entropy_weight: float = 0.01,
    seed: int = 0,
    **options: Unpack[ExpAmOptions],
) -> Amortized:
    """Squashed Gaussians, or a richer family, that a generator outputs.

    Args:
        epsilon: Radius of the ball, or a threat model.
        input_shape: Shape of an image: height, width, channels.
        width_factor: Factor of the generator's widths; 1 is the paper's.
        entropy_weight: Weight lambda of the entropy.
        seed: Seed of the generator's weights.
        **options: `family`, `entropy` and `entropy_reduction` as in `exp`,
            where `family` may also be "flow", or "flow-4" with four coupling
            layers; `gradient_scale`, a factor of the gradients that the
            generator sees, 1 / 64 in the released code at a batch of 64. By
            default the gradients are normalised.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 3.
    """
    family = {"family": named.DEFAULT, **pick(options, FamilyOptions)}
    kind, _ = named.split(family["family"])
    build = _AMORTIZED.get(kind, _generated)
    sizes: dict[str, Any] = {"width_factor": width_factor, "seed": seed}
    return Amortized(
        build(threat_models.get(epsilon), input_shape, sizes, **family),
        entropy_weight=entropy_weight,
        name="EXP-AM" + named.suffix(family["family"]),
        **pick(options, ScaleOptions),
    )


def _generated(
    threat_model: ThreatModel,
    input_shape: tuple[int, int, int],
    sizes: Mapping[str, Any],
    **settings: Any,
) -> Generated:
    """Returns an explicit family whose parameters a generator outputs."""
    family = named.named(threat_model=threat_model, **settings)
    generator = networks.explicit_generator(
        input_shape, num_maps=family.num_maps, **sizes
    )
    return Generated(family, generator)


def _flow(
    threat_model: ThreatModel,
    input_shape: tuple[int, int, int],
    sizes: Mapping[str, Any],
    *,
    family: str,
    entropy: Any = named.DEFAULT_ENTROPY,
    **settings: Any,
) -> Flow:
    """Returns a flow; its name may end in the number of coupling layers."""
    named.require_default_entropy(family, entropy)
    _, number = named.split(family)
    couplings = [
        networks.coupling(input_shape, **{**sizes, "seed": sizes["seed"] + i})
        for i in range(2 if number is None else number)
    ]
    generator = networks.explicit_generator(input_shape, **sizes)
    return Flow(threat_model, generator, couplings, **settings)


# Families that need more than a generator of an explicit family's parameters.
_AMORTIZED = {"flow": _flow}


@takes(ImpAmOptions)
def imp_am(
    epsilon: float | ThreatModel,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    entropy_weight: float | None = None,
    seed: int = 0,
    **options: Unpack[ImpAmOptions],
) -> Amortized:
    """Noise pushed through a generator.

    Args:
        epsilon: Radius of the ball, or a threat model.
        input_shape: Shape of an image: height, width, channels.
        width_factor: Factor of the widths of the generator and of q; 1 is the
            paper's.
        entropy_weight: Weight lambda of log q(z | delta); by default 0.01, and
            1 with an `entropy_threshold`.
        seed: Seed of the networks' weights.
        **options: Any of:

            - `entropy`: "posterior", the bound of a network q; or "stein",
              Stein's estimate from samples, or "stein-16" from 16 samples:
              then there is no q, and the dimensions are those of the image.
            - `entropy_reduction`: "mean" or "sum" over the dimensions of z.
            - `entropy_threshold`: None for the paper's form; 0.9 for the hinge
              of the released code on the mean over a batch, which couples the
              examples in training.
            - `gradient_scale`: See `exp_am`.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 4.
    """
    threshold = options.get("entropy_threshold")
    if entropy_weight is None:
        entropy_weight = 0.01 if threshold is None else 1.0
    sizes: dict[str, Any] = {"width_factor": width_factor, "seed": seed}
    family, suffix = _implicit(
        threat_models.get(epsilon),
        networks.implicit_generator(input_shape, **sizes),
        lambda: networks.posterior(input_shape, **sizes),
        **pick(options, ImplicitOptions),
    )
    return Amortized(
        family,
        entropy_weight=entropy_weight,
        entropy_threshold=threshold,
        name=f"IMP-AM{suffix}",
        **pick(options, ScaleOptions),
    )


def _implicit(
    threat_model: ThreatModel,
    generator: keras.Model,
    make_posterior: Any,
    *,
    entropy: str = "posterior",
    **settings: Any,
) -> tuple[AmortizedFamily, str]:
    """Returns the family of an entropy's name, and the suffix of its name."""
    kind, number = named.split(entropy)
    arguments.one_of(
        _ENTROPIES if number is None else _COUNTED_ENTROPIES,
        entropy=entropy if number is None else kind,
    )
    if kind not in _COUNTED_ENTROPIES:
        return Implicit(
            threat_model, generator, make_posterior(), **settings
        ), ""
    if number is not None:
        settings["num_particles"] = number
    family = ImplicitStein(threat_model, generator, **settings)
    return family, f" ({entropy})"


_ENTROPIES = ("posterior", "stein")
# Names that may end in a number.
_COUNTED_ENTROPIES = ("stein",)


def l2l(
    epsilon: float | ThreatModel,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    gradient_scale: float | None = None,
    seed: int = 0,
) -> Amortized:
    """One perturbation for each image, the output of a generator.

    Args:
        epsilon: Radius of the ball, or a threat model.
        input_shape: Shape of an image: height, width, channels.
        width_factor: Factor of the generator's widths; 1 is the paper's.
        gradient_scale: Factor of the gradients that the generator sees; see
            `exp_am`.
        seed: Seed of the generator's weights.

    Reference: Jiang et al., Learning to Defend by Learning to Attack, 2018.
    """
    generator = networks.point_generator(
        input_shape, width_factor=width_factor, seed=seed
    )
    family = Dirac(threat_models.get(epsilon), random_start=False)
    return Amortized(
        Generated(family, generator), gradient_scale=gradient_scale, name="L2L"
    )

"""The networks of ADT's amortised attacks, as their authors saved them.

In PyTorch's names:

    model.{0, 1}, model.{3, 4, 5}.{conv_block.{0, 1, 3, 4}, short_cut.{0, 1}},
        model.6, z_encoder.{0, 2}                       (generators)
    main1.{0, 1, 3, 4, 6, 7, 9, 10}, main2.0            (q)

The authors take the hyperbolic tangent outside the implicit generator; here it
is inside.
"""

from __future__ import annotations

import re

from adt_tf.networks.generator import explicit_generator, implicit_generator
from adt_tf.networks.posterior import posterior
from adt_tf.serving.bridge.layouts.base import Layout, Request, Shapes


def _generator_shapes(shapes: Shapes) -> tuple[int, int, int] | None:
    """Returns the inputs, the width and the outputs of a generator."""
    first = shapes.get("model.0.weight", ())
    middle = shapes.get("model.4.conv_block.0.weight", ())
    last = shapes.get("model.6.weight", ())
    if not len(first) == len(middle) == len(last) == 4:
        return None
    if middle != (2 * first[0], 2 * first[0], 3, 3):
        return None
    return first[1], first[0], last[0]


def _recognize_explicit(shapes: Shapes) -> list[str]:
    has_latent = "z_encoder.0.weight" in shapes
    fits = _generator_shapes(shapes) and not has_latent
    return ["explicit_generator"] if fits else []


def _recognize_implicit(shapes: Shapes) -> list[str]:
    has_latent = "z_encoder.0.weight" in shapes
    fits = _generator_shapes(shapes) and has_latent
    return ["implicit_generator"] if fits else []


def _recognize_posterior(shapes: Shapes) -> list[str]:
    fits = "main1.9.weight" in shapes and "main2.0.weight" in shapes
    return ["posterior"] if fits else []


def _build_explicit(request: Request):
    inputs, width, _ = _generator_shapes(request.shapes) or (9, 256, 6)
    shape = request.input_shape or (32, 32, max(inputs // 3, 1))
    return explicit_generator(shape, width_factor=width / 256)


def _build_implicit(request: Request):
    inputs, width, _ = _generator_shapes(request.shapes) or (10, 256, 3)
    shape = request.input_shape or (32, 32, max((inputs - 1) // 3, 1))
    latent = request.shapes.get("z_encoder.0.weight", (256, 64))
    return implicit_generator(
        shape, latent_size=latent[1], width_factor=width / 256
    )


def _build_posterior(request: Request):
    first = request.shapes.get("main1.0.weight", (32, 3))
    last = request.shapes.get("main2.0.weight", (128,))
    return posterior(
        request.input_shape or (32, 32, first[1]),
        latent_size=max(last[0] // 2, 1),
        width_factor=first[0] / 32,
    )


def _generator_modules() -> dict[str, str]:
    modules = {
        r"model\.0": "stem",
        r"model\.1": "stem_normalization",
        r"model\.6": "head",
        r"z_encoder\.0": "latent_dense1",
        r"z_encoder\.2": "latent_dense2",
    }
    for block, index in ((1, 3), (2, 4), (3, 5)):
        for module, layer in (
            ("conv_block.0", "convolution1"),
            ("conv_block.1", "convolution1_normalization"),
            ("conv_block.3", "convolution2"),
            ("conv_block.4", "convolution2_normalization"),
            ("short_cut.0", "shortcut"),
            ("short_cut.1", "shortcut_normalization"),
        ):
            pattern = re.escape(f"model.{index}.{module}")
            modules[pattern] = f"block{block}_{layer}"
    return modules


EXPLICIT_GENERATOR = Layout(
    name="explicit_generator",
    pattern=r"explicit-generator",
    recognize=_recognize_explicit,
    build=_build_explicit,
    modules=_generator_modules(),
)

IMPLICIT_GENERATOR = Layout(
    name="implicit_generator",
    pattern=r"implicit-generator",
    recognize=_recognize_implicit,
    build=_build_implicit,
    modules=_generator_modules(),
)

POSTERIOR = Layout(
    name="posterior",
    pattern=r"posterior",
    recognize=_recognize_posterior,
    build=_build_posterior,
    modules={
        r"main1\.0": "convolution1",
        r"main1\.1": "normalization1",
        r"main1\.3": "convolution2",
        r"main1\.4": "normalization2",
        r"main1\.6": "convolution3",
        r"main1\.7": "normalization3",
        r"main1\.9": "convolution4",
        r"main1\.10": "normalization4",
        r"main2\.0": "mean_and_raw_variance",
    },
)

"""The same training steps, as fast as plain PyTorch does them on a CPU.

    step = METHODS["adt_exp"](classifier, Settings(samples="batched"))
    loss = step(images, labels)

Against released.py: channels-last memory, weights frozen while only input
gradients are wanted, gradients fresh at every step, the stable form of
log(1 - tanh^2), and the k samples in one batch where that is faster.
"""

from __future__ import annotations

import contextlib
import math

import torch
import torch.nn.functional as F
from released import (
    Settings,
    Step,
    attack_network,
    attack_optimizer,
    classifier_optimizer,
    log_posterior,
    outer_step,
    perturb,
    saddle_step,
)
from torch import nn

CHANNELS_LAST = torch.channels_last


@contextlib.contextmanager
def frozen(network: nn.Module):
    """Inference mode, and no weight gradients, inside the block."""
    network.eval()
    network.requires_grad_(False)
    try:
        yield
    finally:
        network.requires_grad_(True)


def at_pgd(classifier: nn.Module, settings: Settings) -> Step:
    """AT-PGD: sign steps of epsilon / 4 from a random start."""
    classifier.to(memory_format=CHANNELS_LAST)
    optimizer = classifier_optimizer(classifier, settings)
    epsilon = settings.epsilon

    def step(x, y):
        x = x.contiguous(memory_format=CHANNELS_LAST)
        low, high = (x - epsilon).clamp_(min=0), (x + epsilon).clamp_(max=1)
        x_adv = x + torch.empty_like(x).uniform_(-epsilon, epsilon)
        x_adv.clamp_(0, 1)
        with frozen(classifier):
            for _ in range(settings.num_steps):
                gradient = _input_gradient(classifier, x_adv, y)
                x_adv.add_(gradient.sign_(), alpha=epsilon / 4)
                torch.clamp(x_adv, low, high, out=x_adv)
        return outer_step(classifier, optimizer, x_adv, y)

    return step


def adt_exp(classifier: nn.Module, settings: Settings) -> Step:
    """ADT-EXP: T steps of Adam on (mu, rho) of each image's own Gaussian."""
    if settings.samples not in ("batched", "one_by_one"):
        raise ValueError(
            "Setting `samples` must be 'batched' or 'one_by_one'. Received: "
            f"samples={settings.samples!r}"
        )
    classifier.to(memory_format=CHANNELS_LAST)
    optimizer = classifier_optimizer(classifier, settings)
    batched = settings.samples == "batched"
    at_once = settings.num_samples if batched else 1

    def step(x, y):
        # NHWC here and a transposed view for the classifier: the elementwise
        # work then runs on contiguous memory, and nothing is copied.
        x = x.permute(0, 2, 3, 1).contiguous()
        repeated = y.repeat(at_once)
        mu = torch.zeros_like(x, requires_grad=True)
        rho = torch.zeros_like(x, requires_grad=True)
        inner = torch.optim.Adam([mu, rho], lr=0.3, betas=(0.0, 0.0))
        with frozen(classifier):
            for _ in range(settings.num_steps):
                inner.zero_grad()
                for _ in range(settings.num_samples // at_once):
                    noise = torch.randn(at_once, *x.shape)
                    direction, entropy = _sample(mu, rho, noise)
                    x_adv = perturb(x, direction, settings.epsilon)
                    loss = F.cross_entropy(
                        classifier(_channels_first(x_adv)),
                        repeated,
                        reduction="sum",
                    )
                    value = loss + settings.entropy_weight * entropy
                    (-value / settings.num_samples).backward()
                inner.step()
        with torch.no_grad():
            direction, _ = _sample(mu, rho, torch.randn_like(x))
            x_adv = perturb(x, direction, settings.epsilon)
        return outer_step(classifier, optimizer, _channels_first(x_adv), y)

    return step


def adt_exp_am(classifier: nn.Module, settings: Settings) -> Step:
    """ADT-EXP-AM: a generator gives (mu, rho), trained by the same pass."""
    generator = attack_network("explicit_generator", settings)
    for network in (classifier, generator):
        network.to(memory_format=CHANNELS_LAST)
    optimizers = [
        classifier_optimizer(classifier, settings),
        attack_optimizer(generator),
    ]

    def step(x, y):
        x = x.contiguous(memory_format=CHANNELS_LAST)
        outputs = generator(_conditioning(classifier, x, y, settings.epsilon))
        mu, rho = outputs.chunk(2, dim=1)
        direction, entropy = _sample(mu, rho, torch.randn_like(x))
        return saddle_step(
            classifier,
            perturb(x, direction, settings.epsilon),
            y,
            bonus=settings.entropy_weight * entropy / len(x),
            optimizers=optimizers,
        )

    return step


def adt_imp_am(classifier: nn.Module, settings: Settings) -> Step:
    """ADT-IMP-AM: noise through a generator, its entropy bounded by q."""
    generator = attack_network("implicit_generator", settings)
    posterior = attack_network("posterior", settings)
    for network in (classifier, generator, posterior):
        network.to(memory_format=CHANNELS_LAST)
    optimizers = [
        classifier_optimizer(classifier, settings),
        attack_optimizer(generator, posterior),
    ]

    def step(x, y):
        x = x.contiguous(memory_format=CHANNELS_LAST)
        z = torch.empty(len(x), 64).uniform_(-1, 1)
        conditioning = _conditioning(classifier, x, y, settings.epsilon)
        direction = generator(conditioning, z)
        log_q = log_posterior(posterior(direction), z)
        return saddle_step(
            classifier,
            perturb(x, direction, settings.epsilon),
            y,
            bonus=settings.entropy_weight * log_q,
            optimizers=optimizers,
        )

    return step


def _sample(mu, rho, noise):
    """Returns tanh(u) and the entropy, summed over samples and examples.

    `noise` may have an axis of samples in front. The entropy of an example is
    the mean over its dimensions, without the terms that have no gradient.
    """
    sigma = F.softplus(rho)
    u = mu + sigma * noise
    # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), finite for every u.
    squashing = 2 * (math.log(2) - u - F.softplus(-2 * u))
    count = noise.numel() // mu.numel()
    total = count * sigma.log().sum() + squashing.sum()
    return torch.tanh(u), total / mu[0].numel()


def _channels_first(x_adv):
    """Views NHWC, of any number of leading axes, as channels-last NCHW."""
    return x_adv.flatten(0, -4).permute(0, 3, 1, 2)


def _input_gradient(classifier, images, y):
    images = images.detach().requires_grad_()
    loss = F.cross_entropy(classifier(images), y, reduction="sum")
    return torch.autograd.grad(loss, [images])[0]


def _conditioning(classifier, x, y, epsilon):
    """Returns [x, g1, g2], each gradient divided by its mean size."""
    with frozen(classifier):
        first = _input_gradient(classifier, x, y)
        second = _input_gradient(
            classifier, perturb(x, first.sign(), epsilon), y
        )
    scaled = [
        g / g.abs().mean(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)
        for g in (first, second)
    ]
    conditioning = torch.cat([x, *scaled], dim=1)
    return conditioning.contiguous(memory_format=CHANNELS_LAST)


METHODS = {
    function.__name__: function
    for function in (at_pgd, adt_exp, adt_exp_am, adt_imp_am)
}

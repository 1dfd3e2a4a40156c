"""The training steps of released.py, tuned for plain PyTorch on a CPU.

    step = METHODS["adt_exp"](classifier, Settings(samples="batched"))
    loss = step(images, labels)

The differences: channels-last memory, frozen weights where only input gradients
are needed, new gradients at every step, the stable form of log(1 - tanh^2), and
the k samples in one batch where that is faster.
"""

from __future__ import annotations

import contextlib
import math

import torch
import torch.nn.functional as F
from released import (
    Settings,
    Step,
    amortized_step,
    attack_network,
    classifier_optimizer,
    implicit_step,
    outer_step,
    perturb,
)
from torch import nn

CHANNELS_LAST = torch.channels_last


@contextlib.contextmanager
def frozen(network: nn.Module):
    """Sets inference mode and turns off weight gradients inside the block."""
    network.eval()
    network.requires_grad_(False)
    try:
        yield
    finally:
        network.requires_grad_(True)


def at_pgd(classifier: nn.Module, settings: Settings) -> Step:
    """Returns a step of AT-PGD: sign steps of epsilon / 4, random start."""
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
    """Returns a step of ADT-EXP: T steps of Adam on (mu, rho)."""
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
        # The classifier gets a transposed view of NHWC: elementwise work runs
        # on contiguous memory, and nothing is copied.
        x = x.permute(0, 2, 3, 1).contiguous()
        labels = y.repeat(at_once)
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
                        labels,
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
    """Returns a step of ADT-EXP-AM: a generator outputs (mu, rho)."""
    generator = attack_network("explicit_generator", settings)

    def draw(x, conditioning):
        mu, rho = generator(conditioning).chunk(2, dim=1)
        direction, entropy = _sample(mu, rho, torch.randn_like(x))
        return direction, settings.entropy_weight * entropy / len(x)

    return amortized_step(
        classifier, [generator], settings, _conditioning, draw, CHANNELS_LAST
    )


def adt_imp_am(classifier: nn.Module, settings: Settings) -> Step:
    """Returns a step of ADT-IMP-AM: a generator of noise, q bounds entropy."""
    return implicit_step(
        classifier,
        settings,
        _conditioning,
        lambda log_q: settings.entropy_weight * log_q,
        CHANNELS_LAST,
    )


def _sample(mu, rho, noise):
    """Returns tanh(u) and the entropy, summed over samples and examples.

    `noise` may have a leading axis of samples. The entropy of an example is
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
    """Views NHWC images with any leading axes as channels-last NCHW."""
    return x_adv.flatten(0, -4).permute(0, 3, 1, 2)


def _input_gradient(classifier, images, y):
    images = images.detach().requires_grad_()
    loss = F.cross_entropy(classifier(images), y, reduction="sum")
    return torch.autograd.grad(loss, [images])[0]


def _conditioning(classifier, x, y, epsilon):
    """Returns [x, g1, g2], each gradient divided by its mean absolute value."""
    with frozen(classifier):
        first = _input_gradient(classifier, x, y)
        second = _input_gradient(
            classifier, perturb(x, first.sign(), epsilon), y
        )
    normalized_gradients = [
        g / g.abs().mean(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)
        for g in (first, second)
    ]
    conditioning = torch.cat([x, *normalized_gradients], dim=1)
    return conditioning.contiguous(memory_format=CHANNELS_LAST)


METHODS = {
    function.__name__: function
    for function in (at_pgd, adt_exp, adt_exp_am, adt_imp_am)
}

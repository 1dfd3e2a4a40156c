"""Training steps of the paper's released PyTorch code.

    step = METHODS["adt_exp"](classifier, Settings())
    loss = step(images, labels)    # NCHW, one update of the weights

They have the properties of that code: NCHW, samples one by one, `backward` in
the inner loop, which also computes weight gradients that nothing uses,
gradients of (mu, rho) that are never set to zero, and log(1 - a^2 + 1e-8). The
release does not include AT-PGD; here it is the usual loop, with gradients of
the images only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
import twins
from torch import nn

Step = Callable[[torch.Tensor, torch.Tensor], float]
#: Function from the classifier, images, labels and epsilon to the generator's
#: input.
Condition = Callable[..., torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a training step; the defaults are the paper's.

    Attributes:
        input_shape: Height, width and channels of an image.
        epsilon: Radius of the l-infinity ball.
        num_steps: Number of steps, T.
        num_samples: Number of samples of ADT-EXP, k.
        entropy_weight: Weight of the entropy, lambda.
        width_factor: Factor of the widths of the generator and of q.
        learning_rate: Learning rate of the classifier. The default hardly
            changes the weights, so that all rounds of a timing do equal work.
        samples: "batched" or "one_by_one"; the tuned ADT-EXP only.
        compile: Mode of torch.compile for every network, or "none".
        bfloat16: Whether networks run in bfloat16 autocast.
    """

    input_shape: tuple[int, int, int] = (32, 32, 3)
    epsilon: float = 8 / 255
    num_steps: int = 7
    num_samples: int = 5
    entropy_weight: float = 0.01
    width_factor: float = 1.0
    learning_rate: float = 1e-6
    samples: str = "one_by_one"
    compile: str = "none"
    bfloat16: bool = False


class Autocast(nn.Module):
    """A network under bfloat16 autocast, with float32 outputs."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, *inputs):
        """Runs the network under autocast."""
        with torch.autocast("cpu", torch.bfloat16):
            outputs = self.network(*inputs)
        return outputs.float()


def prepared(network: nn.Module, settings: Settings) -> nn.Module:
    """Returns a network with the autocast and compilation of the settings."""
    if settings.bfloat16:
        network = Autocast(network)
    if settings.compile == "none":
        return network
    return torch.compile(network, mode=settings.compile)


def classifier_optimizer(
    classifier: nn.Module, settings: Settings
) -> torch.optim.Optimizer:
    """Returns the paper's SGD."""
    return torch.optim.SGD(
        classifier.parameters(),
        lr=settings.learning_rate,
        momentum=0.9,
        weight_decay=2e-4,
    )


def attack_optimizer(*networks: nn.Module) -> torch.optim.Optimizer:
    """Returns the paper's Adam for a generator and for q."""
    parameters = [p for network in networks for p in network.parameters()]
    return torch.optim.Adam(parameters, lr=2e-4, betas=(0.5, 0.999))


def attack_network(name: str, settings: Settings) -> nn.Module:
    """Returns a generator or q, in training mode."""
    network = twins.build(
        name,
        input_shape=settings.input_shape,
        width_factor=settings.width_factor,
    )
    return prepared(network, settings).train()


def perturb(
    x: torch.Tensor, direction: torch.Tensor, epsilon: float
) -> torch.Tensor:
    """Returns x + epsilon * direction, clipped to [0, 1]."""
    return torch.clamp(x + epsilon * direction, 0.0, 1.0)


def outer_step(
    classifier: nn.Module,
    optimizer: torch.optim.Optimizer,
    x_adv: torch.Tensor,
    y: torch.Tensor,
) -> float:
    """Updates the weights on adversarial images, in training mode."""
    classifier.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(classifier(x_adv), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def at_pgd(classifier: nn.Module, settings: Settings) -> Step:
    """Returns a step of AT-PGD: sign steps of epsilon / 4, random start."""
    optimizer = classifier_optimizer(classifier, settings)
    epsilon = settings.epsilon

    def step(x, y):
        classifier.eval()
        x_adv = x + torch.empty_like(x).uniform_(-epsilon, epsilon)
        for _ in range(settings.num_steps):
            x_adv = x_adv.detach().requires_grad_()
            loss = F.cross_entropy(classifier(x_adv), y)
            (gradient,) = torch.autograd.grad(loss, [x_adv])
            delta = x_adv.detach() + epsilon / 4 * gradient.sign() - x
            x_adv = perturb(x, delta.clamp(-epsilon, epsilon), 1.0)
        return outer_step(classifier, optimizer, x_adv, y)

    return step


def adt_exp(classifier: nn.Module, settings: Settings) -> Step:
    """Returns a step of ADT-EXP: T steps of Adam on (mu, rho)."""
    optimizer = classifier_optimizer(classifier, settings)

    def step(x, y):
        classifier.eval()
        mu = torch.zeros_like(x, requires_grad=True)
        rho = torch.zeros_like(x, requires_grad=True)
        inner = torch.optim.Adam([mu, rho], lr=0.3, betas=(0.0, 0.0))
        for _ in range(settings.num_steps):
            for _ in range(settings.num_samples):
                direction, entropy = _sample(mu, rho)
                x_adv = perturb(x, direction, settings.epsilon)
                loss = F.cross_entropy(classifier(x_adv), y)
                value = loss + settings.entropy_weight * entropy
                (-value / settings.num_samples).backward()
            inner.step()
        with torch.no_grad():
            direction, _ = _sample(mu, rho)
            x_adv = perturb(x, direction, settings.epsilon)
        return outer_step(classifier, optimizer, x_adv, y)

    return step


def adt_exp_am(classifier: nn.Module, settings: Settings) -> Step:
    """Returns a step of ADT-EXP-AM: a generator outputs (mu, rho)."""
    generator = attack_network("explicit_generator", settings)

    def draw(x, conditioning):
        direction, entropy = _sample(*generator(conditioning).chunk(2, dim=1))
        return direction, settings.entropy_weight * entropy

    return amortized_step(
        classifier, [generator], settings, _conditioning, draw
    )


def adt_imp_am(classifier: nn.Module, settings: Settings) -> Step:
    """Returns a step of ADT-IMP-AM: a generator of noise, q bounds entropy."""
    # The released code has a hinge with weight 1 for the paper's
    # lambda * log q.
    return implicit_step(
        classifier,
        settings,
        _conditioning,
        lambda log_q: -F.relu(-log_q - 0.9),
    )


def implicit_step(
    classifier: nn.Module,
    settings: Settings,
    condition: Condition,
    bonus_of: Callable[[torch.Tensor], torch.Tensor],
    memory_format: torch.memory_format = torch.contiguous_format,
) -> Step:
    """Returns a step of ADT-IMP-AM.

    Args:
        classifier: Classifier to train.
        settings: Settings of the step.
        condition: Function that returns the generator's input.
        bonus_of: Function from log q to the entropy term.
        memory_format: Memory format of networks and images.
    """
    generator = attack_network("implicit_generator", settings)
    posterior = attack_network("posterior", settings)

    def draw(x, conditioning):
        z = torch.empty(len(x), 64).uniform_(-1, 1)
        direction = generator(conditioning, z)
        return direction, bonus_of(log_posterior(posterior(direction), z))

    return amortized_step(
        classifier,
        [generator, posterior],
        settings,
        condition,
        draw,
        memory_format,
    )


def amortized_step(
    classifier: nn.Module,
    networks: list[nn.Module],
    settings: Settings,
    condition: Condition,
    draw: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    memory_format: torch.memory_format = torch.contiguous_format,
) -> Step:
    """Returns a step that trains a classifier and the attack's networks.

    Args:
        classifier: Classifier to train.
        networks: Networks of the attack.
        settings: Settings of the step.
        condition: Function that returns the generator's input.
        draw: Function from images and the generator's input to directions in
            [-1, 1] and the entropy term.
        memory_format: Memory format of networks and images.
    """
    for network in (classifier, *networks):
        network.to(memory_format=memory_format)
    optimizers = [
        classifier_optimizer(classifier, settings),
        attack_optimizer(*networks),
    ]

    def step(x, y):
        x = x.contiguous(memory_format=memory_format)
        conditioning = condition(classifier, x, y, settings.epsilon)
        direction, bonus = draw(x, conditioning)
        return saddle_step(
            classifier,
            perturb(x, direction, settings.epsilon),
            y,
            bonus=bonus,
            optimizers=optimizers,
        )

    return step


def saddle_step(
    classifier: nn.Module,
    x_adv: torch.Tensor,
    y: torch.Tensor,
    *,
    bonus: torch.Tensor,
    optimizers: list[torch.optim.Optimizer],
) -> float:
    """Updates classifier and attack in one backward pass.

    The gradient is reversed at x_adv, so that all optimisers minimise; `bonus`
    is the entropy term that the attack maximises in addition to the loss.
    """
    classifier.train()
    for optimizer in optimizers:
        optimizer.zero_grad()
    x_adv.register_hook(torch.neg)
    loss = F.cross_entropy(classifier(x_adv), y)
    (loss - bonus).backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


def log_posterior(heads: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Returns log q(z | delta), its mean over dimensions and examples."""
    mean, raw_variance = heads.chunk(2, dim=1)
    variance = F.softplus(raw_variance) + 1e-6
    # -1/2 log(2 pi) has no gradient, but changes the value at the hinge.
    return -F.gaussian_nll_loss(mean, z, variance, full=True)


def _sample(mu, rho):
    sigma = F.softplus(rho)
    noise = torch.randn_like(sigma)
    direction = torch.tanh(mu + sigma * noise)
    squashing = torch.log(1 - direction**2 + 1e-8)
    entropy = (noise**2 / 2 + torch.log(sigma + 1e-8) + squashing).mean()
    return direction, entropy


def _conditioning(classifier, x, y, epsilon):
    """Returns [x, g1, g2] with the gradients of the batch's mean loss."""
    classifier.eval()

    def gradient(images):
        images = images.detach().requires_grad_()
        loss = F.cross_entropy(classifier(images), y)
        return torch.autograd.grad(loss, [images])[0]

    first = gradient(x)
    second = gradient(perturb(x, first.sign(), epsilon))
    return torch.cat([x, first, second], dim=1)


METHODS = {
    function.__name__: function
    for function in (at_pgd, adt_exp, adt_exp_am, adt_imp_am)
}

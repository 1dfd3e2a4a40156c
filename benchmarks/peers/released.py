"""Training steps as the paper's released PyTorch code does them.

    step = METHODS["adt_exp"](classifier, Settings())
    loss = step(images, labels)    # NCHW, one update of the weights

Written from the paper and from what is known of that code: NCHW, samples one
by one, `backward` in the inner loop, which computes weight gradients as well
and throws them away, gradients of (mu, rho) that are never set to zero, and
log(1 - a^2 + 1e-8). AT-PGD is not part of that release; here it is the loop as
it is commonly written, with the gradient at the images only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
import twins
from torch import nn

Step = Callable[[torch.Tensor, torch.Tensor], float]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a training step depends on; the defaults are the paper's.

    Attributes:
        input_shape: Of an image: height, width, channels.
        epsilon: Radius of the l-infinity ball.
        num_steps: T of ADT-EXP, or the steps of AT-PGD.
        num_samples: k of ADT-EXP.
        entropy_weight: lambda.
        width_factor: Of the generator and of q.
        learning_rate: Of the classifier. The default leaves it as it is, so
            that every round of a timing has the same work to do.
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
    """A network in bfloat16 where torch thinks it safe; outputs in float32."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, *inputs):
        """Runs the network in the block."""
        with torch.autocast("cpu", torch.bfloat16):
            outputs = self.network(*inputs)
        return outputs.float()


def prepared(network: nn.Module, settings: Settings) -> nn.Module:
    """Returns a network in bfloat16 and compiled, where that is asked for."""
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
    """AT-PGD: sign steps of epsilon / 4 from a random start."""
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
    """ADT-EXP: T steps of Adam on (mu, rho) of each image's own Gaussian."""
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
    """ADT-EXP-AM: a generator gives (mu, rho), trained by the same pass."""
    generator = attack_network("explicit_generator", settings)
    optimizers = [
        classifier_optimizer(classifier, settings),
        attack_optimizer(generator),
    ]

    def step(x, y):
        outputs = generator(_conditioning(classifier, x, y, settings.epsilon))
        direction, entropy = _sample(*outputs.chunk(2, dim=1))
        return saddle_step(
            classifier,
            perturb(x, direction, settings.epsilon),
            y,
            bonus=settings.entropy_weight * entropy,
            optimizers=optimizers,
        )

    return step


def adt_imp_am(classifier: nn.Module, settings: Settings) -> Step:
    """ADT-IMP-AM: noise through a generator, its entropy bounded by q."""
    generator = attack_network("implicit_generator", settings)
    posterior = attack_network("posterior", settings)
    optimizers = [
        classifier_optimizer(classifier, settings),
        attack_optimizer(generator, posterior),
    ]

    def step(x, y):
        z = torch.empty(len(x), 64).uniform_(-1, 1)
        conditioning = _conditioning(classifier, x, y, settings.epsilon)
        direction = generator(conditioning, z)
        log_q = log_posterior(posterior(direction), z)
        # A hinge with weight 1 stands in the release where the paper has
        # lambda * log q.
        return saddle_step(
            classifier,
            perturb(x, direction, settings.epsilon),
            y,
            bonus=-F.relu(-log_q - 0.9),
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
    """The classifier descends and the attack ascends, in one backward pass.

    The gradient is reversed where it enters x_adv, so that all optimisers
    minimise; `bonus` is what the attack climbs beside the loss.
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
    # -1/2 log(2 pi) has no gradient, but the hinge's threshold counts it.
    return -F.gaussian_nll_loss(mean, z, variance, full=True)


def _sample(mu, rho):
    sigma = F.softplus(rho)
    noise = torch.randn_like(sigma)
    direction = torch.tanh(mu + sigma * noise)
    squashing = torch.log(1 - direction**2 + 1e-8)
    entropy = (noise**2 / 2 + torch.log(sigma + 1e-8) + squashing).mean()
    return direction, entropy


def _conditioning(classifier, x, y, epsilon):
    """Returns [x, g1, g2]; the gradients are those of the batch's mean."""
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

"""Writes PyTorch's outputs for the tests of the weight bridge.

    python -m venv .venv-bridge
    .venv-bridge/bin/pip install torch==2.13.0 numpy onnx onnxscript safetensors
    .venv-bridge/bin/pip install --no-deps robustbench==1.1.1
    .venv-bridge/bin/python benchmarks/peers/bridge_references.py

The last command writes tests/data/bridge: for each architecture of RobustBench
and `authors_layouts.py` the logits and gradients of torch, for weights that are
computed from their names (tests/support/reference_weights.py), so that no
weights are stored; small files of torch, safetensors and ONNX; and the arrays
and logits that these files must give.
"""

import collections
import importlib.util
import pathlib
import sys

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from authors_layouts import (
    Encoder,
    Generator,
    LeNet,
    LeNet5,
    SmallCnn,
    SmallResNet,
)
from safetensors.torch import save_file
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support import reference_weights  # noqa: E402


def architecture(name):
    """Imports a module of RobustBench's architectures by its file.

    The package itself imports torchvision, which these modules do not need.
    """
    (package,) = importlib.util.find_spec(
        "robustbench"
    ).submodule_search_locations
    path = pathlib.Path(package) / "model_zoo" / "architectures" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


dm_wide_resnet = architecture("dm_wide_resnet")
resnet = architecture("resnet")
wide_resnet = architecture("wide_resnet")

FOLDER = ROOT / "tests" / "data" / "bridge"
CIFAR = (2, 3, 32, 32)
MNIST = (2, 1, 28, 28)

BLOCKS_18, BLOCKS_34 = [2, 2, 2, 2], [3, 4, 6, 3]


def networks():
    """Returns each architecture's network and the shape of its images."""
    silu = {"activation_fn": nn.SiLU}
    return {
        "wrn-10-2": (wide_resnet.WideResNet(10, 10, 2), CIFAR),
        "wrn-16-1-no-bias": (
            wide_resnet.WideResNet(16, 100, 1, True, bias_last=False),
            CIFAR,
        ),
        "dm-wrn-10-2": (
            dm_wide_resnet.DMWideResNet(10, 10, 2, **silu),
            CIFAR,
        ),
        "dm-wrn-10-1-cifar100": (
            dm_wide_resnet.DMWideResNet(
                100,
                10,
                1,
                mean=dm_wide_resnet.CIFAR100_MEAN,
                std=dm_wide_resnet.CIFAR100_STD,
                **silu,
            ),
            CIFAR,
        ),
        "dm-wrn-10-1-relu": (dm_wide_resnet.DMWideResNet(10, 10, 1), CIFAR),
        "dm-preact_resnet18": (
            dm_wide_resnet.DMPreActResNet(10, 18, **silu),
            CIFAR,
        ),
        "resnet18": (resnet.ResNet18(), CIFAR),
        "resnet34": (resnet.ResNet34(), CIFAR),
        "resnet50": (resnet.ResNet50(), CIFAR),
        "preact_resnet18": (
            resnet.PreActResNet(
                resnet.PreActBlockV2, BLOCKS_18, bn_before_fc=True
            ),
            CIFAR,
        ),
        "preact_resnet18-bare": (
            resnet.PreActResNet(resnet.PreActBlockV2, BLOCKS_18),
            CIFAR,
        ),
        "preact_resnet18-raw": (
            resnet.PreActResNet(resnet.PreActBlock, BLOCKS_18),
            CIFAR,
        ),
        "preact_resnet34": (
            resnet.PreActResNet(
                resnet.PreActBlockV2, BLOCKS_34, bn_before_fc=True
            ),
            CIFAR,
        ),
        "trades_small_cnn": (SmallCnn(), MNIST),
        "lenet5": (LeNet5(), MNIST),
        "lenet": (LeNet(), MNIST),
        "explicit_generator": (Generator(9, 6, 8), (2, 9, 32, 32)),
        "implicit_generator": (Generator(10, 3, 8, latent=64), (2, 9, 32, 32)),
        "posterior": (Encoder(64, 4), CIFAR),
    }


def fill(network):
    """Sets the weights computed from their names; returns the state dict."""
    state_dict = {
        name: torch.from_numpy(
            reference_weights.weight(name, tuple(tensor.shape))
        )
        for name, tensor in network.state_dict().items()
        if name.split(".")[-1] not in ("mean", "std")
    }
    network.load_state_dict(state_dict, strict=False)
    network.eval()
    return network.state_dict()


def outputs_and_gradients(network, images, *others):
    """Returns outputs, and the gradients of a loss at the images."""
    x = torch.from_numpy(images).requires_grad_()
    outputs = network(x, *others)
    if outputs.ndim == 2:
        loss = F.cross_entropy(
            outputs, torch.arange(len(images)), reduction="sum"
        )
    else:
        loss = (outputs**2).sum()
    loss.backward()
    return outputs.detach().numpy(), x.grad.numpy()


def write_outputs():
    """Writes outputs.npz, with every fourth pixel of gradients and maps."""
    arrays = {}
    for name, (network, shape) in networks().items():
        state_dict = fill(network)
        others = []
        if name == "implicit_generator":
            others = [torch.from_numpy(reference_weights.images((2, 64), 1))]
        outputs, gradients = outputs_and_gradients(
            network, reference_weights.images(shape), *others
        )
        arrays[f"{name}/names"] = np.array(
            [f"{n} {list(t.shape)}" for n, t in state_dict.items()]
        )
        arrays[f"{name}/outputs"] = outputs[..., ::4, ::4].copy()
        if outputs.ndim == 2:
            arrays[f"{name}/outputs"] = outputs
        arrays[f"{name}/gradients"] = gradients[..., ::4, ::4].copy()
        print(name, np.abs(outputs).max(), np.abs(gradients).max())
    np.savez_compressed(FOLDER / "outputs.npz", **arrays)


def checkpoint():
    """Returns a checkpoint with the kinds of entries of other projects."""
    random = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=random)

    tied = normal(6, 4)
    pool = normal(40)
    half = normal(3, 4).half()
    state_dict = collections.OrderedDict(
        {
            "module.float.weight": normal(5, 3, 2, 2),
            "module.double.weight": normal(2, 3).double(),
            "module.half.weight": half,
            "module.bfloat.weight": normal(3, 4).bfloat16(),
            "module.turned.weight": normal(4, 7).t(),
            "module.channels_last.weight": normal(4, 3, 2, 2).to(
                memory_format=torch.channels_last
            ),
            "module.tied1.weight": tied,
            "module.tied2.weight": tied,
            "module.part.weight": pool[4:16].view(3, 4),
            "module.every_second.bias": pool[::2],
            "module.repeated.bias": normal(1).expand(5),
            "module.one.bias": normal(1, 1),
            "module.scalar.alpha": torch.tensor(0.25),
            "module.bn.num_batches_tracked": torch.tensor(123456789012),
            "module.empty.bias": torch.zeros(0, 3),
            "module.flags.mask": torch.tensor([True, False]),
            "module.bytes.mask": torch.arange(5, dtype=torch.uint8),
        }
    )
    parameter = nn.Parameter(normal(2, 2))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    parameter.sum().backward()
    optimizer.step()
    return {
        "state_dict": state_dict,
        "optimizer": optimizer.state_dict(),
        "epoch": 75,
        "accuracy": np.float64(0.5),
        "history": np.arange(6.0).reshape(2, 3),
        "classes": {"plane", "car"},
    }


def write_files():
    """Writes one checkpoint in each file format, and its arrays."""
    saved = checkpoint()
    state_dict = saved["state_dict"]
    # The storage of a GPU differs from this one only in its location tag.
    torch.serialization.location_tag = lambda storage: "cuda:0"
    torch.save(saved, FOLDER / "zip.pt")
    torch.save(
        saved, FOLDER / "legacy.pt", _use_new_zipfile_serialization=False
    )
    save_file(
        {
            name: tensor.detach().clone(memory_format=torch.contiguous_format)
            for name, tensor in state_dict.items()
        },
        FOLDER / "arrays.safetensors",
    )
    np.savez_compressed(
        FOLDER / "arrays.npz",
        **{
            name: tensor.float().numpy()
            if tensor.dtype == torch.bfloat16
            else tensor.numpy()
            for name, tensor in state_dict.items()
        },
    )


def write_graphs():
    """Writes ONNX graphs of a network by both exporters, and its state."""
    network = SmallResNet()
    fill(network)
    images = reference_weights.images(CIFAR)
    logits, gradients = outputs_and_gradients(network, images)
    np.savez_compressed(
        FOLDER / "small_resnet.npz",
        images=images,
        logits=logits,
        labels=np.arange(len(images)),
        gradients=gradients,
    )
    torch.save({"model": network.state_dict()}, FOLDER / "small_resnet.pt")
    example = (torch.from_numpy(images),)
    torch.onnx.export(
        network,
        example,
        FOLDER / "small_resnet_dynamo.onnx",
        dynamo=True,
        external_data=False,
        dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=1024)},),
    )
    torch.onnx.export(
        network,
        example,
        FOLDER / "small_resnet_traced.onnx",
        dynamo=False,
        input_names=["images"],
        dynamic_axes={"images": {0: "batch"}},
        do_constant_folding=False,
        training=torch.onnx.TrainingMode.PRESERVE,
    )
    for path in FOLDER.glob("*.onnx"):
        strip(path)
    print("small_resnet", np.abs(logits).max(), np.abs(gradients).max())


def strip(path):
    """Removes the locations in the source code from an ONNX file."""
    model = onnx.load(path)
    for part in (model, model.graph, *model.graph.node, *model.graph.input):
        part.doc_string = ""
        del part.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.output):
        value.doc_string = ""
        del value.metadata_props[:]
    onnx.save(model, path)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_outputs()
    write_graphs()
    write_files()

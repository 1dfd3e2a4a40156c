"""Files of weights that are hostile or damaged, and what is said of them.

Each row, as in bad_library.py: a name, a call that must raise ValueError, and a
pattern of the message. `make` writes the files.
"""

import argparse
import io
import json
import pathlib
import pickle
import struct
import zipfile

import h5py
import keras
import numpy as np

import adt_tf
from adt_tf.serving.bridge import verification
from tests.support.models import make_convolutional
from tests.support.weight_files import (
    call,
    literal,
    name,
    state,
    storage,
    tensor,
    write_legacy,
    write_zip,
)

# Would write this file if it were run.
TRACE = "executed"
SYSTEM = call("posix", "system", literal(f"touch {TRACE}"))


def pickles():
    """Returns hostile pickles: of a value named w, or whole."""
    laughs = b"]q\x00" + b"".join(
        b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1])
        for i in range(60)
    )
    text = literal("x" * 2**20) + b"r\xff\x00\x00\x00"
    encode = call("_codecs", "encode", b"j\xff\x00\x00\x00", literal("latin1"))
    dtype = call("numpy", "dtype", literal("O8"), b"\x89", b"\x88")
    return {
        "system": state({"w": SYSTEM}),
        "eval": state({"w": call("builtins", "eval", literal("1"))}),
        "getattr": state({"w": name("builtins", "getattr")}),
        "import": state({"w": call("builtins", "__import__", literal("os"))}),
        "numpy load": state({"w": name("numpy", "load")}),
        "torch load": state({"w": name("torch", "load")}),
        "module": state({"w": name("models.wideresnet", "WideResNet")}),
        "namespace": pickle.dumps({"args": argparse.Namespace(lr=1)}, 2),
        "method": b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.fromkeys"
        b"\x93.",
        "newline": b"\x80\x04\x8c\x02os\x8c\x0dsystem\nerror:\x93.",
        "instance": b"\x80\x02(iposix\nsystem\n.",
        "object": b"\x80\x02(" + name("collections", "OrderedDict") + b"o.",
        "new object": b"\x80\x02"
        + name("collections", "OrderedDict")
        + b")\x81.",
        "extension": b"\x80\x02\x82\x01.",
        "setstate": state({"w": tensor() + literal({"shape": 1}) + b"b"}),
        "call of text": state({"w": literal("os.system") + b")R"}),
        "persistent": b"\x80\x02" + literal("models.py") + b"Q.",
        "text persistent": b"\x80\x02Pmodels.py\n.",
        "other storage": state(
            {"w": tensor(of=storage("../../../../etc/passwd"))}
        ),
        "no storage": state({"w": tensor(of=storage("7"))}),
        "short storage": state({"w": tensor(of=storage("0", size=400))}),
        "negative storage": state({"w": tensor(of=storage(size=-1))}),
        "unknown storage": state(
            {"w": tensor(of=storage(kind="QInt8Storage"))}
        ),
        "strides": state({"w": tensor((2, 2), (2**62, 2**62))}),
        "long strides": state({"w": tensor((2, 2), (2**64, 1))}),
        "negative strides": state({"w": tensor((2, 2), (-2, 1))}),
        "sizes": state({"w": tensor((2**32, 2**32), (0, 0))}),
        "offset": state({"w": tensor(offset=2**40)}),
        "repeated": state({"w": tensor((10**6, 10**6), (0, 0))}),
        "axes": state({"w": tensor((1,) * 100, (1,) * 100)}),
        "size of text": state({"w": tensor("22", "21")}),
        "laughs": state({"w": tensor(laughs, laughs)}),
        "encoded": b"\x80\x02(" + text + encode * 200 + b"l.",
        "bytearray": state(
            {"w": call("builtins", "bytearray", literal(10**12))}
        ),
        "objects": state(
            {
                "w": call(
                    "numpy.core.multiarray",
                    "_reconstruct",
                    name("numpy", "ndarray"),
                    literal((0,)),
                    literal("b"),
                )
                + b"("
                + literal(1)
                + literal((1,))
                + dtype
                + b"\x89]"
                + b"tb"
            }
        ),
        "deep key": b"\x80\x02}(" + b")" + b"\x85" * 200_000 + b"Nu.",
        "large key": b"\x80\x02}" + literal(2**61 * 8 + 1) + b"Ns.",
        "no end": state({"w": tensor()})[:-1],
        "no value": b"\x80\x02.",
        "recalled": b"\x80\x02h\x05.",
        "opcodes": b"\x80\x02" + b"]0" * 600_000 + b"N.",
        "figures": pickle.dumps({"accuracy": [0.5, 0.6]}, 2),
    }


def make(folder: pathlib.Path) -> pathlib.Path:
    """Fills the folder."""
    for label, content in pickles().items():
        write_zip(folder / f"{label}.pt", content)
    for label in ("system", "getattr", "no storage", "strides", "method"):
        write_legacy(folder / f"legacy {label}.pt", pickles()[label])
    _torch_files(folder)
    _array_files(folder)
    _keras_files(folder)
    _checkpoints(folder)
    _graphs(folder)
    return folder


def _torch_files(folder):
    good = state({"w": tensor()})
    write_zip(folder / "good.pt", good)
    content = (folder / "good.pt").read_bytes()
    (folder / "cut.pt").write_bytes(content[: len(content) // 2])
    flipped = content.replace(struct.pack("<f", 3), struct.pack("<f", 4))
    (folder / "flipped.pt").write_bytes(flipped)
    (folder / "empty.pt").write_bytes(b"")
    (folder / "text.pt").write_bytes(b"version https://git-lfs.github.com\n")
    (folder / "tar.pt").write_bytes(b"x".ljust(257) + b"ustar\x00")
    write_zip(
        folder / "bomb.pt",
        good,
        {"0": bytes(200 * 2**20)},
        compression=zipfile.ZIP_DEFLATED,
    )
    _overlapping(folder / "overlapping.pt", good)
    write_legacy(folder / "legacy beyond.pt", good, sizes={"0": 2**40})
    write_legacy(folder / "legacy negative.pt", good, sizes={"0": -4})
    write_legacy(folder / "legacy short.pt", good, sizes={"0": 2})
    content = (folder / "legacy strides.pt").read_bytes()
    (folder / "legacy cut.pt").write_bytes(content[:100])
    with zipfile.ZipFile(folder / "script.pt", "w") as archive:
        archive.writestr("net/data.pkl", good)
        archive.writestr("net/code/__torch__.py", "class Net(Module): pass")
    with zipfile.ZipFile(folder / "other.pt", "w") as archive:
        archive.writestr("readme.txt", "hello")
    both = state({"model": good[2:-1], "ema": good[2:-1]})
    write_zip(folder / "both.pt", both)
    spoiled = struct.pack("<4f", 1, float("nan"), 3, 4)
    write_zip(folder / "nan.pt", state({"fc.weight": tensor()}), {"0": spoiled})


def _overlapping(path, pickled):
    """Writes 1,000 members that all claim the same million bytes."""
    write_zip(path, pickled, {"0": bytes(10**6)})
    with zipfile.ZipFile(path, "a") as archive:
        for index in range(1, 1000):
            info = zipfile.ZipInfo(f"archive/data/{index}")
            first = archive.getinfo("archive/data/0")
            info.file_size = info.compress_size = first.file_size
            info.CRC, info.header_offset = first.CRC, first.header_offset
            archive.filelist.append(info)
            archive.NameToInfo[info.filename] = info
        archive._didModify = True


def _array_files(folder):
    np.savez_compressed(folder / "bomb.npz", w=np.zeros([200, 2**20], "u1"))
    np.savez(folder / "objects.npz", w=np.array([{}, {}]))
    with zipfile.ZipFile(folder / "sizes.npz", "w") as archive:
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            stream,
            {"descr": "<f4", "fortran_order": False, "shape": (2**40,)},
        )
        archive.writestr("w.npy", stream.getvalue() + bytes(16))
    good = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    for label, header in {
        "outside": {"w": {**good, "data_offsets": [16, 32]}},
        "sizes": {"w": {**good, "shape": [2**40, 2**40]}},
        "negative": {"w": {**good, "shape": [-2, -2]}},
        "backwards": {"w": {**good, "data_offsets": [16, 0]}},
        "dtype": {"w": {**good, "dtype": "F8_E4M3"}},
        "bare": {"w": [1, 2]},
    }.items():
        content = json.dumps(header).encode()
        (folder / f"{label}.safetensors").write_bytes(
            struct.pack("<Q", len(content)) + content + bytes(16)
        )
    (folder / "header.safetensors").write_bytes(
        struct.pack("<Q", 2**60) + b'{"w": 1}' + bytes(16)
    )
    (folder / "json.safetensors").write_bytes(
        struct.pack("<Q", 8) + b"{{{{{{{{" + bytes(16)
    )


def _keras_files(folder):
    model = make_convolutional()
    model.save_weights(folder / "good.weights.h5")
    with h5py.File(folder / "linked.weights.h5", "w") as file:
        file["layers"] = h5py.ExternalLink("/etc/passwd", "/x")
    with h5py.File(folder / "external.weights.h5", "w") as file:
        file.create_dataset("w", (4,), "u1", external=[("/etc/passwd", 0, 4)])
    with h5py.File(folder / "bomb.weights.h5", "w") as file:
        file.create_dataset("w", (2**40,), "f4", chunks=True)
    content = (folder / "good.weights.h5").read_bytes()
    (folder / "cut.weights.h5").write_bytes(content[: len(content) // 2])


def _checkpoints(folder):
    """Writes parts of TensorFlow 1 checkpoints."""
    (folder / "two").mkdir()
    for file in ("two/first.index", "two/second.index", "no data.index"):
        (folder / file).write_bytes(b"")
    (folder / "text.index").write_bytes(b"not an index at all")
    (folder / "text.data-00000-of-00001").write_bytes(bytes(64))


def _graphs(folder):
    """Writes ONNX files, where the package is installed."""
    try:
        import onnx
    except ImportError:
        return
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    value = helper.make_tensor_value_info

    def save(label, nodes, tensors, shape=("n", 3, 8, 8)):
        graph = helper.make_graph(
            nodes,
            "graph",
            [value("images", float32, shape)],
            [value("logits", float32, ("n", 2))],
            tensors,
        )
        path = folder / f"{label}.onnx"
        path.write_bytes(helper.make_model(graph).SerializeToString())

    kernel = onnx.numpy_helper.from_array(np.zeros([2, 3, 1, 1], "f4"), "w")
    node = helper.make_node
    flat = node("Flatten", ["images"], ["flat"])
    away = onnx.TensorProto(name="w", data_type=float32, dims=[2, 3, 1, 1])
    away.data_location = onnx.TensorProto.EXTERNAL
    entry = away.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"
    convolution = node("Conv", ["images", "w"], ["logits"])
    save("external", [convolution], [away])
    save("maps", [convolution], [kernel])
    save(
        "operators",
        [node("NonZero", ["images"], ["a"]), node("Loop", ["a"], ["logits"])],
        [],
    )
    save(
        "padding",
        [
            node("Conv", ["images", "w"], ["a"], pads=[2**30] * 4),
            node("GlobalAveragePool", ["a"], ["logits"]),
        ],
        [kernel],
    )
    shape = onnx.numpy_helper.from_array(np.array([2**20, 2**20]), "shape")
    save("constant", [node("ConstantOfShape", ["shape"], ["logits"])], [shape])
    save("open", [flat], [], ("n", 3, "height", "width"))
    save("backwards", [node("Relu", ["later"], ["logits"])], [])
    (folder / "text.onnx").write_bytes(b"not a graph at all")


def load(file, architecture=None, **arguments):
    """Returns a call that loads a file of the folder."""
    return lambda folder: adt_tf.load_classifier(
        folder / "weights" / file, architecture, **arguments
    )


def dense(**arguments):
    """Returns a call that fills a model with one kernel of 2x2."""

    def transplant(folder):
        model = keras.Sequential(
            [keras.Input((2,)), keras.layers.Dense(2, use_bias=False)]
        )
        file = arguments.pop("file", "good.pt")
        adt_tf.transplant(folder / "weights" / file, model, **arguments)

    return transplant


def fill(file):
    """Returns a call that fills a model with Keras' own weights."""
    return lambda folder: adt_tf.transplant(
        folder / "weights" / file, make_convolutional()
    )


CANNOT = "^Cannot read .*"

ROWS = {
    # Pickles that would run something.
    "weights that call os.system": (
        load("system.pt"),
        CANNOT + "names posix.system, which is not read",
    ),
    "weights that call os.system, legacy": (
        load("legacy system.pt"),
        CANNOT + "names posix.system",
    ),
    "weights that call eval": (load("eval.pt"), "names builtins.eval"),
    "weights that name getattr": (load("getattr.pt"), "names builtins.getattr"),
    "weights that name getattr, legacy": (
        load("legacy getattr.pt"),
        "names builtins.getattr",
    ),
    "weights that import": (load("import.pt"), "names builtins.__import__"),
    "weights that name numpy.load": (load("numpy load.pt"), "numpy.load"),
    "weights that name torch.load": (load("torch load.pt"), "torch.load"),
    "a whole model, pickled": (
        load("module.pt"),
        r"names models.wideresnet.WideResNet.*only its `state_dict\(\)`",
    ),
    "weights with argparse's settings": (
        load("namespace.pt"),
        "names argparse.Namespace",
    ),
    "weights that name a method": (
        load("method.pt"),
        "names collections.OrderedDict.fromkeys",
    ),
    "a name with a line break": (load("newline.pt"), "names os.system error:"),
    "the opcode INST": (load("instance.pt"), "opcode INST of posix system"),
    "the opcode OBJ": (load("object.pt"), "opcode OBJ"),
    "the opcode NEWOBJ": (load("new object.pt"), "opcode NEWOBJ"),
    "an extension's code": (load("extension.pt"), "opcode EXT1"),
    "a state for a tensor": (load("setstate.pt"), "treats a Tensor as another"),
    "a call of text": (
        load("call of text.pt"),
        "a value that is not a constructor",
    ),
    "a persistent id of text": (
        load("persistent.pt"),
        "persistent id that is not a storage",
    ),
    "a persistent id in text form": (
        load("text persistent.pt"),
        "opcode PERSID",
    ),
    # Storages and views.
    "a storage of another file": (
        load("other storage.pt"),
        "storage data/../../../../etc/passwd is not in the file",
    ),
    "a storage that is not there": (
        load("no storage.pt"),
        "storage data/7 is not in the file",
    ),
    "a storage that is not there, legacy": (
        load("legacy no storage.pt"),
        "a storage that no tensor uses",
    ),
    "a storage that is too short": (
        load("short storage.pt"),
        "claims 400 numbers of type float32 in 16 bytes",
    ),
    "a storage that is too short, legacy": (
        load("legacy short.pt"),
        "storage 0 has only 2 elements",
    ),
    "a storage beyond the file's end": (
        load("legacy beyond.pt"),
        "storage 0 of 1099511627776 elements is outside the file",
    ),
    "a storage of negative size": (
        load("negative storage.pt"),
        "storage 0 of -1 elements",
    ),
    "a storage of negative size, legacy": (
        load("legacy negative.pt"),
        "storage 0 of -4 elements is outside the file",
    ),
    "a quantised storage": (
        load("unknown storage.pt"),
        "names torch.QInt8Storage",
    ),
    "strides that overflow": (
        load("strides.pt"),
        r"reaches element 9223372036",
    ),
    "strides that overflow, legacy": (
        load("legacy strides.pt"),
        "reaches element 9223372036",
    ),
    "strides of more than 64 bits": (
        load("long strides.pt"),
        "strides that are",
    ),
    "negative strides": (load("negative strides.pt"), "strides that are no"),
    "sizes that overflow": (load("sizes.pt"), "repeats a storage of only 4"),
    "a view behind its storage": (
        load("offset.pt"),
        "reaches element 10995116",
    ),
    "a view that repeats its storage": (
        load("repeated.pt"),
        r"shape \(1000000, 1000000\) repeats a storage of only 4 elements",
    ),
    "a tensor of 100 axes": (
        load("axes.pt"),
        "sizes that are not integers",
    ),
    "text for sizes": (load("size of text.pt"), "sizes that are not integers"),
    "sizes that repeat themselves": (
        load("laughs.pt"),
        "(sizes|strides) that are no",
    ),
    # Memory and time.
    "a zip bomb": (load("bomb.pt"), "compressed, unlike the files of torch"),
    "members that overlap": (
        load("overlapping.pt"),
        "claim more bytes than the file has",
    ),
    "a text encoded 200 times": (load("encoded.pt"), "would need .* bytes"),
    "a bytearray of a terabyte": (
        load("bytearray.pt"),
        "bytearray of a value without bytes",
    ),
    "a million opcodes": (load("opcodes.pt"), "more than 1000000 opcodes"),
    "a key 200,000 tuples deep": (load("deep key.pt"), "key of type tuple"),
    "a key of 65 bits": (load("large key.pt"), "key of type int"),
    "NumPy objects": (load("objects.pt"), "dtype that has no numbers"),
    "a bomb in an .npz file": (load("bomb.npz"), "'w' would need 209715328"),
    "objects in an .npz file of weights": (
        load("objects.npz"),
        "has object, not numbers",
    ),
    "an .npz array of 4 TB": (load("sizes.npz"), "does not fit its shape"),
    # Damaged files.
    "weights cut in half": (load("cut.pt"), CANNOT + "it begins as a zip file"),
    "weights with another byte": (load("flipped.pt"), "Bad CRC-32"),
    "legacy weights cut off": (load("legacy cut.pt"), "damaged or incomplete"),
    "an empty file of weights": (load("empty.pt"), "it is empty"),
    "text for weights": (load("text.pt"), "a pointer of Git LFS"),
    "weights in torch's tar form": (load("tar.pt"), "it is a tar archive"),
    "a TorchScript program": (load("script.pt"), "TorchScript program"),
    "another zip file": (load("other.pt"), "without torch's data.pkl"),
    "a pickle without an end": (load("no end.pt"), "damaged or incomplete"),
    "a pickle without a value": (load("no value.pt"), "pops an empty stack"),
    "a pickle that recalls nothing": (load("recalled.pt"), "not in its memo"),
    "figures in place of weights": (load("figures.pt"), "has no state dict"),
    "two state dicts": (load("both.pt"), "pass one of 'model', 'ema'"),
    "an entry that is not there": (
        load("both.pt", entry="best"),
        "no state dict.*under 'best'",
    ),
    # safetensors.
    "a header of an exabyte": (
        load("header.safetensors"),
        "header claims 11529",
    ),
    "a header that is no JSON": (load("json.safetensors"), CANNOT),
    "an array outside the file": (
        load("outside.safetensors"),
        "claims 4 numbers of type float32 in 0 bytes",
    ),
    "an array of 2^80 numbers": (
        load("sizes.safetensors"),
        "'w' has a size that does not fit its shape",
    ),
    "an array of negative size": (load("negative.safetensors"), "must have a"),
    "an array that ends first": (load("backwards.safetensors"), "must have a"),
    "an unknown number": (load("dtype.safetensors"), "a dtype of F64, F32"),
    "an entry that is a list": (load("bare.safetensors"), "must have a dtype"),
    # Keras' own weights.
    "weights without an architecture": (
        load("good.weights.h5"),
        "weights without a model: pass architecture=",
    ),
    "weights of another model": (
        load("good.weights.h5", "small_cnn"),
        "as weights of 'small_cnn'",
    ),
    "weights that are a link": (
        fill("linked.weights.h5"),
        "is a link to another",
    ),
    "weights in another file": (
        fill("external.weights.h5"),
        "/w is stored in another file",
    ),
    "weights of 4 TB": (fill("bomb.weights.h5"), "/w would need 4398046511104"),
    "an .h5 file of weights, cut": (fill("cut.weights.h5"), CANNOT),
    # Checkpoints of TensorFlow 1.
    "a checkpoint without data": (
        load("no data.index"),
        CANNOT + "there is no no data.data",
    ),
    "text for a checkpoint": (load("text"), CANNOT + "sstable"),
    "two checkpoints for one": (
        load("two"),
        "must have one checkpoint.*first.index, second.index",
    ),
    # What does not fit.
    "an unknown architecture": (
        load("good.pt", "vgg16"),
        "must be one of wrn-<depth>.*Received: architecture='vgg16'",
    ),
    "weights of no known network": (
        load("good.pt"),
        "belong to none of the architectures",
    ),
    "weights of another network": (
        load("good.pt", "lenet5"),
        "does not fit lenet5: missing: .*; left over: w$",
    ),
    "entries that are no weights": (dense(), "entries that are not weights: w"),
    "a pattern that fits nothing": (
        dense(skip="*.lambda"),
        r"'\*.lambda', which fits none of the names",
    ),
    "a mapping of nothing": (
        dense(file="nan.pt", mapping={"conv": "dense"}),
        "must map modules of the file to layers of the model",
    ),
    "weights that are NaN": (dense(file="nan.pt"), "Not finite: fc.weight"),
    "a reference without logits": (
        lambda f: verification.verify(make_convolutional(), f / "good.npz"),
        "must have the arrays images and logits",
    ),
}

GRAPHS = {
    "a graph with weights elsewhere": (
        load("external.onnx"),
        "weights 'w' lie in another file",
    ),
    "a graph with other operators": (
        load("operators.onnx"),
        "operators that are not converted: Loop, NonZero",
    ),
    "a graph that pads by 2^30": (load("padding.onnx"), "for one image"),
    "a graph with a constant of 8 TB": (
        load("constant.onnx"),
        "makes a constant of",
    ),
    "a graph without logits": (load("maps.onnx"), "one output of shape"),
    "a graph of open size": (load("open.onnx"), "pass input_shape="),
    "a graph in the wrong order": (load("backwards.onnx"), CANNOT),
    "text for a graph": (load("text.onnx"), CANNOT),
    "a graph with an architecture": (
        load("maps.onnx", "wrn-28-10"),
        "has its architecture and its normalisation inside",
    ),
}

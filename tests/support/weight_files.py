"""Torch's files written without torch, whole or hostile, opcode by opcode.

write_zip(path, state({"w": tensor()}), {"0": bytes(16)})
write_legacy(path, state({"w": tensor()}), {"0": bytes(16)})
"""

import pickle
import pickletools
import struct
import zipfile


def literal(value):
    """Returns the opcodes that push a plain value; bytes are opcodes."""
    if isinstance(value, bytes):
        return value
    return pickletools.optimize(pickle.dumps(value, 2))[2:-1]


def name(module, attribute):
    """Returns the opcodes that push a global."""
    return f"c{module}\n{attribute}\n".encode()


def call(module, attribute, *arguments):
    """Returns the opcodes that call a global; arguments are opcodes."""
    return name(module, attribute) + b"(" + b"".join(arguments) + b"tR"


def storage(key="0", kind="FloatStorage", size=4):
    """Returns the opcodes of a storage that was on a GPU."""
    parts = ("storage", name("torch", kind), key, "cuda:0", size)
    return b"(" + b"".join(map(literal, parts)) + b"tQ"


def tensor(size=(2, 2), strides=(2, 1), offset=0, of=None):
    """Returns the opcodes of a tensor."""
    return call(
        "torch._utils",
        "_rebuild_tensor_v2",
        storage() if of is None else of,
        *map(literal, (offset, size, strides, False)),
        call("collections", "OrderedDict"),
    )


def state(entries):
    """Returns a pickle of a dict; its values are opcodes."""
    items = b"".join(literal(key) + value for key, value in entries.items())
    return b"\x80\x02}(" + items + b"u."


def write_zip(path, pickled, storages=None, **options):
    """Writes torch's zip form."""
    if storages is None:
        storages = {"0": struct.pack("<4f", 1, 2, 3, 4)}
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", b"3\n")
        for key, content in storages.items():
            archive.writestr(f"archive/data/{key}", content)


def write_legacy(path, pickled, storages=None, sizes=None):
    """Writes torch's legacy form."""
    if storages is None:
        storages = {"0": struct.pack("<4f", 1, 2, 3, 4)}
    machine = {"protocol_version": 1001, "little_endian": True}
    content = b"".join(
        pickle.dumps(value, 2)
        for value in (0x1950A86A20F9469CFC6C, 1001, machine)
    )
    content += pickled + pickle.dumps(list(storages), 2)
    for key, values in storages.items():
        size = (sizes or {}).get(key, len(values) // 4)
        content += struct.pack("<q", size) + values
    path.write_bytes(content)

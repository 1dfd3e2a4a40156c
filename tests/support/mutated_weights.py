"""Reads thousands of damaged files of weights, in a process that is watched.

    python -m tests.support.mutated_weights SCRATCH NUMBER

prints how many were read and how many refused. Anything but a ValueError of
one line ends it; so does a file that is opened elsewhere, an import, a program
that is started, or memory of 512 MB beyond what the process had before.
"""

import codecs
import collections
import os
import pathlib
import pickle
import random
import resource
import sys

import numpy as np

from adt_tf.serving.bridge.reading import state_dicts
from tests.support.weight_files import state, tensor, write_legacy, write_zip

DATA = pathlib.Path(__file__).parents[1] / "data" / "bridge"
# NumPy parses the header of an .npy file, which is a literal.
FORBIDDEN = ("exec", "import", "os.", "subprocess", "socket")
EXTREMES = (
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x00\x00\x00\x00\x00\x00\x00\x80",
    b"\xff\xff\xff\x7f",
    b"\x00",
    b".",
    b"R",
    b"cos\nsystem\n",
)


def sources(scratch):
    """Returns the files that are damaged: small ones, of every form."""
    write_zip(scratch / "tiny.pt", state({"w": tensor()}))
    write_legacy(scratch / "tiny legacy.pt", state({"w": tensor()}))
    arrays = {"w": np.ones([2, 2], np.float32)}
    (scratch / "tiny.pkl").write_bytes(pickle.dumps(arrays, 4))
    np.savez(scratch / "tiny.npz", **arrays)
    np.savez_compressed(scratch / "compressed.npz", **arrays)
    names = ("zip.pt", "legacy.pt", "arrays.safetensors", "arrays.npz")
    paths = [DATA / name for name in names] + sorted(scratch.glob("*.*"))
    return [path.read_bytes() for path in paths]


def damaged(content, generator):
    """Returns a file with a few bytes changed, lost, added or moved."""
    content = bytearray(content)
    for _ in range(generator.choice([1, 1, 2, 4, 16])):
        place = generator.randrange(len(content) + 1)
        kind = generator.randrange(6)
        if kind == 0:
            del content[place:]
        elif kind == 1:
            del content[place : place + generator.randrange(1, 64)]
        elif kind == 2:
            extreme = generator.choice(EXTREMES)
            content[place : place + len(extreme)] = extreme
        elif kind == 3:
            start = generator.randrange(len(content) + 1)
            content[place:place] = content[start : start + 32]
        elif content:
            place = min(place, len(content) - 1)
            content[place] ^= 1 << generator.randrange(8)
        if not content:
            break
    return bytes(content)


def watch(allowed):
    """Ends the process where anything is run, or another file opened."""

    def hook(event, arguments):
        opened = str(arguments[0]) if event == "open" else None
        if opened not in (None, allowed) or event.startswith(FORBIDDEN):
            end(f"{event} {arguments}")

    sys.addaudithook(hook)


def end(reason):
    """Ends the process at once: a traceback would open files."""
    print(reason, file=sys.stderr, flush=True)
    os._exit(3)


def limit_memory(num_bytes):
    """Lets the process take so much more memory than it has."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + num_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(scratch, number):
    """Damages and reads the files."""
    scratch = pathlib.Path(scratch)
    contents = sources(scratch)
    path = scratch / "damaged"
    for content in contents:
        path.write_bytes(content)
        state_dicts.read(path)
    for codec in ("raw_unicode_escape", "unicode_escape", "cp437", "utf_8"):
        codecs.lookup(codec)
    generator = random.Random(0)
    outcomes = collections.Counter()
    limit_memory(512 * 2**20)
    watch(str(path))
    for index in range(int(number)):
        content = contents[index % len(contents)]
        path.write_bytes(damaged(content, generator))
        try:
            state_dicts.read(path)
            outcomes["read"] += 1
        except ValueError as error:
            message = str(error)
            if not message.startswith("Cannot read") or (
                not message.isprintable() or "emory" in message
            ):
                end(f"file {index}: {message!r}")
            outcomes["refused"] += 1
        except BaseException as error:
            end(f"file {index}: {error!r}")
    print(f"read {outcomes['read']}, refused {outcomes['refused']}")


if __name__ == "__main__":
    main(*sys.argv[1:])

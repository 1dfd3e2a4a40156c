"""Sends a SavedModel mixed requests from several threads; knows no adt_tf.

python tests/support/hostile_client.py SAVED_MODEL REQUESTS THREADS

Prints one line of JSON: how many were answered and refused, the requests whose
outcome is not the one to expect, and the process's memory.
"""

import concurrent.futures
import io
import json
import os
import struct
import sys
import threading
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


class NoAdtTf:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "adt_tf":
            raise ImportError("a served model must not need adt_tf")


# Not in a process that only collects tests.
if __name__ == "__main__":
    sys.meta_path.insert(0, NoAdtTf())

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from PIL import Image  # noqa: E402

SIZE = (8, 8, 1)
RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, SIZE, np.uint8)


def encoded(kind, pixels=PIXELS[..., 0]):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def png_that_claims(width, height, rows=b"\0" * 1000):
    def chunk(name, content):
        return (
            struct.pack(">I", len(content))
            + name
            + content
            + struct.pack(">I", zlib.crc32(name + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def png_with_texts(count):
    """A good image with texts of 8 MB each, which take long to unpack."""

    def chunk(name, content):
        return (
            struct.pack(">I", len(content))
            + name
            + content
            + struct.pack(">I", zlib.crc32(name + content))
        )

    text = chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(7_900_000), 9))
    return PNG[:33] + text * count + PNG[33:]


def jpeg_that_claims(width, height):
    file = bytearray(encoded("JPEG"))
    frame = file.index(b"\xff\xc0")
    file[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(file)


def damaged(file, seed):
    file = bytearray(file)
    place = np.random.default_rng(seed).integers(30, len(file))
    file[place] ^= 0x55
    return bytes(file)


def floats(*shape, value=0.5):
    return np.full(shape, value, np.float32)


PNG, JPEG = encoded("PNG"), encoded("JPEG")
# A good image of 80 MB when decoded, in 80 kB.
LARGE = png_that_claims(9000, 9000, bytes(9001 * 9000))
ANSWER, REFUSAL, EITHER, NO_LABEL = "answer", "refusal", "either", "no label"

#: Name: signature, images, what to expect.
KINDS = {
    "floats": ("default", floats(3, *SIZE), ANSWER),
    "one": ("default", floats(1, *SIZE), ANSWER),
    "none": ("default", floats(0, *SIZE), ANSWER),
    "many": ("default", floats(257, *SIZE), ANSWER),
    "NaN": ("default", floats(2, *SIZE, value=np.nan), NO_LABEL),
    "infinite": ("default", floats(2, *SIZE, value=np.inf), NO_LABEL),
    "enormous": ("default", floats(2, *SIZE, value=3e38), EITHER),
    "rank 3": ("default", floats(*SIZE), REFUSAL),
    "rank 5": ("default", floats(1, 1, *SIZE), REFUSAL),
    "rank 0": ("default", np.float32(0.5), REFUSAL),
    "rank 1": ("default", floats(64), REFUSAL),
    "other size": ("default", floats(1, 9, 8, 1), REFUSAL),
    "other channels": ("default", floats(1, 8, 8, 3), REFUSAL),
    "huge": ("default", floats(1, 2000, 2000, 1), REFUSAL),
    "doubles": ("default", floats(1, *SIZE).astype("f8"), REFUSAL),
    "text for floats": ("default", np.array([b"hello"]), REFUSAL),
    "uint8": ("uint8", PIXELS[np.newaxis], ANSWER),
    "uint8, none": ("uint8", PIXELS[np.newaxis][:0], ANSWER),
    "uint8 of rank 3": ("uint8", PIXELS, REFUSAL),
    "floats for uint8": ("uint8", floats(1, *SIZE), REFUSAL),
    "PNG": ("bytes", [PNG], ANSWER),
    "JPEG": ("bytes", [JPEG, JPEG], ANSWER),
    "both": ("bytes", [PNG, JPEG] * 4, ANSWER),
    "no file": ("bytes", np.array([], "S1"), ANSWER),
    "files of rank 0": ("bytes", np.array(PNG), REFUSAL),
    "files of rank 2": ("bytes", [[PNG]], REFUSAL),
    "an empty file": ("bytes", [b""], REFUSAL),
    "text": ("bytes", [b"no picture"], REFUSAL),
    "GIF": ("bytes", [encoded("GIF")], REFUSAL),
    "BMP": ("bytes", [encoded("BMP")], REFUSAL),
    "a header of a PNG": ("bytes", [PNG[:8]], REFUSAL),
    "a header of a JPEG": ("bytes", [JPEG[:3]], REFUSAL),
    "a PNG cut off": ("bytes", [PNG[: len(PNG) // 2]], REFUSAL),
    "a PNG cut off in its header": ("bytes", [PNG[:20]], REFUSAL),
    "a JPEG cut off": ("bytes", [JPEG[: len(JPEG) // 3]], REFUSAL),
    "good and bad": ("bytes", [PNG, b"bad"], REFUSAL),
    "a bomb": ("bytes", [png_that_claims(50_000, 50_000)], REFUSAL),
    "a bomb that is whole": ("bytes", [LARGE], REFUSAL),
    "a JPEG bomb": ("bytes", [jpeg_that_claims(50_000, 50_000)], REFUSAL),
    "a negative size": ("bytes", [png_that_claims(2**32 - 1, 8)], REFUSAL),
    "too many": ("default", floats(4097, *SIZE), REFUSAL),
    "too many, uint8": ("uint8", np.zeros([4097, *SIZE], "u1"), REFUSAL),
    "too many files": ("bytes", [PNG] * 4097, REFUSAL),
    "a file with texts": ("bytes", [png_with_texts(2)], ANSWER),
    "a bomb of texts": ("bytes", [png_with_texts(950)], REFUSAL),
    "a long file": ("bytes", [PNG + bytes(200_000)], REFUSAL),
    "no size": ("bytes", [png_that_claims(0, 0)], REFUSAL),
    **{
        f"a damaged {name}, {seed}": ("bytes", [damaged(file, seed)], EITHER)
        for seed in range(4)
        for name, file in (("PNG", PNG), ("JPEG", JPEG))
    },
}


def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_rss():
    """Of this program alone: getrusage counts what ran before exec as well."""
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


def main(path, requests, threads):
    signatures = tf.saved_model.load(path).signatures
    names = list(KINDS)
    counts = {"answered": 0, "refused": 0}
    wrong, lock = {}, threading.Lock()

    def send(number):
        name = names[number % len(names)]
        signature, images, expected = KINDS[name]
        serve = signatures[f"serving_{signature}"]
        try:
            answer = serve(images=tf.constant(images))
        except (tf.errors.OpError, TypeError, ValueError):
            outcome = REFUSAL
        else:
            labels = answer["label"].numpy()
            no_label = len(labels) > 0 and (labels == -1).all()
            outcome = NO_LABEL if no_label else ANSWER
            if len(labels) != len(images):
                outcome = f"{len(labels)} labels"
        with lock:
            counts["refused" if outcome == REFUSAL else "answered"] += 1
            if expected not in (outcome, EITHER):
                wrong[name] = outcome

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        warm_up = min(requests // 5, 2000)
        list(pool.map(send, range(warm_up)))
        memory = [rss()]
        step = -(-(requests - warm_up) // 4)
        for start in range(warm_up, requests, step):
            stop = min(start + step, requests)
            list(pool.map(send, range(start, stop)))
            memory.append(rss())
    peak = peak_rss()
    result = {
        **counts,
        "wrong": wrong,
        "kinds": len(names),
        "threads": threads,
        "warm_up": warm_up,
        "memory_mb": [round(value, 1) for value in memory],
        "growth_mb": round(memory[-1] - memory[0], 1),
        "peak_mb": round(peak, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

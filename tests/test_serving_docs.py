"""docs/serving.md, as it stands: its snippets, its cases and its server."""

import base64
import collections
import concurrent.futures
import contextlib
import functools
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import adt_tf
from adt_tf import data
from adt_tf.serving import bundle, facts, runtimes, warmup
from tests.test_keras_user import result_of

TEXT = (pathlib.Path(__file__).parents[1] / "docs" / "serving.md").read_text()
SNIPPETS = dict(
    re.findall(r"<!-- run: (\S+) -->\n```python\n(.*?)```", TEXT, re.DOTALL)
)
CASES = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in TEXT.partition("| case | snippet")[2].splitlines()[2:]
]
NAMES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
]
PRESET = "digits_small_cnn_adt_exp"


def png(image):
    buffer = io.BytesIO()
    Image.fromarray(np.uint8(np.round(255 * image[..., 0]))).save(buffer, "PNG")
    return buffer.getvalue()


@functools.cache
def digits():
    return data.as_arrays(data.load("digits", split="test"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A directory with the bundle that the document speaks of."""
    path = tmp_path_factory.mktemp("serving")
    classifier = adt_tf.from_preset(PRESET)

    def complete(version, number):
        contract = facts.Contract("digits", number, (8, 8, 1), 10, NAMES)
        origin = facts.Origin(licence="Apache-2.0")
        facts.write(version, facts.describe(contract, origin))

    bundle.write(
        classifier, path / "digits", complete, class_names=tuple(NAMES)
    )
    return path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_case(case, folder, monkeypatch):
    monkeypatch.chdir(folder)
    _, snippet, expected = case
    snippet = "\n".join(re.findall(r"`(.*?)`(?:<br>|$)", snippet))
    images, labels = digits()
    names = {
        "adt_tf": adt_tf,
        "tf": tf,
        "bundle": bundle,
        "facts": facts,
        "runtimes": runtimes,
        "warmup": warmup,
        "classifier": adt_tf.from_preset(PRESET),
        "file": png(images[np.flatnonzero(labels == 3)[0]]),
    }
    assert result_of(snippet, names) == expected


@pytest.mark.parametrize("name", ["litert", "onnx"])
def test_conversion_by_hand(name, folder, monkeypatch):
    package = {"litert": "ai_edge_litert", "onnx": "tf2onnx"}[name]
    pytest.importorskip(package)
    monkeypatch.chdir(folder)
    exec(SNIPPETS[name], {})
    suffix = {"litert": "tflite", "onnx": "onnx"}[name]
    images = digits()[0][:16]
    np.testing.assert_allclose(
        runtimes.load(f"by_hand.{suffix}")(images),
        adt_tf.from_preset(PRESET)(images),
        atol=1e-4,
    )


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def started(bundle_folder, folder, **arguments):
    """Runs the document's server; yields its process and its port."""
    pytest.importorskip("litserve")
    shutil.copytree(bundle_folder / "digits" / "1", folder / "digits" / "1")
    (folder / "server.py").write_text(SNIPPETS["server.py"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "server.py", "digits", str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "server.log").open("w"),
        start_new_session=True,
        **arguments,
    )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if listens(port):
                break
            time.sleep(0.2)
        else:
            pytest.fail((folder / "server.log").read_text()[-2000:])
        yield process, port
    finally:
        # Its workers are processes of their own, in the same group.
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=15)


@pytest.fixture(scope="module")
def server(folder, tmp_path_factory):
    """The document's server, in a process of its own; yields its URL."""
    with started(folder, tmp_path_factory.mktemp("server")) as (_, port):
        yield f"http://127.0.0.1:{port}/v1/models/digits:predict"


def ignore_sigint():
    """What a shell does for a command that ends with `&`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_first_process_ends_all(number, folder, tmp_path):
    arguments = {"preexec_fn": ignore_sigint}
    with started(folder, tmp_path, **arguments) as (process, port):
        url = f"http://127.0.0.1:{port}/v1/models/digits:predict"
        client()(png(digits()[0][0]), url)
        process.send_signal(number)
        process.wait(timeout=30)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                break
            time.sleep(0.1)
        else:
            pytest.fail("processes of the server are left")
        assert not listens(port)
        log = (tmp_path / "server.log").read_text()
        assert "Traceback" not in log, log


def client():
    names = {}
    exec(SNIPPETS["client"], names)
    return names["classify"]


@pytest.mark.slow
def test_a_picture_gets_its_label_and_name(server):
    images, _ = digits()
    labels = adt_tf.from_preset(PRESET)(images[:20]).numpy().argmax(-1)
    for image, label in zip(images[:20], labels, strict=True):
        answer = client()(png(image), server)
        assert answer["label"] == label
        assert answer["class_name"] == NAMES[label]
        assert np.argmax(answer["probabilities"]) == label


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (b"no picture", "must be a PNG or a JPEG of 8 rows"),
        (b"", "must be a PNG or a JPEG of 8 rows"),
        (png(np.zeros((9, 8, 1))), "must be a PNG or a JPEG of 8 rows"),
        (png(np.zeros((8, 8, 1)))[:40], "^File 0 .* is cut off, damaged or"),
    ],
    ids=["text", "empty", "another size", "cut"],
)
def test_a_bad_file_gets_400_within_a_second(file, reason, server):
    client()(png(digits()[0][0]), server)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="^Status 400: ") as caught:
        client()(file, server)
    assert time.monotonic() - start < 1
    answer = json.loads(str(caught.value).removeprefix("Status 400: "))
    message = answer["detail"]
    assert re.search(reason, message)
    assert message.endswith((".", "two", "columns")), message


def refusal(body, server):
    """The reason for which a request is refused with the status 400."""
    request = urllib.request.Request(
        server, body, {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=30)
    assert caught.value.code == 400
    return json.load(caught.value)["detail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        b'{"x": 1}',
        b'{"instances": [{"b64": "%"}]}',
        b"[1]",
        b'{"instances": [3]}',
        b"no JSON",
        b"",
        b"\xff\xfe",
    ],
)
def test_another_request_gets_400(body, server):
    assert "Send JSON of the form" in refusal(body, server)


@pytest.mark.slow
def test_the_bad_one_of_several_files_is_named(server):
    good = png(digits()[0][0])
    for bad, reason in (
        (good[:40], "File 1 .* is cut off, damaged or"),
        (b"no picture", r"Received: file 1 .* is neither of the two$"),
    ):
        files = [{"b64": base64.b64encode(f).decode()} for f in (good, bad)]
        body = json.dumps({"instances": files}).encode()
        assert re.search(reason, refusal(body, server))
    assert "has no file" in refusal(b'{"instances": []}', server)


@pytest.mark.slow
def test_1_000_requests_of_8_clients(server):
    """None is lost, and none gets the answer of another."""
    images, _ = digits()
    labels = adt_tf.from_preset(PRESET)(images).numpy().argmax(-1)
    chosen = np.arange(1000) % len(images)
    files = [png(image) for image in images]
    classify, start = client(), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: classify(files[i], server), chosen))
    print(f"1,000 requests in {time.monotonic() - start:.1f} s")
    told = collections.Counter(
        answer["label"] == labels[i]
        for i, answer in zip(chosen, answers, strict=True)
    )
    assert told == {True: 1000}

"""A served model under hostile requests: an error or an answer, no crash.

The requests run in a process of their own, without adt_tf, as a server would:
a crash there is an exit code here, and its memory is measured.
"""

import json
import pathlib
import subprocess
import sys

import pytest

import adt_tf
from tests.support.models import make_convolutional

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    target = tmp_path_factory.mktemp("served") / "model"
    adt_tf.export(make_convolutional(), target)
    return target


def serve(path, requests, threads=8):
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "tests" / "support" / "hostile_client.py",
            str(path),
            str(requests),
            str(threads),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=path.parent,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["wrong"] == {}
    assert result["answered"] + result["refused"] == requests
    return result


def test_hostile_requests(path):
    result = serve(path, 400)
    assert result["answered"] > 0 and result["refused"] > 0
    assert result["kinds"] >= 30
    # A bomb of 2,500 megapixels would take more.
    assert result["peak_mb"] < 2000


@pytest.mark.slow
def test_10_000_requests_of_8_threads(path):
    result = serve(path, 10_000)
    print(f"\n{json.dumps(result)}")
    # What a leak of one small image a request would take is 0.6 MB; of one
    # file or answer kept, several.
    assert result["growth_mb"] < 20

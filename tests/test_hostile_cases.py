"""What hostile or unlucky users do is taken, or refused in one line.

python -m tests.test_hostile_cases          # the table, as Markdown
"""

import contextlib
import pathlib
import re
import signal
import sys
import tempfile

import pytest

from tests.support.hostile_cases import CASES

DOCUMENT = pathlib.Path(__file__).parents[1] / "docs" / "reliability.md"
# Seconds, on a machine with much else to do.
LONGEST = 120


@contextlib.contextmanager
def bounded():
    """Ends what waits for ever."""

    def late(*_):
        raise AssertionError(f"it takes more than {LONGEST} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_hostile_case(name, tmp_path):
    call, pattern = CASES[name]
    with bounded():
        outcome = call(tmp_path)
    assert re.search(pattern, outcome), outcome
    assert "\n" not in outcome


def test_document_has_every_case():
    text = DOCUMENT.read_text()
    missing = [name for name in CASES if f"| {name} | " not in text]
    assert not missing and len(CASES) >= 60


def markdown():
    """Yields the rows of the table in docs/reliability.md."""
    yield "| case | what happens |"
    yield "| --- | --- |"
    for name, (call, _) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.redirect_stdout(sys.stderr):
                outcome = call(pathlib.Path(folder))
            outcome = outcome.replace(folder, "DIR").replace("|", "\\|")
        outcome = " ".join(re.sub(r"(\S)\1{40,}", r"\1...", outcome).split())
        outcome = re.sub(r"(x/){40,}", "x/...", outcome)
        yield f"| {name} | {outcome[:300]} |"


if __name__ == "__main__":
    for row in markdown():
        print(row, flush=True)

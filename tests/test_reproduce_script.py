"""adt-reproduce: targets are made, reused, and continued."""

import json
import time

import numpy as np
import pytest
from matplotlib import image

from adt_tf.reproduction.catalogue import TARGETS
from tests.support.processes import fails, run, start

TINY = ("--scale=tiny", "--epochs=1")
# In one process, or `everything` would be made in each.
pytestmark = pytest.mark.xdist_group("reproduce")


def test_one_figure_is_made_and_then_reused(tmp_path):
    output = tmp_path / "out"
    arguments = ("--target=figure1,table8", *TINY, f"--output={output}")
    plan = run("reproduce", *arguments, "--dry_run", "--nomeasure").stdout
    assert "to do train   standard" in plan and not output.exists()
    done = run("reproduce", *arguments).stdout
    assert "[figure1 1/2] train standard" in done
    first = (output / "figure1.md").read_bytes()
    assert b"| PGD, restarts |" in first and b"| 1.56 |" in first
    assert "posterior" not in (output / "table8.md").read_text()
    picture = (output / "figure1.png").read_bytes()
    again = run("reproduce", *arguments).stdout
    assert "[figure1 1/2] train standard: there already" in again
    assert "Measuring" not in again
    assert (output / "figure1.md").read_bytes() == first
    assert (output / "figure1.png").read_bytes() == picture
    # A run of another configuration is refused, not taken for this one.
    other = ("--target=figure1", "--scale=tiny", "--epochs=2")
    fails(
        run("reproduce", *other, f"--output={output}", check=False),
        "holds another configuration",
    )


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--target=figure3"], "drawing"),
        (["--target=table12"], "--target must be some of"),
        (["--target=table1", "--seeds=0,x"], "--seeds must be distinct"),
    ],
)
def test_bad_flags_get_one_clear_line(flags, message):
    fails(run("reproduce", *flags, check=False), message)


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All targets at the tiny scale."""
    output = tmp_path_factory.mktemp("all")
    run("reproduce", "--target=all", *TINY, f"--output={output}")
    return output


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_every_target_is_written(name, everything):
    text = (everything / f"{name}.md").read_text()
    assert text.startswith("# ") and "Scale `tiny`" in text
    values = json.loads((everything / f"{name}.json").read_text())
    assert values["target"] == name
    if TARGETS[name].figure or name == "generalisation":
        for path in everything.glob(f"{name}*.png"):
            pixels = image.imread(path)
            assert min(pixels.shape[:2]) > 200 and np.std(pixels) > 0.02
        assert f"]({name}.png)" in text
    if TARGETS[name].protocol and name.startswith("table"):
        labels = [line.split(" | ")[0] for line in text.splitlines()]
        for label, trained in TARGETS[name].rows.items():
            assert f"| {label}" in labels
            assert trained is None or f"runs/{trained} " in text
    if name == "claims":
        answers = {verdict["answer"] for verdict in values["verdicts"]}
        assert answers <= {"yes", "no", "cannot be told"}
        assert "has not been run" not in text
        assert "have not been evaluated" not in text


@pytest.mark.slow
def test_everything_is_there_afterwards(everything):
    arguments = ("--target=all", *TINY, f"--output={everything}", "--dry_run")
    assert "to do" not in run("reproduce", *arguments).stdout


@pytest.mark.slow
def test_evaluation_is_that_of_the_script(everything):
    """The command in the file measures the same."""
    path = everything / "runs" / "at_pgd" / "evaluation-paper.json"
    before = json.loads(path.read_text())
    script = before["command"].removeprefix("adt-evaluate ")
    # In another order, and with flags that change no verdict.
    run("evaluate", "--eval_batch_size=50", *reversed(script.split(" ")))
    after = json.loads(path.read_text())
    assert after["command"] != before["command"]
    assert after["outcomes"] == before["outcomes"]
    assert after["attacks"] == before["attacks"]
    arguments = ("--target=table1", *TINY, f"--output={everything}")
    assert "to do" not in run("reproduce", *arguments, "--dry_run").stdout


@pytest.mark.slow
def test_killed_and_continued_gives_the_same_table(everything, tmp_path):
    """SIGKILL in training, in an evaluation, and in between."""
    output = tmp_path / "out"
    runs = output / "runs"
    arguments = ("--target=table11,figure6", *TINY, f"--output={output}")
    for reached in (
        lambda: (runs / "l2l" / "flags.txt").exists(),
        lambda: list(runs.glob("adt_exp_am/*unfinished*")),
        lambda: (runs / "adt_imp_am" / "classifier.keras").exists(),
        lambda: (runs / "at_pgd" / "flags.txt").exists(),
        lambda: (output / "measurements" / "figure6-at_pgd.npz").exists(),
    ):
        process = start("reproduce", *arguments)
        limit = time.monotonic() + 600
        while not reached() and process.is_alive():
            assert time.monotonic() < limit
            time.sleep(0.05)
        assert process.is_alive(), "it ended before it was killed"
        process.kill()
        process.join()
    done = run("reproduce", *arguments)
    assert "there already" in done.stdout
    for name in ("table11.md", "figure6.md"):
        expected = (everything / name).read_text()
        found = (output / name).read_text()
        assert found.replace(str(output), str(everything)) == expected

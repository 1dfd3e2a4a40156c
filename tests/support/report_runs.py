"""Workdirs and measurements of a report, made up, with known verdicts."""

import base64
import json

import numpy as np

from adt_tf.data import ImageData
from adt_tf.evaluation import Report
from adt_tf.report import inline_images, page
from adt_tf.report.analysis_figures import AnalysisFigure
from adt_tf.report.attacked_images import AttackedImages, EpsilonSweep
from adt_tf.runs import provenance

NAMES = ("alpha", "<b>beta</b>")
# 20 examples: right when clean, under FGSM, under PGD-20.
VERDICTS = {
    "alpha": ("1" * 20, "1" * 16 + "0" * 4, "1" * 14 + "0" * 6),
    "<b>beta</b>": ("1" * 18 + "00", "1" * 8 + "0" * 12, "1" * 2 + "0" * 18),
}
EPSILON = 8 / 255
FINDINGS = [
    {"check": "logits", "status": "pass", "evidence": "Fine.", "advice": ""},
    {
        "check": "black_box",
        "status": "warn",
        "evidence": "Square <wins>.",
        "advice": "Look.",
    },
]


def make_workdir(folder, name, **details):
    folder.mkdir(parents=True)
    verdicts = dict(
        zip(("natural", "FGSM", "PGD-20"), VERDICTS[name], strict=True)
    )
    outcomes = {
        k: np.array([int(c) for c in v], np.int8) for k, v in verdicts.items()
    }
    attacks = {"FGSM": "<FGSM: one step>", "PGD-20": "<PGD-20: steps>"}
    values = Report(outcomes, attacks, 0, True, {"FGSM": 1.0}).to_dict()
    values |= {"dataset": "digits", "epsilon": EPSILON, "method": name}
    values["command"] = f"adt-evaluate --workdir={folder.name}"
    values |= details
    (folder / "evaluation.json").write_text(json.dumps(values))
    (folder / "flags.txt").write_text("--epochs=2\n--epsilon=0.1\n--seed=3\n")
    (folder / "metrics.csv").write_text(
        "epoch,accuracy,entropy,loss,val_loss\n0,0.5,-2,1.5,1.6\n"
        "1,0.75,-1,1,NA\n"
    )
    (folder / "lint.json").write_text(
        json.dumps(
            {"ok": True, "num_examples": 9, "epsilon": EPSILON, "seed": 0}
            | {"findings": FINDINGS}
        )
    )
    train = ImageData(np.zeros([6, 8, 8, 1]), np.arange(6) % 2, 2, "digits")
    provenance.record(folder / "provenance.json", train)
    return folder


def make_measured():
    """Attacked images, a sweep and figures, of 4 images."""
    random = np.random.default_rng(0)
    clean = random.uniform(size=[4, 8, 8, 1])
    shape = [2, 4, 8, 8, 1]
    labels = np.arange(4)
    images = AttackedImages(
        clean,
        labels,
        natural=np.stack([labels, labels]),
        attacked=clean + random.uniform(-EPSILON, EPSILON, shape),
        predicted=np.stack([labels, labels[::-1]]),
        sigma=random.uniform(0.2, 1.0, shape),
    )
    radii = np.array([0.0, EPSILON, 2 * EPSILON])
    right = np.arange(20) < np.array([[20, 14, 3], [18, 2, 0]])[..., None]
    sweep = EpsilonSweep(
        radii,
        right,
        random.uniform(size=[2, 3, 4, 8, 8, 1]),
        np.stack([[labels, labels, labels[::-1]]] * 2),
    )
    curve = decode(inline_images.png(random.uniform(size=[90, 120, 1])))
    figures = [AnalysisFigure("Curvature", "Reads so.", "A curve.", curve)]
    return images, sweep, figures


def decode(uri):
    """The bytes of an image that its address holds."""
    return base64.b64decode(uri.partition(",")[2])


def render_page(runs, **changes):
    """The page on these runs, of `make_measured` but for the changes."""
    images, sweep, figures = make_measured()
    values = {"images": images, "sweep": sweep, "analyses": figures}
    values["command"] = "adt-report --output=here"
    return page.render(runs, **values | changes)

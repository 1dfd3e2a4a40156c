"""Robust classifiers for Keras, by adversarial distributional training.

    threat model -> adversarial distribution -> attack -> loss -> trainer

    method = adt_tf.methods.adt_exp(epsilon=8 / 255)
    trainer = adt_tf.AdversarialTrainer(
        classifier, method.attack, method.loss, seed=0)
    trainer.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9))
    trainer.fit(train, validation_data=validation, epochs=3)

    report = adt_tf.evaluate(
        classifier, test, attacks=[adt_tf.attacks.pgd(8 / 255, num_steps=20)])
    adt_tf.export(classifier, "saved_model")

The parts, from the bottom up: `threat_models`, `distributions`, `objectives`,
`step_rules`, `attacks`, `losses`, `training`, `methods`. Beside them there are
`networks`, `data`, `optimizers`, `schedules`, `callbacks`, `evaluation`,
`linting`, `analysis`, `serving`, `runs`, `report` and `reproduction`.

A module is imported when it is first used, so `import adt_tf` is fast and does
not import TensorFlow.
"""

import importlib
import json
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from adt_tf import keras_registry

if TYPE_CHECKING:
    from adt_tf import (
        analysis as analysis,
    )
    from adt_tf import (
        attacks,
        callbacks,
        data,
        distributions,
        losses,
        methods,
        networks,
        objectives,
        optimizers,
        step_rules,
        threat_models,
    )
    from adt_tf import (
        evaluation as evaluation,
    )
    from adt_tf import (
        linting as linting,
    )
    from adt_tf import (
        report as report,
    )
    from adt_tf import (
        reproduction as reproduction,
    )
    from adt_tf import (
        runs as runs,
    )
    from adt_tf import (
        schedules as schedules,
    )
    from adt_tf import (
        serving as serving,
    )
    from adt_tf import (
        training as training,
    )
    from adt_tf.evaluation import evaluate, evaluate_probabilistic
    from adt_tf.linting import lint
    from adt_tf.networks import as_classifier
    from adt_tf.serving.bridge.transplant import transplant
    from adt_tf.serving.loading import load_classifier
    from adt_tf.serving.preset_models import (
        from_preset,
        presets,
        save_to_preset,
    )
    from adt_tf.serving.saved_model import export
    from adt_tf.training import AdversarialTrainer

    __version__: str

__all__ = [
    "AdversarialTrainer",
    "as_classifier",
    "attacks",
    "callbacks",
    "data",
    "distributions",
    "evaluate",
    "evaluate_probabilistic",
    "export",
    "from_preset",
    "lint",
    "load_classifier",
    "losses",
    "methods",
    "networks",
    "objectives",
    "optimizers",
    "presets",
    "save_to_preset",
    "step_rules",
    "threat_models",
    "transplant",
]
# Modules of the names that are not modules themselves.
_HOMES = {
    "AdversarialTrainer": "training",
    "as_classifier": "networks",
    "evaluate": "evaluation",
    "evaluate_probabilistic": "evaluation",
    "export": "serving.saved_model",
    "from_preset": "serving.preset_models",
    "lint": "linting",
    "load_classifier": "serving.loading",
    "presets": "serving.preset_models",
    "save_to_preset": "serving.preset_models",
    "transplant": "serving.bridge.transplant",
}
# Modules that `from adt_tf import *` does not import.
_MODULES = (
    "analysis",
    "evaluation",
    "linting",
    "report",
    "reproduction",
    "runs",
    "schedules",
    "serving",
    "training",
)


def _check_backend() -> None:
    """Raises `ImportError` if the backend of Keras is not TensorFlow.

    Keras reads the environment variable, or else its configuration file.
    """
    backend = os.environ.get("KERAS_BACKEND")
    if "keras" in sys.modules and hasattr(sys.modules["keras"], "config"):
        backend = sys.modules["keras"].config.backend()
    elif not backend:
        home = os.environ.get("KERAS_HOME", pathlib.Path.home() / ".keras")
        try:
            text = (pathlib.Path(home) / "keras.json").read_text()
            backend = json.loads(text).get("backend")
        except (OSError, ValueError, AttributeError):
            backend = None
    if backend not in (None, "tensorflow"):
        raise ImportError(
            "adt_tf requires the TensorFlow backend of Keras. Received: "
            f"backend {backend!r}; set KERAS_BACKEND=tensorflow before Keras "
            "is imported."
        )


_check_backend()
keras_registry.register()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        value: Any = metadata.version("adt_tf")
    elif name in _HOMES:
        module = importlib.import_module(f"adt_tf.{_HOMES[name]}")
        value = getattr(module, name)
    elif name in __all__ or name in _MODULES:
        value = importlib.import_module(f"adt_tf.{name}")
    else:
        raise AttributeError(f"module 'adt_tf' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})

"""Registers the classes of adt_tf with Keras without importing them.

    import adt_tf
    trainer = keras.saving.load_model("trainer.keras")

`load_model` looks classes up in Keras' registry of custom objects. The classes
of adt_tf enter it when their modules are imported, which `import adt_tf` does
not do. Until then a `_LazyClass` stands for each of them and imports the module
when Keras builds an object from its configuration.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

_PACKAGE = "adt_tf"
_MODULES = {
    "Accuracy": "adt_tf.training.accuracy",
    "AdversarialTrainer": "adt_tf.training.trainer",
    "OneCycle": "adt_tf.schedules",
    "SGD": "adt_tf.optimizers",
    "Warmup": "adt_tf.schedules",
}


class _LazyClass:
    """Stands for a class whose module is not imported yet."""

    def __init__(self, module: str, name: str):
        self.module = module
        self.name = name

    def from_config(self, config: dict[str, Any], **arguments: Any) -> Any:
        """Imports the class and builds an object from its configuration."""
        actual_class = getattr(importlib.import_module(self.module), self.name)
        return actual_class.from_config(config, **arguments)


def register() -> None:
    """Registers all classes with Keras, now or when Keras is imported."""
    if "keras" in sys.modules:
        _register_with(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _KerasImport())


def _register_with(keras: types.ModuleType) -> None:
    registry = keras.saving.get_custom_objects()
    for name, module in _MODULES.items():
        registry.setdefault(f"{_PACKAGE}>{name}", _LazyClass(module, name))


class _KerasImport(importlib.abc.MetaPathFinder):
    """Waits for the import of Keras, and registers the classes after it."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns Keras' own spec with a loader that registers the classes."""
        if fullname != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: types.ModuleType) -> None:
                load(module)
                _register_with(module)

            spec.loader.exec_module = load_and_register  # type: ignore
        return spec

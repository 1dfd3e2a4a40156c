"""A trainer as a file that Keras reads: what it is made of, and its state.

    trainer.save("trainer.keras")
    trainer = keras.models.load_model("trainer.keras")      # and goes on

Keras saves a model by its configuration, its compilation and its weights. The
configuration of a trainer is that of its parts, by `adt_tf.configs`; the state
is that of the classifier, of the attack's own networks, and of both
optimisers. `import adt_tf` is enough for Keras to find the class.
"""

from __future__ import annotations

from typing import Any

import keras

from adt_tf import configs


class SavedModel(keras.Model):
    """A Keras model of parts that can be saved, whole or as weights.

    Subclasses define `get_parts`, the arguments of their constructor after
    `classifier`, and `build_optimizers`.
    """

    #: Keras asks this before it saves; the parts bring their own weights.
    classifier: keras.Model

    def get_parts(self) -> dict[str, Any]:
        """Returns the constructor's arguments other than the classifier."""
        raise NotImplementedError

    def build_optimizers(self) -> None:
        """Makes the variables of all optimisers."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as plain data."""
        parts = {k: configs.serialize(v) for k, v in self.get_parts().items()}
        return {"classifier": _serialized(self.classifier), **parts}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> SavedModel:
        """Returns the trainer that `get_config` describes."""
        config = dict(config)
        classifier = keras.saving.deserialize_keras_object(
            config.pop("classifier"), custom_objects=custom_objects
        )
        parts = {k: configs.deserialize(v) for k, v in config.items()}
        return cls(classifier, **parts)

    def build(self, input_shape: Any) -> None:
        """Builds the classifier; the attack's networks are built already."""
        if not self.classifier.built:
            self.classifier.build(input_shape)

    def get_build_config(self) -> dict[str, Any]:
        """Returns nothing: the classifier's own configuration has it."""
        return {}

    def get_compile_config(self) -> dict[str, Any]:
        """Returns the arguments of `compile`, the attack's optimiser too."""
        config = super().get_compile_config()
        if config:
            config["jit_compile"] = self.jit_choice
            config["attack_optimizer"] = _serialized(self.attack_optimizer)
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles, and makes the optimisers' variables to be loaded."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.classifier.built:
            self.build_optimizers()

    def save_own_variables(self, store: Any) -> None:
        """Saves how often training has gone back, and the average."""
        store["rollbacks"] = self.rollbacks.numpy()
        for name, variable in self._averaged():
            store[name] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Loads how often training has gone back, and the average."""
        self.rollbacks.assign(store["rollbacks"][()])
        for name, variable in self._averaged():
            variable.assign(store[name][()])

    def _averaged(self) -> list[tuple[str, Any]]:
        variables = self.average.variables if self.average else ()
        return [(f"average_{i}", v) for i, v in enumerate(variables)]

    def export(self, filepath: Any, *args: Any, **arguments: Any) -> None:
        """Exports the classifier, as `keras.Model.export` does."""
        self.classifier.export(filepath, *args, **arguments)


def _serialized(part: Any) -> Any:
    """Returns a Keras object as plain data, or raises in one line."""
    try:
        return keras.saving.serialize_keras_object(part)
    except NotImplementedError as error:
        raise ValueError(
            "A trainer is saved with its classifier, which must have a "
            f"`get_config`. Received: {type(part).__name__}, which has none; "
            "write one, or save the weights alone: `trainer.save_weights`."
        ) from error

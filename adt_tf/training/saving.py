"""Saving a trainer in Keras' file format: its parts and its state.

    trainer.save("trainer.keras")
    trainer = keras.models.load_model("trainer.keras")      # ready for `fit`

Keras saves the configuration, the compilation and the weights of a model. The
configuration of a trainer describes its parts (`adt_tf.configs`); the state
comprises the classifier, the attack's own networks and both optimisers. After
`import adt_tf`, Keras finds the class.
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

    classifier: keras.Model

    def get_parts(self) -> dict[str, Any]:
        """Returns the constructor's arguments other than the classifier."""
        raise NotImplementedError

    def build_optimizers(self) -> None:
        """Creates the variables of all optimisers."""
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

    def save(self, *args: Any, **arguments: Any) -> None:
        """Saves the trainer, as `keras.Model.save` does.

        A part that cannot be saved is refused before a file is opened.
        """
        self.get_config()
        super().save(*args, **arguments)

    def build(self, input_shape: Any) -> None:
        """Builds the classifier; the attack's networks are already built."""
        if not self.classifier.built:
            self.classifier.build(input_shape)

    def get_build_config(self) -> dict[str, Any]:
        """Returns an empty dictionary: the classifier stores its own shape."""
        return {}

    def get_compile_config(self) -> dict[str, Any]:
        """Returns the arguments of `compile`."""
        config = super().get_compile_config()
        if config:
            config["jit_compile"] = self.jit_choice
            config["attack_optimizer"] = _serialized(self.attack_optimizer)
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles, and creates the optimisers' variables for loading."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.classifier.built:
            self.build_optimizers()

    def save_own_variables(self, store: Any) -> None:
        """Saves the number of rollbacks, and the average."""
        store["rollbacks"] = self.rollbacks.numpy()
        for name, variable in self._averaged():
            store[name] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Loads the number of rollbacks, and the average."""
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
            "define it, or save only the weights with `trainer.save_weights`."
        ) from error

"""What a user of Keras does with a trainer: snippets, and what they give.

`PRELUDE` is what all snippets share. Each case is a title, a snippet whose last
line is an expression, and the text of its value or of its error.
"""

PRELUDE = """
import keras
import numpy as np
import tensorflow as tf
import adt_tf

random = np.random.default_rng(0)
x = random.uniform(size=(8, 4, 4, 1)).astype("float32")
y = random.integers(0, 3, 8)
layers = keras.layers
start = keras.initializers.RandomNormal(seed=0)


def classifier(outputs=3, **arguments):
    return keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            layers.Flatten(),
            layers.Dense(outputs, kernel_initializer=start, **arguments),
        ]
    )


def trainer(
    model=None,
    loss=adt_tf.losses.cross_entropy,
    metrics="accuracy",
    attack=adt_tf.attacks.fgsm(0.1),
    **arguments,
):
    trainer = adt_tf.AdversarialTrainer(
        model or classifier(), attack, loss, **arguments
    )
    trainer.compile(keras.optimizers.SGD(0.1, momentum=0.9), metrics=metrics)
    return trainer


def fitted(x, y=None, trainer=trainer, **arguments):
    new = trainer()
    new.fit(x, y, batch_size=8, shuffle=False, verbose=0, **arguments)
    return new


def alike(one, other):
    return bool(
        np.allclose(one.get_weights()[0], other.get_weights()[0], atol=1e-5)
    )


one_hot = keras.utils.to_categorical(y, 3)
plain = fitted(x, y)
"""

_RANGE = "ValueError: Images must be finite and lie in [0.0, 1.0]: "
_CHECKPOINT = "keras.callbacks.ModelCheckpoint"

CASES = {
    "Saving": [
        (
            "`ModelCheckpoint`, `.keras`",
            f"""
save = {_CHECKPOINT}("trainer.keras")
after = fitted(x, y, callbacks=[save])
alike(keras.models.load_model("trainer.keras"), after)""",
            "True",
        ),
        (
            "`ModelCheckpoint`, weights only",
            f"""
save = {_CHECKPOINT}("t.weights.h5", save_weights_only=True)
after, other = fitted(x, y, callbacks=[save]), trainer()
other.load_weights("t.weights.h5")
alike(other, after)""",
            "True",
        ),
        (
            "`ModelCheckpoint`, the best by robust accuracy",
            f"""
save = {_CHECKPOINT}(
    "best.keras", save_best_only=True, monitor="val_accuracy", mode="max")
fitted(x, y, validation_data=(x, y), callbacks=[save])
type(keras.models.load_model("best.keras").attack).__name__""",
            "GradientAscent",
        ),
        (
            "`BackupAndRestore`",
            """
backup = keras.callbacks.BackupAndRestore("backup", delete_checkpoint=False)
fitted(x, y, callbacks=[backup], epochs=2)
fitted(x, y, callbacks=[backup], epochs=3).history.epoch""",
            "[2]",
        ),
        (
            "A reloaded trainer goes on, optimiser and all",
            """
first = fitted(x, y)
first.save("first.keras")
second = keras.models.load_model("first.keras")
first.train_on_batch(x, y), second.train_on_batch(x, y)
alike(first, second)""",
            "True",
        ),
        (
            "`trainer.export`",
            """
trainer().export("exported", verbose=False)
served = tf.saved_model.load("exported")
served.serve(x).shape""",
            "(8, 3)",
        ),
        (
            "`adt_tf.export`",
            """
adt_tf.export(trainer(), "served")
sorted(tf.saved_model.load("served").signatures)""",
            "['serving_bytes', 'serving_default', 'serving_uint8']",
        ),
        (
            "A function of your own that is not registered",
            """
def mine(logits, y):
    return -logits[:, 0]
trainer(attack=adt_tf.attacks.fgsm(0.1, objective=mine)).save("no.keras")""",
            "ValueError: Only parts of adt_tf, and registered functions and "
            "objects, can be saved. Received: <function mine>; write "
            "`@keras.saving.register_keras_serializable()` above the "
            "definition of a class or function of your own.",
        ),
    ],
    "Labels": [
        ("One-hot", "alike(fitted(x, one_hot), plain)", "True"),
        ("Whole floats", "alike(fitted(x, y.astype(float)), plain)", "True"),
        ("A column", "alike(fitted(x, y[:, None]), plain)", "True"),
        (
            "Soft, as of mixup",
            "alike(fitted(x, 0.9 * one_hot + 0.1 * one_hot[::-1]), plain)",
            "False",
        ),
        (
            "Soft, for a targeted attack and feature scattering",
            """
scatter = adt_tf.methods.fea_scatter(0.1)
towards = adt_tf.methods.at_fgsm(0.1)
for method in (scatter, towards):
    fitted(x, one_hot, lambda: trainer(None, method.loss, attack=method.attack))
""",
            "None",
        ),
        (
            "Shares that do not add up",
            "fitted(x, 2 * one_hot)",
            "ValueError: Labels must be 0 or more and add up to 1 in each row, "
            "if they have a column for each class. Received: lowest and "
            "highest sum 2 2",
        ),
        (
            "Too many columns",
            "fitted(x, np.eye(4)[y])",
            "ValueError: Labels must have 3 columns, one for each of the "
            "classifier's outputs. Received: shape=(8, 4)",
        ),
        (
            "A class that is none",
            "fitted(x, y + 1)",
            "ValueError: Labels must lie in 0..2, since the classifier has 3 "
            "outputs. Received: lowest and highest label 1 3",
        ),
        (
            "Floats that are not whole",
            "fitted(x, y + 0.5)",
            "ValueError: Labels must be classes of shape (batch,), as integers "
            "or whole floats, or one-hot or soft labels of shape (batch, "
            "classes). Received: lowest and highest label 0.5 2.5",
        ),
    ],
    "Outputs": [
        (
            "One logit",
            """
binary = lambda: trainer(classifier(1), metrics=[
    "accuracy", keras.metrics.BinaryAccuracy(threshold=0.0, name="binary")])
last = fitted(x, y > 0, binary).history.history
last["accuracy"] == last["binary"]""",
            "True",
        ),
        (
            "One logit, evaluated",
            """
report = adt_tf.evaluate(
    classifier(1), (x, y > 0), adt_tf.attacks.autoattack(0.1)[:2],
    verbose=False)
list(report.accuracy)""",
            "['natural', 'APGD-CE', 'APGD-T']",
        ),
        (
            "Several, the logits named",
            """
inputs = keras.Input((4, 4, 1))
flat = layers.Flatten()(inputs)
logits = layers.Dense(3, kernel_initializer=start, name="logits")(flat)
both = lambda: trainer(keras.Model(inputs, {"flat": flat, "logits": logits}))
alike(fitted(x, y, both), plain)""",
            "True",
        ),
        (
            "Several, none named",
            """
inputs = keras.Input((4, 4, 1), name="images")
flat = layers.Flatten(name="flat")(inputs)
trainer(keras.Model(inputs, [flat, layers.Dense(3, name="out")(flat)]))""",
            "ValueError: The classifier must name one of its outputs 'logits', "
            "if it has several. Received: outputs ['flat', 'out']; choose one "
            "with `keras.Model(model.inputs, model.outputs[0])`.",
        ),
        (
            "Softmax in a nested model",
            """
inner = classifier(activation="softmax")
inner.layers[-1].name = "probabilities"
trainer(keras.Sequential([keras.Input((4, 4, 1)), inner]))""",
            "ValueError: The classifier must return logits, but its outputs "
            "look like softmax probabilities (each row is non-negative and "
            "sums to one). Attacks on probabilities are weak and overstate the "
            "robustness: remove the softmax, with `Dense(num_classes)` without "
            "an activation or with `adt_tf.as_classifier(model)`, or give "
            "adt-evaluate and adt-lint the flag --probabilities. Its last "
            "layer: 'probabilities'.",
        ),
    ],
    "Images": [
        (
            "uint8",
            """
small = np.round(255 * x).astype("uint8")
alike(fitted(small, y), fitted(small / np.float32(255), y))""",
            "True",
        ),
        (
            "uint8 in `predict`",
            """
small = np.round(255 * x).astype("uint8")
np.allclose(plain.predict(small, verbose=0), plain(small / 255.0), atol=1e-5)
""",
            "True",
        ),
        (
            "Pixels in [0, 255], in `fit` and in `evaluate`",
            """
ball = adt_tf.threat_models.Linf(8.0, bounds=(0.0, 255.0))
attack = adt_tf.attacks.pgd(ball, num_steps=1)
wide = fitted(255 * x, y, lambda: trainer(attack=attack)).classifier
adt_tf.evaluate(wide, (255 * x, y), [attack], verbose=False).num_examples""",
            "8",
        ),
        (
            "Floats up to 255",
            "fitted(np.round(255 * x), y)",
            _RANGE + "divide them by the largest possible value, 255 for 8 "
            "bits, or pass them as uint8. Received: lowest and highest value 1 "
            "254",
        ),
        (
            "Augmentation that overshoots",
            "fitted(np.where(x > 0.5, 1.25, -0.25), y)",
            _RANGE + "clip them, or where augmentation overshoots in training "
            "pass `clip_images=True` to the trainer. Received: lowest and "
            "highest value -0.25 1.25",
        ),
        (
            "Augmentation that overshoots, clipped",
            """
beyond = np.where(x > 0.5, 1.25, -0.25)
clips = lambda: trainer(clip_images=True)
alike(fitted(beyond, y, clips), fitted(np.where(x > 0.5, 1.0, 0.0), y))""",
            "True",
        ),
        (
            "Normalised images",
            "fitted(np.where(x > 0.5, 2.0, -2.0), y)",
            _RANGE + "undo the normalisation, and let the classifier do it. "
            "Received: lowest and highest value -2 2",
        ),
        (
            "NaN",
            "plain.evaluate(np.nan * x, y, verbose=0)",
            _RANGE + "repair those that are not. Received: lowest and highest "
            "value nan nan",
        ),
        (
            "Channels first",
            """
first = keras.Sequential([
    keras.Input((1, 4, 4)),
    layers.Conv2D(3, 3, data_format="channels_first", name="convolution")])
trainer(first)""",
            "ValueError: The classifier must take images of shape (batch, "
            "height, width, channels), but has data_format='channels_first' in "
            "its layer 'convolution': build it with 'channels_last'.",
        ),
    ],
    "Data sets": [
        (
            "Dictionaries of TensorFlow Datasets and Hugging Face",
            """
rows = tf.data.Dataset.from_tensor_slices({"image": x, "label": y})
alike(fitted(rows.batch(8)), plain)""",
            "True",
        ),
        (
            "Other fields",
            """
rows = tf.data.Dataset.from_tensor_slices({"image": x, "fine_label": y})
fitted(rows.batch(8))""",
            "ValueError: A data set of dictionaries must have one field out of "
            "('label', 'labels'). Received: fields ['fine_label', 'image']; "
            "choose them with `dataset.map(lambda row: (row['image'], "
            "row['label']))`.",
        ),
        (
            "A field `sample_weight`",
            """
w = np.linspace(0.0, 2.0, 8)
fields = {"image": x, "label": y, "sample_weight": w}
rows = tf.data.Dataset.from_tensor_slices(fields).batch(8)
alike(fitted(rows), fitted(x, y, sample_weight=w))""",
            "True",
        ),
        (
            "Class weights for dictionaries",
            """
heavy = {0: 2.0, 1: 1.0, 2: 0.5}
fields = {"image": x, "label": y}
rows = tf.data.Dataset.from_tensor_slices(fields).batch(8)
of_class = fitted(x, y, class_weight=heavy)
[alike(fitted(d, class_weight=heavy), of_class) for d in (fields, rows)]""",
            "[True, True]",
        ),
        (
            "A dictionary with labels, and labels beside it",
            """
rows = tf.data.Dataset.from_tensor_slices(({"image": x, "label": y}, 1 - y))
fitted(rows.batch(8))""",
            "ValueError: Labels and weights must be either fields of the "
            "dictionary of images or separate values, not both. Received: "
            "fields ['image', 'label'] and separate values for ['label'].",
        ),
        (
            "`PyDataset`, generators and dictionaries in `evaluate`",
            """
class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2
    def __getitem__(self, i):
        return x[4 * i : 4 * i + 4], y[4 * i : 4 * i + 4]
rows = tf.data.Dataset.from_tensor_slices({"image": x, "label": one_hot})
data = (Batches(), (Batches()[i] for i in range(2)), rows, iter(zip(x, y)))
digest = lambda d: adt_tf.evaluate(classifier(), d, [], verbose=False).digest
{digest(d) for d in data} == {digest((x, y))}""",
            "True",
        ),
    ],
    "Compiling and weights": [
        (
            "`metrics` as a dictionary",
            """
named = lambda: trainer(metrics={"dense": ["accuracy"]})
sorted(fitted(x, y, named).history.history)""",
            "['accuracy', 'entropy', 'loss', 'perturbation']",
        ),
        (
            "`F1Score`, with one-hot labels",
            """
scored = lambda: trainer(metrics=[keras.metrics.F1Score(average="macro")])
0.0 <= fitted(x, one_hot, scored).history.history["f1_score"][0] <= 1.0""",
            "True",
        ),
        (
            "A loss of Keras",
            """
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
alike(fitted(x, y, lambda: trainer(None, loss)), plain)""",
            "True",
        ),
        (
            "Keras' label smoothing",
            """
loss = keras.losses.CategoricalCrossentropy(
    from_logits=True, label_smoothing=0.3)
ours = adt_tf.losses.smoothed_cross_entropy(0.2)
alike(*(fitted(x, y, lambda: trainer(None, l)) for l in (loss, ours)))""",
            "True",
        ),
        (
            "A loss that takes probabilities",
            "trainer(None, keras.losses.CategoricalCrossentropy())",
            "ValueError: A loss must take logits, as the classifier returns "
            "them. Received: CategoricalCrossentropy(from_logits=False); pass "
            "from_logits=True.",
        ),
        (
            "A loss of your own that returns a tensor",
            """
def loss(classifier, x, x_adv, y, training):
    logits = classifier(x_adv[:, 0], training=training)
    return adt_tf.objectives.cross_entropy_of(logits, y)
alike(fitted(x, y, lambda: trainer(None, loss)), plain)""",
            "True",
        ),
        (
            "Class weights",
            """
heavy = {0: 2.0, 1: 1.0, 2: 0.5}
of_class = fitted(x, y, class_weight=heavy)
alike(of_class, fitted(x, y, sample_weight=np.array([2.0, 1.0, 0.5])[y]))""",
            "True",
        ),
        (
            "Weights below 0, or not finite",
            """
fitted(x, y, sample_weight=np.linspace(-1.0, 1.0, 8))""",
            "ValueError: Weights of examples and classes must be finite and 0 "
            "or more. Received: lowest and highest weight -1 1",
        ),
        (
            "Weights of examples and of classes",
            """
fields = {"image": x, "label": y, "sample_weight": np.ones(8)}
fitted(fields, class_weight={0: 2.0})""",
            "ValueError: Pass either weights of examples or weights of "
            "classes. Received: class_weight={0: 2.0} and data with weights of "
            "examples; multiply the latter by the weights of the classes.",
        ),
        (
            "`gradient_accumulation_steps`",
            """
slow = trainer()
slow.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))
slow.fit(x, y, batch_size=4, verbose=0, epochs=3)
int(slow.optimizer.iterations)""",
            "3",
        ),
        (
            "`TerminateOnNaN`",
            """
broken = lambda: trainer(keras.Sequential([
    *classifier().layers, layers.Rescaling(np.nan)]))
stop = keras.callbacks.TerminateOnNaN()
fitted(x, y, broken, callbacks=[stop], epochs=5).history.epoch""",
            "[0]",
        ),
        (
            "A loss that is not finite",
            """
broken = lambda: trainer(keras.Sequential([
    *classifier().layers, layers.Rescaling(np.nan)]))
fitted(x, y, broken)""",
            "ValueError: The loss or a gradient is not finite. The loss: nan",
        ),
    ],
}

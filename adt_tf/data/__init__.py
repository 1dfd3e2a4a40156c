"""Images and labels, and the batches that training and evaluation read.

    train = load("cifar10", split="train", validation_examples=1000)
    validation = load("cifar10", split="validation", validation_examples=1000)
    batches = train_pipeline(train, batch_size=64, seed=0, augment=True)
    trainer.fit(batches, steps_per_epoch=steps_per_epoch(train, 64))
    for x, y in eval_pipeline(validation, batch_size=256): ...

Source: `load` reads the handwritten digits of scikit-learn, any image data set
that TensorFlow Datasets has prepared on this disk, an .npz file, or a folder of
images or .npy files. What is larger than the memory stays on the disk.
Checks: `ImageData` holds checked arrays, or `DiskImages`, which are read like
an array; `validate_images` and `validate_labels` check arrays that come from
elsewhere.
Batches: `train_pipeline` (endless, shuffled, resumable at any step) and
`eval_pipeline` (once, in order) yield float32 images in [0, 1], int32 labels.
"""

from adt_tf.data.disk_images import DiskImages, ImageReader
from adt_tf.data.images import (
    ImageData,
    as_arrays,
    as_examples,
    scale_images,
    validate_images,
    validate_labels,
)
from adt_tf.data.pipelines import (
    CROPS,
    batch_indices,
    crop_and_flip,
    default_augment,
    eval_pipeline,
    random_boxes,
    steps_per_epoch,
    train_pipeline,
)
from adt_tf.data.sources import load, test_share

__all__ = [
    "CROPS",
    "DiskImages",
    "ImageData",
    "ImageReader",
    "as_arrays",
    "as_examples",
    "batch_indices",
    "crop_and_flip",
    "default_augment",
    "eval_pipeline",
    "load",
    "random_boxes",
    "scale_images",
    "steps_per_epoch",
    "test_share",
    "train_pipeline",
    "validate_images",
    "validate_labels",
]

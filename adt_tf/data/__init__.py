"""Images and labels, and the batches that training and evaluation read.

    train = load("cifar10", split="train", validation_examples=1000)
    validation = load("cifar10", split="validation", validation_examples=1000)
    batches = train_pipeline(train, batch_size=64, seed=0, augment=True)
    trainer.fit(batches, steps_per_epoch=steps_per_epoch(train, 64))
    for x, y in eval_pipeline(validation, batch_size=256): ...

- Sources: `load` reads the handwritten digits of scikit-learn, image data sets
  that TensorFlow Datasets has prepared, .npz files, and folders of images or of
  .npy files. Large data sets stay on disk.
- Arrays: `ImageData` holds checked arrays, or `DiskImages`, which are indexed
  like an array. `as_arrays` and `as_examples` convert data sets of other forms;
  `validate_images` and `validate_labels` check arrays.
- Batches: `train_pipeline` (infinite, shuffled, resumable at any step) and
  `eval_pipeline` (finite, in order) yield float32 images in [0, 1] and int32
  labels.
- Augmentation: `augmented` (Cutout, CutMix, RandAugment), and `mixed_pipeline`
  with the extra data of `load_extra`.
"""

from adt_tf.data.augmentations import (
    Augmentation,
    augmented,
    cut_mix,
    cut_out,
    rand_augment,
)
from adt_tf.data.disk_images import DiskImages, ImageReader
from adt_tf.data.examples import as_arrays, as_examples
from adt_tf.data.extra import load_extra, mixed_pipeline, split_batch
from adt_tf.data.images import (
    ImageData,
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
    "Augmentation",
    "ImageData",
    "ImageReader",
    "as_arrays",
    "as_examples",
    "augmented",
    "batch_indices",
    "crop_and_flip",
    "cut_mix",
    "cut_out",
    "default_augment",
    "eval_pipeline",
    "load",
    "random_boxes",
    "load_extra",
    "mixed_pipeline",
    "rand_augment",
    "scale_images",
    "split_batch",
    "steps_per_epoch",
    "test_share",
    "train_pipeline",
    "validate_images",
    "validate_labels",
]

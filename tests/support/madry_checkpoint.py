"""Madry et al.'s CIFAR-10 challenge in TensorFlow 1's API, with random weights.

logits = write("folder/checkpoint-70000", images)

Written after the challenge's model.py, from operations of tf.nn alone, and
saved by `tf.compat.v1.train.Saver` beside a step counter and momenta.
"""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def write(prefix, images, *, blocks=1, widen_factor=1, num_classes=10, seed=0):
    """Saves a network; returns its logits and gradients for images in [0, 1].

    The gradients are those of each image's cross-entropy with class 0.
    """
    with tf.Graph().as_default():
        network = _Network(np.random.default_rng(seed))
        x = v1.placeholder(tf.float32, [None, *images.shape[1:]])
        widths = [16 * widen_factor * 2**stage for stage in range(3)]
        logits = network.logits(255.0 * x, widths, blocks, num_classes)
        labels = tf.zeros(tf.shape(logits)[:1], tf.int32)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        gradients = tf.gradients(loss, x)[0]
        for variable in v1.trainable_variables():
            name = f"{variable.op.name}/Momentum"
            v1.get_variable(name, initializer=tf.zeros(variable.shape))
        v1.get_variable("global_step", initializer=np.int64(70000))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(prefix))
            return session.run([logits, gradients], {x: images})


class _Network:
    def __init__(self, generator):
        self._generator = generator

    def _variable(self, name, shape, low=-1.0, high=1.0):
        values = self._generator.uniform(low, high, shape).astype("float32")
        return v1.get_variable(name, initializer=values)

    def logits(self, pixels, widths, blocks, num_classes):
        x = tf.map_fn(tf.image.per_image_standardization, pixels)
        with v1.variable_scope("input"):
            x = self._convolution("init_conv", x, 16, 1)
        for stage, width in enumerate(widths, start=1):
            for block in range(blocks):
                strides = 2 if stage > 1 and block == 0 else 1
                first = stage == 1 and block == 0
                with v1.variable_scope(f"unit_{stage}_{block}"):
                    x = self._unit(x, width, strides, first)
        with v1.variable_scope("unit_last"):
            x = tf.reduce_mean(self._activated(x), [1, 2])
        with v1.variable_scope("logit"):
            kernel = self._variable("DW", [x.shape[-1], num_classes])
            return x @ kernel + self._variable("biases", [num_classes])

    def _unit(self, x, width, strides, shared):
        scope = "shared_activation" if shared else "residual_only_activation"
        with v1.variable_scope(scope):
            activated = self._activated(x)
        shortcut = activated if shared else x
        with v1.variable_scope("sub1"):
            y = self._convolution("conv1", activated, width, strides)
        with v1.variable_scope("sub2"):
            y = self._convolution("conv2", self._activated(y), width, 1)
        missing = width - x.shape[-1]
        if missing:
            shortcut = tf.nn.avg_pool2d(shortcut, strides, strides, "VALID")
            pad = [missing // 2, missing // 2]
            shortcut = tf.pad(shortcut, [[0, 0], [0, 0], [0, 0], pad])
        return y + shortcut

    def _activated(self, x):
        size = [x.shape[-1]]
        with v1.variable_scope("BatchNorm"):
            x = tf.nn.batch_normalization(
                x,
                self._variable("moving_mean", size),
                self._variable("moving_variance", size, 0.001, 0.5),
                self._variable("beta", size),
                self._variable("gamma", size, 0.5, 1.0),
                variance_epsilon=1e-3,
            )
        return tf.where(x < 0.0, 0.1 * x, x)

    def _convolution(self, name, x, width, strides):
        bound = (6 / (9 * x.shape[-1])) ** 0.5
        shape = [3, 3, x.shape[-1], width]
        with v1.variable_scope(name):
            kernel = self._variable("DW", shape, -bound, bound)
        return tf.nn.conv2d(x, kernel, strides, "SAME")

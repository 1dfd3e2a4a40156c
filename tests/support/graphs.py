"""Counts the operations that a graph's results need, or does without one."""

import contextlib

import tensorflow as tf

from adt_tf import seeds


@contextlib.contextmanager
def run_eagerly():
    """A block without graphs: what is called once is not worth a trace."""
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def reachable_kinds(function: tf.types.experimental.ConcreteFunction):
    """The types of all operations reachable from outputs and side effects.

    It follows calls, loop bodies and control inputs, so that what the runtime
    prunes is not counted.
    """
    graph = function.graph
    stack = [tensor.op for tensor in graph.outputs]
    stack += list(graph.control_outputs)
    kinds, seen = [], set()
    while stack:
        op = stack.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        kinds.append(op.type)
        stack.extend(tensor.op for tensor in op.inputs)
        stack.extend(op.control_inputs)
        for key in ("body", "f"):
            try:
                name = op.get_attr(key).name
            except ValueError:
                continue
            inner = op.graph._get_function(name).graph
            stack.extend(tensor.op for tensor in inner.outputs)
            stack.extend(inner.control_outputs)
    return kinds


def kinds_of_solving(attack, classifier, images, jit_compile):
    """The types of all operations that solving an attack needs."""

    @tf.function(autograph=False)
    def solve(x, y):
        return attack.solve(
            classifier, x, y, seed=seeds.make(0), jit_compile=jit_compile
        )

    return reachable_kinds(
        solve.get_concrete_function(*map(tf.constant, images))
    )

import numpy as np
import pytest
import tensorflow as tf
from scipy import optimize

from adt_tf.kernels import transport


def batches(n, m, features=6, seed=0, scale=1.0):
    generator = np.random.default_rng(seed)
    return tuple(
        (scale * generator.normal(size=(size, features))).astype("float32")
        for size in (n, m)
    )


def sinkhorn_distance(a, b, **arguments):
    return tf.reduce_sum(transport.transport_costs(a, b, **arguments), -1)


# The loop of many iterations is slow outside a graph.
distance_of = tf.function(sinkhorn_distance, autograph=False)
plan_of = tf.function(transport.sinkhorn_plan, autograph=False)


def cosine(a, b):
    a, b = a.astype("float64"), b.astype("float64")
    norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    return 1 - a @ b.T / norms


def linear_program(cost):
    """Optimal transport between uniform weights, without regularization."""
    n, m = cost.shape
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.kron(np.ones(n), np.eye(m))
    result = optimize.linprog(
        cost.ravel(),
        A_eq=np.concatenate([rows, columns]),
        b_eq=np.concatenate([np.full(n, 1 / n), np.full(m, 1 / m)]),
    )
    return result.fun


def entropic_minimum(cost, regularization):
    """min_P <P, C> - regularization * H(P), by ascent of its dual."""
    n, m = cost.shape

    def negative_dual(potentials):
        f, g = potentials[:n], potentials[n:]
        plan = np.exp((f[:, None] + g - cost) / regularization)
        value = f.mean() + g.mean() - regularization * plan.sum()
        slope = np.concatenate(
            [1 / n - plan.sum(axis=1), 1 / m - plan.sum(axis=0)]
        )
        return -value, -slope

    start = np.full(n + m, -regularization * np.log(n * m) / 2)
    result = optimize.minimize(
        negative_dual,
        start,
        jac=True,
        method="BFGS",
        options={"gtol": 1e-10, "maxiter": 5000},
    )
    # The dual's optimum is the minimum of <P, C> - regularization * (H + 1).
    return -result.fun + regularization


@pytest.mark.parametrize("sizes", [(6, 6), (4, 7)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_small_regularization_solves_the_linear_program(sizes, seed):
    a, b = batches(*sizes, seed=seed)
    exact = linear_program(cosine(a, b))
    errors = [
        abs(
            float(distance_of(a, b, regularization=value, num_iterations=3000))
            - exact
        )
        for value in (0.1, 0.002)
    ]
    assert errors[1] < 2e-3
    assert errors[1] < errors[0]


def test_the_defaults_match_a_perturbed_batch():
    a, noise = batches(64, 64, features=10)
    b = a + 0.3 * noise
    cost = cosine(a, b)
    exact = cost[optimize.linear_sum_assignment(cost)].mean()
    distance = float(sinkhorn_distance(a, b))
    np.testing.assert_allclose(distance, exact, atol=5e-4)


@pytest.mark.parametrize("sizes", [(8, 8), (5, 12)])
def test_marginals_are_uniform(sizes):
    n, m = sizes
    cost = transport.cosine_cost(*batches(n, m))
    plan = plan_of(cost, regularization=0.05, num_iterations=500).numpy()
    assert (plan >= 0).all()
    np.testing.assert_allclose(plan.sum(axis=1), 1 / n, atol=1e-6)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / m, atol=1e-4)


def test_one_iteration_makes_rows_uniform():
    cost = transport.cosine_cost(*batches(5, 7))
    plan = transport.sinkhorn_plan(cost, num_iterations=1).numpy()
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 5, atol=1e-6)


def test_a_large_regularization_spreads_the_plan():
    cost = transport.cosine_cost(*batches(5, 7))
    plan = transport.sinkhorn_plan(cost, regularization=1e4)
    np.testing.assert_allclose(plan, 1 / 35, rtol=1e-3)


def test_order_does_not_matter():
    a, b = batches(7, 7)
    generator = np.random.default_rng(3)
    distance = sinkhorn_distance(a, b)
    for moved in (
        (a[generator.permutation(7)], b),
        (a, b[generator.permutation(7)]),
    ):
        np.testing.assert_allclose(
            sinkhorn_distance(*moved), distance, atol=1e-5
        )


def test_is_symmetric():
    a, b = batches(6, 6)
    arguments = {"regularization": 0.05, "num_iterations": 500}
    np.testing.assert_allclose(
        distance_of(a, b, **arguments),
        distance_of(b, a, **arguments),
        atol=1e-5,
    )


@pytest.mark.parametrize("scale", [1e-15, 1e-4, 1e4, 1e25])
def test_scale_does_not_matter(scale):
    a, b = batches(6, 6)
    distance = sinkhorn_distance(a, b)
    scaled = sinkhorn_distance(a * np.float32(scale), b)
    np.testing.assert_allclose(scaled, distance, atol=1e-5)


def value_and_gradient(a, b, **arguments):
    b = tf.constant(b)
    with tf.GradientTape() as tape:
        tape.watch(b)
        value = distance_of(a, b, **arguments)
    return value.numpy(), tape.gradient(value, b).numpy()


@pytest.mark.parametrize("regularization", [1e-4, 0.01, 1.0])
@pytest.mark.parametrize("case", ["equal", "opposite", "zeros", "some", "one"])
def test_is_finite(case, regularization):
    a, _ = batches(6, 6, scale=1e4)
    some = a.copy()
    some[2] = 0
    a, b, expected = {
        "equal": (a, a, 0.0 if regularization <= 0.01 else None),
        "opposite": (a[:1], -a[:1], 2.0),
        "zeros": (np.zeros_like(a), np.zeros_like(a), 1.0),
        "some": (some, a, None),
        "one": (a[:1], a[:1], 0.0),
    }[case]
    value, gradient = value_and_gradient(a, b, regularization=regularization)
    assert np.isfinite(value) and np.isfinite(gradient).all()
    assert -1e-6 <= value <= 2 + 1e-6
    if expected is not None:
        np.testing.assert_allclose(value, expected, atol=1e-4)


def test_gradient_is_that_of_the_entropic_minimum():
    regularization, step = 0.2, 1e-3
    a, b = batches(3, 4, features=2)
    _, gradient = value_and_gradient(
        a, b, regularization=regularization, num_iterations=500
    )
    b = b.astype("float64")
    for index in np.ndindex(b.shape):
        moved = []
        for sign in (1, -1):
            c = b.copy()
            c[index] += sign * step
            moved.append(entropic_minimum(cosine(a, c), regularization))
        slope = (moved[0] - moved[1]) / (2 * step)
        np.testing.assert_allclose(gradient[index], slope, atol=2e-5)


def test_distance_is_the_minimum_without_its_entropy():
    a, b = batches(3, 4)
    cost = transport.cosine_cost(a, b).numpy()
    plan = plan_of(cost, regularization=0.1, num_iterations=500).numpy()
    value = (plan * cost).sum() + 0.1 * (plan * np.log(plan)).sum()
    np.testing.assert_allclose(
        value, entropic_minimum(cosine(a, b), 0.1), atol=1e-5
    )


def test_leading_axes_are_separate_problems():
    pairs = [batches(5, 6, seed=seed) for seed in range(3)]
    stacked = sinkhorn_distance(
        np.stack([a for a, _ in pairs]), np.stack([b for _, b in pairs])
    )
    single = [sinkhorn_distance(a, b) for a, b in pairs]
    np.testing.assert_allclose(stacked, single, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_and_xla_agree_with_eager(jit_compile):
    a, b = batches(6, 6)

    @tf.function(
        jit_compile=jit_compile,
        autograph=False,
        input_signature=[tf.TensorSpec([None, 6])] * 2,
    )
    def compiled(a, b):
        with tf.GradientTape() as tape:
            tape.watch(b)
            value = sinkhorn_distance(a, b)
        return value, tape.gradient(value, b)

    with tf.GradientTape() as tape:
        eager = tf.constant(b)
        tape.watch(eager)
        value = sinkhorn_distance(a, eager)
    got = compiled(a, b)
    np.testing.assert_allclose(got[0], value, atol=1e-5)
    np.testing.assert_allclose(got[1], tape.gradient(value, eager), atol=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"regularization": 0.0}, "`regularization` must be .* above 0"),
        ({"regularization": float("nan")}, "regularization=nan"),
        ({"num_iterations": 0}, "num_iterations=0"),
        ({"num_iterations": 2.5}, "must be an integer of at least 1"),
        ({"a": np.zeros([6], "float32")}, r"\(\.\.\., batch, features\)"),
        ({"b": np.zeros([2, 5], "float32")}, "number of features"),
        ({"b": np.zeros([2, 6])}, "same dtype"),
        ({"a": np.zeros([2, 6], "int32")}, "must be float32 or float64"),
        ({"a": np.zeros([2, 6], "float16")}, "dtype=float16"),
    ],
)
def test_bad_arguments(arguments, message):
    a, b = batches(2, 2)
    with pytest.raises(ValueError, match=message):
        sinkhorn_distance(**{"a": a, "b": b, **arguments})

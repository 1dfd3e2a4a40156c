"""Shortest steps to a plane by sorting, as FAB's authors find them."""

import numpy as np


def shortest_steps(points, values, normals, *, bounds, pace):
    """What `planes.shortest_steps` returns, in float64 and by order.

    With the times r_j / p_j ascending, t = max_k (|value| - A_k) / S_k, where
    the first k coordinates are at their bounds.
    """
    points, values, normals = (
        np.asarray(array, np.float64) for array in (points, values, normals)
    )
    low, high = bounds
    towards = -np.sign(values)[:, None] * np.sign(normals)
    room = np.where(towards > 0, high - points, points - low)
    weights = np.abs(normals)
    paces = np.asarray(pace(weights), np.float64)
    steps = np.zeros_like(points)
    for row in range(len(points)):
        moving = np.flatnonzero(paces[row] > 0)
        times = room[row, moving] / paces[row, moving]
        order = moving[np.argsort(times)]
        cost = weights[row, order] * room[row, order]
        speed = weights[row, order] * paces[row, order]
        spent = np.concatenate([[0], np.cumsum(cost)[:-1]])
        slope = np.cumsum(speed[::-1])[::-1]
        lines = (np.abs(values[row]) - spent) / slope
        time = max(lines, default=0.0)
        steps[row] = np.minimum(time * paces[row], room[row])
    return towards * steps

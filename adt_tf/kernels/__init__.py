"""Numerical kernels and how a model comes to run them.

Parts: `winograd` (3x3 convolutions), `twins` (a model with other calls of some
layers), `half` (a model in bfloat16 between its ends), `transport` (Sinkhorn).
"""

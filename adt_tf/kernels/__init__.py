"""Numerical kernels, and the models that run them.

Parts: `winograd` (3x3 convolutions), `twins` (a model in which functions
replace some layers), `half` (a model whose inner layers use bfloat16),
`transport` (Sinkhorn).
"""

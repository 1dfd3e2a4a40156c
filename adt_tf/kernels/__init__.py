"""Numerical kernels: `winograd` (3x3 convolutions), `transport` (Sinkhorn)."""

"""Walks to a minimum; they know functions and vectors, never tensors."""

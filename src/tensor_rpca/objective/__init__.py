"""The paper's objective: penalty (kernels), fit (sweep), and their sum over factors."""

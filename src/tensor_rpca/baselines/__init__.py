"""The methods that the paper compares with: one file each, one result type, one validation."""

from tensor_rpca.baselines.horpca_c import horpca_c
from tensor_rpca.baselines.horpca_s import horpca_s
from tensor_rpca.baselines.matrix_rpca import matrix_rpca
from tensor_rpca.baselines.result import Separation
from tensor_rpca.baselines.tubal_rpca import tubal_rpca

__all__ = [
    "Separation",
    "horpca_c",
    "horpca_s",
    "matrix_rpca",
    "tubal_rpca",
]

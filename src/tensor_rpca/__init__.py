"""Low rank plus outliers, for tensors of any order."""

from tensor_rpca.batch import decompose_batch
from tensor_rpca.decomposition import decompose
from tensor_rpca.estimator import TensorRPCA
from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.result import Decomposition

__all__ = ["Decomposition", "KruskalTensor", "TensorRPCA", "decompose", "decompose_batch"]

"""Topics of documents: latent Dirichlet allocation by robust decomposition of word moments."""

from tensor_rpca.topics.corpus import read_corpus
from tensor_rpca.topics.cpd import MomentCPD
from tensor_rpca.topics.lda import TensorLDA
from tensor_rpca.topics.metrics import (
    bound_perplexity,
    completion_perplexity,
    topic_coherence,
    topic_diversity,
)

__all__ = [
    "MomentCPD",
    "TensorLDA",
    "bound_perplexity",
    "completion_perplexity",
    "read_corpus",
    "topic_coherence",
    "topic_diversity",
]

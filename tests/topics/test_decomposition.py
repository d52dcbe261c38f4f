"""Symmetric tensor RPCA, recovery of topics, and the rival."""

import numpy as np
import pytest

from tensor_rpca.objective.factorised import FactorisedObjective
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.objective.symmetric import SymmetricObjective
from tensor_rpca.topics.cpd import alternating_least_squares, power_method
from tensor_rpca.topics.recover import kruskal_condition, project_to_simplex, recover_topics
from tensor_rpca.topics.symmetric import cubes, decompose_symmetric
from tensor_rpca.topics.synthetic import random_topics, topic_error


def population(topics, b):
    """The third moment of topics with equal shares."""
    return 2 / (len(topics) * (b + 2) * (b + 1)) * np.einsum("ri,rj,rk->ijk", *[topics] * 3)


def starts(generator, n, m, rank):
    return generator.standard_normal((n, m, rank))


def test_the_tied_gradient_is_that_of_the_tied_function():
    generator = np.random.default_rng(0)
    T = cubes(generator.standard_normal((5, 2)))
    T[1, 2, 3] += 4  # an error need not be symmetric
    with Sweep(T, None, T.dtype, 1) as sweep:
        tied = SymmetricObjective(FactorisedObjective(sweep, T.shape, 3, 0.3, 0.7, T.dtype), 3)
        x, direction = generator.standard_normal((2, 15))
        _, gradient = tied(x)
        slope = (tied(x + 1e-6 * direction)[0] - tied(x - 1e-6 * direction)[0]) / 2e-6
    assert gradient @ direction == pytest.approx(slope, rel=1e-6)


def test_corrupted_entries_do_not_move_the_topics():
    """Entries of the moment itself, words and not reduced: where whitening has no answer."""
    generator = np.random.default_rng(1)
    b, d, K = 0.5, 24, 4
    topics = random_topics(K, d, sparsity=0.3, random_state=2)
    T = population(topics, b)
    M2 = topics.T @ topics / (K * (b + 1))
    Z = T.copy()
    for i, j, k in generator.integers(0, d, size=(40, 3)):
        for place in {(i, j, k), (i, k, j), (j, i, k), (j, k, i), (k, i, j), (k, j, i)}:
            Z[place] += 3 * T.max()
    found = decompose_symmetric(
        Z, starts(generator, 6, d, K), lambda_x=1e-6 * T.max(), lambda_s=1e-4 * T.max()
    )
    ours, shares = recover_topics(found.factor, np.eye(d), b)
    assert topic_error(ours, topics) < 0.01
    assert shares == pytest.approx(np.full(K, 0.25), abs=0.01)

    values, vectors = np.linalg.eigh(M2)
    scale = np.sqrt(values[-K:])
    W, back = (vectors[:, -K:] / scale).T, vectors[:, -K:] * scale
    white = np.einsum("ai,bj,ck,ijk->abc", W, W, W, Z)
    factor = alternating_least_squares(white, power_method(white, K, 0))
    theirs, _ = recover_topics(factor, back, b)
    assert topic_error(theirs, topics) > 2 * topic_error(ours, topics)


def test_dependent_topics_are_recovered():
    """Five topics that span four dimensions: there is no whitening, and it does not matter."""
    generator = np.random.default_rng(0)
    topics = random_topics(5, 20, sparsity=0.5, random_state=3)
    topics[4] = 0.1 * topics[0] + 0.2 * topics[1] + 0.3 * topics[2] + 0.4 * topics[3]
    T = population(topics, 0.5)
    found = decompose_symmetric(
        T, starts(generator, 10, 20, 5), lambda_x=1e-7 * T.max(), lambda_s=T.max(), max_iter=3000
    )
    ours, _ = recover_topics(found.factor, np.eye(20), 0.5)
    assert topic_error(ours, topics) < 0.05
    assert kruskal_condition(topics).holds
    assert kruskal_condition(topics).k_rank == 4


def test_the_power_method_finds_orthogonal_components():
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 4)))
    factor = Q * np.cbrt([4.0, 3.0, 2.0, 1.0])
    found = power_method(cubes(factor), 4, 0)
    assert cubes(found) == pytest.approx(cubes(factor), abs=1e-6)


def test_least_squares_needs_no_orthogonality():
    generator = np.random.default_rng(0)
    factor = generator.standard_normal((6, 3))
    found = alternating_least_squares(
        cubes(factor), factor + 0.1 * generator.standard_normal((6, 3))
    )
    assert np.linalg.norm(cubes(found) - cubes(factor)) < 0.02 * np.linalg.norm(cubes(factor))


def test_projection_is_the_nearest_point_of_the_simplex():
    V = np.random.default_rng(0).standard_normal((20, 6))
    P = project_to_simplex(V)
    assert P.sum(axis=1) == pytest.approx(np.ones(20))
    assert P.min() >= 0
    # The residual makes no acute angle with any way into the simplex.
    slopes = ((V - P)[:, None, :] * (np.eye(6)[None] - P[:, None, :])).sum(axis=2)
    assert slopes.max() < 1e-12


def test_k_rank():
    e = np.eye(4)
    assert kruskal_condition(e).k_rank == 4
    twice = kruskal_condition(np.stack([e[0], e[1], e[0], e[2]]))
    assert (twice.k_rank, twice.holds) == (1, False)
    plane = kruskal_condition(np.stack([e[0], e[1], (e[0] + e[1]) / 2, e[2]]))
    assert (plane.k_rank, plane.needed, plane.holds) == (2, 4, False)

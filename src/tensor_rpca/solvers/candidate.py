"""What speaks for a fit: how much more briefly it describes Z than its entries do.

A fit with p free parameters is worth, in bits,

    sum_i log2 f(r_i) - log2 f_0(z_i)  -  p max(log2(1 / sigma), log2(N) / 2)

r its residuals, N of them, f the mixture that fits them best (objective/noise.py), f_0 the same
for Z itself, sigma the noise; all in units of a typical entry. Parameters cost as much as the
entries that they can be chosen to fit, or as the Bayesian information criterion charges. An exact
fit is worth the surplus of equations over parameters; a fit to noise is worth nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.objective.noise import bits
from tensor_rpca.recorder import components
from tensor_rpca.solvers.polish import polish
from tensor_rpca.solvers.workbench import Factors, Workbench

# Residuals below these, in units of a typical entry, count as fitted before and after polish.
ROUGHLY = 3e-3
EXACTLY = 1e-5
# And those within so many standard deviations of the noise.
NOISE_SCALES = 3.0
# In units of a typical entry.
FINEST = 1e-9
# Fits that differ by less than this fraction of the noise are the same.
ALIKE = 0.2


@dataclass(frozen=True)
class Candidate:
    """A fit and what speaks for it.

    Attributes
    ----------
    X : KruskalTensor
    noise : float
        Standard deviation of the entries that fit.
    surplus, rough_surplus : int
        Entries fitted, finely and roughly, beyond the number of free parameters.
    worth : float
        In bits.
    """

    X: KruskalTensor
    noise: float
    surplus: int
    rough_surplus: int
    worth: float

    def merit(self) -> tuple[float, int]:
        """What candidates are compared by."""
        return self.worth, self.rough_surplus

    @property
    def proven(self) -> bool:
        """Far more entries fit exactly than there are parameters: no accident."""
        return self.noise < EXACTLY and self.surplus > max(0.0, 0.7 * self.rough_surplus)

    def agrees(self, other: Candidate) -> bool:
        """Two starts that end at the same X are no accident either."""
        if other.X.rank == 0 or self.worth <= 0:
            return False
        both = self.X.weights, -other.X.weights
        pairs = zip(self.X.factors, other.X.factors, strict=True)
        apart = KruskalTensor(np.concatenate(both), [np.hstack(pair) for pair in pairs])
        rms = apart.norm() / math.sqrt(math.prod(apart.shape))
        return rms < ALIKE * self.noise


def nothing(bench: Workbench) -> Candidate:
    """X = 0, which is worth nothing."""
    zero = KruskalTensor(None, [np.zeros((d, 0)) for d in bench.shape])
    noise = bench.noise([np.zeros((d, 1)) for d in bench.shape])
    return Candidate(zero, noise, 0, 0, 0.0)


def assess(bench: Workbench, factors: Factors, rival: Candidate | None = None) -> Candidate:
    """Weigh a fit, after polish if it can compete."""
    fair = weigh(bench, factors)
    rough = fair.rough_surplus
    if fair.noise > ROUGHLY or rough <= 0 or (rival and rough < 0.5 * rival.rough_surplus):
        return fair
    return max(fair, weigh(bench, polish(bench, factors)), key=Candidate.merit)


def weigh(bench: Workbench, factors: Factors, finest: float = FINEST) -> Candidate:
    """Weigh a fit; a fit to within less noise than ``finest`` is worth no more."""
    tally = bench.tally(factors)
    free = bench.free(factors)
    noise = tally.noise(free)
    within = NOISE_SCALES * noise
    sigma = max(noise, finest)
    toll = max(-math.log2(sigma), math.log2(max(2, bench.n_observed)) / 2)
    return Candidate(
        components(factors),
        noise,
        tally.within(max(EXACTLY, within)) - free,
        tally.within(max(ROUGHLY, within)) - free,
        bits(bench.alone, sigma) - bits(tally, sigma) - free * toll,
    )

"""The last fit, to the entries that are no outliers, as exactly as they allow."""

from __future__ import annotations

from tensor_rpca.solvers.workbench import Factors, Workbench

# Scales in units of a typical entry; noise stops the descent at three standard deviations.
SCALES = (1e-2, 1e-3, *[1e-4] * 8)
NOISE_SCALES = 3.0
# Residuals below this, in units of a typical entry, are an exact fit.
EXACT = 1e-9


def polish(bench: Workbench, factors: Factors, *, exact: bool = False) -> Factors:
    """Minimise a bounded loss, for which outliers do not exist, at falling scales.

    ``exact`` takes what looks like noise for the pull of many outliers, and goes on below it.
    """
    noise = bench.noise(factors)
    before, last = None, None
    for scale in SCALES:
        width = scale if exact else max(scale, NOISE_SCALES * noise)
        # Digits below the noise are not worth iterations.
        flat = 1e-15 if width == scale else 1e-9
        factors = bench.minimise(factors, "bounded", width, max_iter=300, flat=flat)
        noise = bench.noise(factors)
        settled = before is not None and noise > 0.9 * before and width == last
        last = width
        if bench.stopped or noise < EXACT or settled:
            break
        before = noise
    return factors

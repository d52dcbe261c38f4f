"""What a competent NumPy user writes first: the yardstick of all ratios."""

import numpy as np


def khatri_rao(factors):
    product = factors[0]
    for a in factors[1:]:
        product = (product[:, None, :] * a[None]).reshape(-1, a.shape[1])
    return product


def naive_sweep(Z, factors, threshold):
    """Materialise X, clip the residual, one MTTKRP a mode; BLAS uses all cores."""
    X = (khatri_rao(factors[:-1]) @ factors[-1].T).reshape(Z.shape)
    difference = X - Z
    if np.isnan(Z).any() if Z.dtype.kind == "f" else False:
        difference = np.where(np.isnan(Z), 0, difference)
    E = np.clip(difference, -threshold, threshold)
    loss = np.vdot(E, difference) - 0.5 * np.vdot(E, E)
    gradients = []
    for k in range(Z.ndim):
        others = khatri_rao([a for j, a in enumerate(factors) if j != k])
        gradients.append(np.moveaxis(E, k, 0).reshape(Z.shape[k], -1) @ others)
    return loss, gradients

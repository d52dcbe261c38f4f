"""The same work by pyttb and TensorLy."""

import warnings

import numpy as np

from benchmarks.naive import naive_sweep
from benchmarks.timing import alternate, table
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.objective.threads import single_threaded_blas


def naive_call(Z, rank):
    factors = [np.random.default_rng(0).standard_normal((d, rank)) for d in Z.shape]
    return lambda: naive_sweep(Z, factors, 0.1)


def pyttb_call(Z, rank):
    """One evaluation of pyttb's generalised CP with Huber's loss through user handles."""
    import pyttb
    from pyttb.gcp.fg import evaluate

    threshold = 0.1

    def loss(data, model):
        size = np.abs(data - model)
        return np.where(size < threshold, 0.5 * size**2, threshold * size - 0.5 * threshold**2)

    def slope(data, model):
        return np.clip(model - data, -threshold, threshold)

    factors = [np.random.default_rng(0).standard_normal((d, rank)) for d in Z.shape]
    data, model = pyttb.tensor(Z, copy=False), pyttb.ktensor(factors, copy=False)
    return lambda: evaluate(model, data, None, loss, slope)


def tensorly_call(Z, rank):
    """One iteration of TensorLy's robust_pca, the sum of nuclear norms; it knows no rank."""
    from tensorly.decomposition import robust_pca

    def call():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return robust_pca(Z, n_iter_max=1, verbose=0)

    return call


def run(quick: bool) -> str:
    rng = np.random.default_rng(0)
    shape, rank = (130, 160, 200), 50
    Z = rng.standard_normal(shape)
    factors = [rng.standard_normal((d, rank)) for d in shape]
    gradients = [np.empty_like(a) for a in factors]
    with single_threaded_blas() as n_threads:
        pass
    with Sweep(Z, None, Z.dtype, n_threads) as sweep:

        def ours():
            with single_threaded_blas():
                sweep.loss_and_gradient(factors, gradients, 0.1)

        calls = {
            "tensor-rpca, one evaluation": ours,
            "naive NumPy, one evaluation": naive_call(Z, rank),
            "pyttb Huber, one evaluation": pyttb_call(Z, rank),
            "TensorLy robust_pca, one iteration": tensorly_call(Z, rank),
        }
        seconds = alternate(calls, 1 if quick else 5)
    naive = seconds["naive NumPy, one evaluation"]
    rows = [[k, f"{1e3 * s:.1f}", f"{s / naive:.2f}"] for k, s in seconds.items()]
    return (
        "## Peers\n\n130 x 160 x 200, R = 50, float64. pyttb evaluates the same loss and "
        "gradients; TensorLy's method is another one (sum of nuclear norms), shown for scale.\n\n"
        + table(["what", "ms", "ratio to naive"], rows)
    )

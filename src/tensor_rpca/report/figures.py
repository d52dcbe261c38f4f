"""Figures; Matplotlib is imported here only, and draws to files without a screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tensor_rpca.files import written_whole
from tensor_rpca.result import Decomposition

Array = NDArray[Any]


def separation_figure(Z: Array, result: Decomposition, path: Path, frames: list[int]) -> None:
    """Draw slices of Z, X and S side by side, the time courses and the convergence.

    Parameters
    ----------
    Z : ndarray of shape (T, H, W)
    result : Decomposition
    path : Path
        Of the .png to write.
    frames : list of int
        Which slices along axis 0.
    """
    figure = Figure(figsize=(10, 2.15 * len(frames) + 2.6), layout="constrained")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(2, 1, height_ratios=[2.15 * len(frames), 2.6], squeeze=False)
    images, curves = parts[:, 0]
    grid = images.subplots(len(frames), 3, squeeze=False)
    sparse = result.sparse.toarray()
    low, high = np.nanpercentile(Z, [0.5, 99.5])
    reach = max(1e-12, float(np.nanpercentile(np.abs(sparse), 99.5)))
    for row, frame in zip(grid, frames, strict=True):
        row[0].imshow(Z[frame], vmin=low, vmax=high, cmap="gray")
        row[1].imshow(result.low_rank[frame], vmin=low, vmax=high, cmap="gray")
        row[2].imshow(sparse[frame], vmin=-reach, vmax=reach, cmap="RdBu_r")
        row[0].set_ylabel(f"slice {frame}")
        for axes in row:
            axes.set_xticks([])
            axes.set_yticks([])
    for axes, title in zip(grid[0], ("Z, as observed", "X, low rank", "S, sparse"), strict=True):
        axes.set_title(title)

    time, convergence = curves.subplots(1, 2)
    for r in range(min(5, result.low_rank.rank)):
        course = result.low_rank.weights[r] * result.low_rank.factors[0][:, r]
        time.plot(course, label=f"component {r + 1}")
    time.set(title="Heaviest components along axis 0", xlabel="slice", ylabel="weight")
    if result.low_rank.rank:
        time.legend(fontsize="x-small", ncols=2)
    convergence.semilogy(np.arange(1, result.n_iter + 1), result.history["objective"])
    convergence.set(title="Convergence", xlabel="iteration", ylabel="objective")
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=110)

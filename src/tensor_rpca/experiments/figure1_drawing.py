"""Figure 1, drawn: a panel a method, white where X is recovered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tensor_rpca.experiments.figure1 import METHODS, SIDE, SIZE, recovered
from tensor_rpca.files import written_whole

LIMIT, THEOREM, ILL_POSED = "#d62728", "#1f77b4", "#ff7f0e"
# These see unfoldings, which have full rank from R = 20 on.
MATRICISING = ("horpca-s-paper", "horpca-s", "horpca-c", "matrix", "tubal")


def draw_figure1(cells: Sequence[dict[str, Any]], paths: Sequence[Path]) -> None:
    """Draw all methods that have cells, into files of the types that their names say."""
    methods = [m for m in METHODS if any(cell["method"] == m for cell in cells)]
    columns = min(4, len(methods))
    rows = math.ceil(len(methods) / columns)
    figure = Figure(figsize=(0.6 + 3.1 * columns, 0.9 + 3.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(methods) :]:
        axes.set_visible(False)
    for method, axes in zip(methods, grid.flat, strict=False):
        _panel(axes, method, [cell for cell in cells if cell["method"] == method])
    figure.supxlabel("outliers, percent of the entries, $100\\, m / 20^3$")
    figure.supylabel("components of $X$, CP rank $R$")
    handles, labels = grid.flat[0].get_legend_handles_labels()
    if len(methods) > 1:
        more = grid.flat[1].get_legend_handles_labels()
        extra = dict(zip(more[1], more[0], strict=True)) | dict(zip(labels, handles, strict=True))
        labels, handles = list(extra), list(extra.values())
    figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize="small")
    for path in paths:
        with written_whole(path) as temporary:
            figure.savefig(temporary, dpi=130)


def _panel(axes: Axes, method: str, cells: Sequence[dict[str, Any]]) -> None:
    ranks = sorted({cell["rank"] for cell in cells})
    percents = sorted({cell["percent"] for cell in cells})
    shade = np.full((len(ranks), len(percents)), np.nan)
    for cell in cells:
        shade[ranks.index(cell["rank"]), percents.index(cell["percent"])] = recovered(cell)
    x, y = _edges(percents), _edges(ranks)
    axes.pcolormesh(x, y, shade, cmap="gray", vmin=0, vmax=1)
    m = np.linspace(x[0], x[-1], 200)
    axes.plot(
        m,
        (SIZE - m / 100 * SIZE) / (3 * SIDE - 2),
        color=LIMIT,
        label="information limit, $R(3d-2) + m = d^3$",
    )
    axes.plot(m, theorem_rank(m), color=THEOREM, ls="--", label="theorem's scaling, constant 1")
    if method in MATRICISING:
        axes.axhline(SIDE, color=ILL_POSED, ls=":", label="$R \\geq 20$: unfoldings of full rank")
    trials = len(cells[0]["errors"])
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    axes.set_title(f"{METHODS[method].title}\n({trials} trials a cell)", fontsize="medium")


def theorem_rank(percent: Any) -> Any:
    """Tucker rank of the paper's theorem, (n / (3 d log n))^(1/2), n the clean entries.

    Its numerical constants and the incoherence are unknown and taken as one.
    """
    clean = SIZE * (1 - np.asarray(percent) / 100)
    return np.sqrt(clean / (3 * SIDE * np.log(clean)))


def _edges(centres: Sequence[int]) -> np.ndarray:
    values = np.array(centres, dtype=float)
    if len(values) == 1:
        return np.array([values[0] - 0.5, values[0] + 0.5])
    between = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - between[0]], between, [2 * values[-1] - between[-1]]])

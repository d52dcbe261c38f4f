"""The frontier as a picture."""

import numpy as np

from benchmarks.frontier import EXACT, METHODS, PAPER, free_per_component, parameters_an_entry

SHAPE = (20, 20, 20)


def draw(results, path):
    """One panel a method: the fraction of seeds recovered, and the two limits."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    axes = figure.subplots(1, len(results), sharey=True)
    m = np.linspace(0.01, 0.9, 60)
    free = free_per_component(SHAPE)
    size = np.prod(SHAPE)
    information = size * (1 - m) / free
    losses = size * np.array([parameters_an_entry(x) for x in m]) / free
    for ax, (method, trials) in zip(axes, results.items(), strict=True):
        accuracy = PAPER if method == "paper" else EXACT
        fractions = {}
        for t in trials:
            fractions.setdefault((t.R, t.m), []).append(t.error < accuracy)
        R, x = np.array(list(fractions)).T
        shade = [np.mean(v) for v in fractions.values()]
        ax.scatter(100 * x, R, c=shade, marker="s", s=44, cmap="Blues", vmin=-0.15, vmax=1.1)
        ax.plot(100 * m, information, "k-", lw=1.5, label="information limit")
        ax.plot(100 * m, losses, "C3--", lw=1.5, label="limit of any loss, large tensors")
        ax.axhline(20, color="0.5", lw=0.8, ls=":")
        ax.set_title(f"{METHODS[method]}, to {accuracy:.0e}", fontsize=11)
        ax.set_xlabel("outliers, % of the entries")
        ax.set_xlim(0, 90)
        ax.set_ylim(0, 138)
    axes[-1].text(90.5, 20, "R = d", va="center", color="0.4", fontsize=9)
    axes[0].set_ylabel("rank R")
    axes[-1].legend(loc="upper right", frameon=False)
    figure.savefig(path, dpi=110)

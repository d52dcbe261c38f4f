"""Clocks and the machine."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

import numpy as np


def alternate(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each, in three rounds so that a busy moment hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for name, function in [*functions.items()] * 3:
        # OpenBLAS's threads spin for a while after a product and would be taken for ours.
        time.sleep(0.1)
        function()
        for _ in range(repeats):
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(times)) for name, times in seconds.items()}


def gemm_peak(dtype: str = "float64") -> float:
    """Operations per second of a large matrix product on all cores, the best of several."""
    n = 2000
    A = np.random.default_rng(0).standard_normal((n, n)).astype(dtype)
    out = np.empty_like(A)
    best = np.inf
    for _ in range(8):
        start = time.perf_counter()
        np.matmul(A, A, out=out)
        best = min(best, time.perf_counter() - start)
    return 2 * n**3 / best


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """Keep one core busy with another program."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def machine() -> str:
    """What the figures were measured on."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as info:
            models = [line.split(":")[1].strip() for line in info if line.startswith("model name")]
        name = models[0] if models else name
    packages = ("numpy", "scipy", "numba", "scikit-learn", "pyttb", "tensorly")
    listed = ", ".join(f"{p} {version(p)}" for p in packages)
    return f"{name}, {os.cpu_count()} cores; Python {platform.python_version()}, {listed}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Format a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"

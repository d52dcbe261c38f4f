"""Decomposition: what a solve returns, and its file format."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from tensor_rpca.certificates import Certificate
from tensor_rpca.files import FileError, open_npz, written_whole
from tensor_rpca.kruskal import KruskalTensor

# Of the file; a reader refuses numbers that it does not know.
FORMAT = 1


class State:
    """What a callback sees of a running solve.

    Attributes
    ----------
    iteration : int
    objective : float
    relative_gradient : float
    rank : int
        Components that have not vanished; counted only if asked for.
    """

    def __init__(
        self,
        iteration: int,
        objective: float,
        relative_gradient: float,
        count_rank: Callable[[], int],
    ):
        self.iteration = iteration
        self.objective = objective
        self.relative_gradient = relative_gradient
        self._count_rank = count_rank

    @cached_property
    def rank(self) -> int:
        """Components that have not vanished."""
        return self._count_rank()

    def __repr__(self) -> str:
        return f"State(iteration={self.iteration}, objective={self.objective:.6g})"


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Decomposition:
    """The two parts of a tensor, and how they were found.

    Attributes
    ----------
    low_rank : KruskalTensor
        X.
    sparse : scipy.sparse.coo_array of the shape of Z
        S = shrink(Z - X, lambda_s); ``sparse.toarray()`` makes it dense.
    lambda_x, lambda_s : float
        The weights that were used.
    objective : float
        ``lambda_x ||X||_* + lambda_s ||S||_1 + 1/2 ||X + S - Z||^2`` at these X and S.
    n_iter, n_evaluations : int
        Iterations, and evaluations of objective and gradient.
    converged : bool
    message : str
        Why the solver stopped.
    history : dict of str to ndarray of shape (n_iter,)
        "objective", "relative_gradient" and "seconds" after each iteration.
    certificate : Certificate
        What is known of the point.
    seconds : float
    """

    low_rank: KruskalTensor
    sparse: coo_array
    lambda_x: float
    lambda_s: float
    objective: float
    n_iter: int
    n_evaluations: int
    converged: bool
    message: str
    history: dict[str, NDArray[np.float64]]
    certificate: Certificate
    seconds: float

    @property
    def density(self) -> float:
        """Fraction of the entries that S claims."""
        return float(self.sparse.nnz / np.prod(self.sparse.shape, dtype=np.float64))

    def save(self, path: str | Path) -> Path:
        """Write everything into one .npz file (no pickle), whole or not at all.

        The suffix ``.npz`` is added if it is missing; the path written is returned.
        """
        target = Path(path)
        if target.suffix != ".npz":
            target = target.with_name(target.name + ".npz")
        scalars = {
            name: getattr(self, name)
            for name in (
                "lambda_x",
                "lambda_s",
                "objective",
                "n_iter",
                "n_evaluations",
                "converged",
                "message",
                "seconds",
            )
        }
        about = {
            "format": FORMAT,
            "shape": self.low_rank.shape,
            "scalars": scalars,
            "certificate": dataclasses.asdict(self.certificate),
        }
        arrays = {"about": np.array(json.dumps(about)), "weights": self.low_rank.weights}
        for k, (factor, coordinate) in enumerate(
            zip(self.low_rank.factors, self.sparse.coords, strict=True)
        ):
            arrays[f"factor_{k}"] = factor
            arrays[f"sparse_coordinate_{k}"] = coordinate
        arrays["sparse_values"] = self.sparse.data
        arrays |= {f"history_{name}": values for name, values in self.history.items()}
        with written_whole(target) as temporary, open(temporary, "wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
        return target

    @classmethod
    def load(cls, path: str | Path) -> Decomposition:
        """Read what :meth:`save` wrote."""
        source = Path(path)
        if not source.exists() and source.suffix != ".npz":
            source = source.with_name(source.name + ".npz")
        arrays = open_npz(source)
        try:
            about = json.loads(str(arrays["about"]))
            if about["format"] != FORMAT:
                raise FileError(
                    f"{path} has format {about['format']}, and this version reads {FORMAT}; "
                    "update tensor-rpca"
                )
            shape = tuple(about["shape"])
            factors = [arrays[f"factor_{k}"] for k in range(len(shape))]
            coords = tuple(arrays[f"sparse_coordinate_{k}"] for k in range(len(shape)))
            history = {
                name.removeprefix("history_"): arrays[name]
                for name in arrays
                if name.startswith("history_")
            }
            return cls(
                low_rank=KruskalTensor(arrays["weights"], factors),
                sparse=coo_from_parts(arrays["sparse_values"], coords, shape),
                history=history,
                certificate=Certificate(**about["certificate"]),
                **about["scalars"],
            )
        except FileError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(
                f"{path} holds arrays but no saved decomposition ({type(error).__name__}: {error});"
                " Decomposition.load reads files that Decomposition.save wrote"
            ) from None

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.low_rank.shape))
        how = "converged" if self.converged else "not converged"
        return (
            f"Decomposition of a {shape} tensor\n"
            f"  low rank : {self.low_rank.rank} components, norm {self.low_rank.norm():.4g}\n"
            f"  sparse   : {self.sparse.nnz:,} entries ({100 * self.density:.3g} %)\n"
            f"  weights  : lambda_x = {self.lambda_x:.4g}, lambda_s = {self.lambda_s:.4g}\n"
            f"  objective: {self.objective:.8g} after {self.n_iter} iterations "
            f"({self.n_evaluations} evaluations, {self.seconds:.3g} s), {how}\n"
            f"  stopped  : {self.message}\n"
            f"  verdict  : {self.certificate.verdict}"
        )


def coo_from_parts(
    values: NDArray[Any], coords: tuple[NDArray[Any], ...], shape: tuple[int, ...]
) -> coo_array:
    """Make a COO array of its parts as they are; SciPy's constructor would copy them twice."""
    array = coo_array(shape, dtype=values.dtype)
    array.coords = coords
    array.data = values
    array.has_canonical_format = False
    return array

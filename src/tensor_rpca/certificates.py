"""What is known of the point that a solver returned."""

from __future__ import annotations

from dataclasses import dataclass

# A relative gradient below this counts as stationary for a verdict.
STATIONARY = 1e-3


@dataclass(frozen=True)
class Certificate:
    """Evidence about a minimum of equation (marg).

    Attributes
    ----------
    verdict : str
        "likely global" if the point is stationary and has a component that vanished: by
        Proposition 7 of the paper a *local minimiser* with a zero component is global, and
        a first-order method checks stationarity, not minimality. Else "unknown".
    gap : float
        Relative duality gap; NaN where none has been computed.
    stationarity : float
        ``||fit + penalty|| / (||fit|| + ||penalty||)`` for the two parts of the gradient: 0
        at a stationary point.
    vanished : int
        Components of the rank bound that came out as zero.
    """

    verdict: str
    gap: float
    stationarity: float
    vanished: int

    def __repr__(self) -> str:
        return (
            f"Certificate({self.verdict}: relative gradient {self.stationarity:.1e}, "
            f"{self.vanished} vanished components)"
        )


def certify(stationarity: float, rank: int, vanished: int) -> Certificate:
    """Weigh the paper's sufficient condition for a point with so many components."""
    # X = 0 is stationary whatever Z is, so stationarity says nothing there.
    likely = stationarity <= STATIONARY and vanished > 0 and rank > 0
    verdict = "likely global" if likely else "unknown"
    return Certificate(verdict, float("nan"), stationarity, vanished)

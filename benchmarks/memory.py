"""Peak resident memory beyond the input, each case in a fresh process."""

import json
import subprocess
import sys

from benchmarks.timing import table

CASES = [
    ("decompose", "float64", (130, 160, 200), 10),
    ("decompose", "float64", (130, 160, 200), 20),
    ("decompose", "float64", (130, 160, 200), 50),
    ("decompose", "float64", (300, 300, 300), 50),
    ("decompose", "uint8", (130, 160, 200), 50),
    ("decompose", "uint8", (300, 300, 300), 50),
    ("decompose", "uint8", (600, 640, 360), 50),
    ("naive", "float64", (130, 160, 200), 50),
    ("pyttb", "float64", (130, 160, 200), 50),
    ("tensorly", "float64", (130, 160, 200), 50),
]


def run(quick: bool) -> str:
    rows = []
    for what, dtype, shape, rank in CASES[:3] if quick else CASES:
        code = f"from benchmarks.memory import child; child({what!r}, {dtype!r}, {shape}, {rank})"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        extra, sparse = json.loads(done.stdout.splitlines()[-1])
        entries = shape[0] * shape[1] * shape[2]
        rows.append(
            [
                what,
                dtype,
                " x ".join(map(str, shape)),
                str(rank),
                f"{extra:.1f}",
                f"{sparse:.1f}",
                f"{8 * sum(shape) * rank / 2**20:.2f}",
                f"{extra / (8 * entries / 2**20):.2f}",
            ]
        )
    header = [
        "what",
        "dtype",
        "shape",
        "R",
        "MiB beyond Z",
        "of these S",
        "factors MiB",
        "in float64 tensors",
    ]
    return (
        "## Memory\n\n"
        "Peak resident memory of a call beyond what the process held with Z loaded, the result "
        "included. SciPy's L-BFGS holds 37 vectors of the factors' size, its n-D COO arrays "
        "8 + 4 K bytes an entry; the rest is a tile for each thread.\n\n" + table(header, rows)
    )


def child(what: str, dtype: str, shape: tuple[int, ...], rank: int) -> None:
    """Run one case in this process and print its extra MiB."""
    import numpy as np

    rng = np.random.default_rng(0)
    # Frame by frame, so that making Z leaves no trace in the process's memory.
    left, right = rng.random((shape[1], 6)), rng.random((shape[2], 6))
    Z = np.empty(shape, dtype)
    for frame in Z:
        still = (left * rng.random(6)) @ right.T * 40 + rng.standard_normal(shape[1:])
        still[rng.random(shape[1:]) < 0.05] = 250
        frame[...] = np.clip(still, 0, 255)
    if what == "decompose":
        from tensor_rpca import decompose

        def call():
            return decompose(Z, rank, lambda_x=30.0, lambda_s=10.0, max_iter=100, random_state=0)
    else:
        from benchmarks import peers

        call = getattr(peers, f"{what}_call")(Z, rank)
    reset_peak()
    before = peak()
    kept = call()
    extra = peak() - before
    sparse = getattr(kept, "sparse", None)
    held = 0 if sparse is None else sparse.data.nbytes + sum(c.nbytes for c in sparse.coords)
    print(json.dumps([extra, held / 2**20]))


def reset_peak() -> None:
    """Forget the peak so far."""
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")


def peak() -> float:
    """Most resident memory so far, in MiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

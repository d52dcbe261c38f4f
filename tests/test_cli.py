"""The command line: what it prints, what it writes, how it ends."""

from __future__ import annotations

import functools
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import zarr

import tensor_rpca.decomposition
from tensor_rpca import Decomposition, cli, decompose
from tensor_rpca.datasets import low_rank_plus_sparse
from tensor_rpca.video import scene

Z, X, _ = low_rank_plus_sparse((8, 7, 6), rank=2, outliers=0.05, random_state=0)

KEYS = {
    "shape",
    "rank",
    "weights",
    "degrees_of_freedom",
    "sparse_entries",
    "sparse_fraction",
    "lambda_x",
    "lambda_s",
    "objective",
    "iterations",
    "evaluations",
    "converged",
    "message",
    "verdict",
    "seconds",
    "output",
}


@dataclass(frozen=True)
class Ended:
    """What is left of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch, capsys) -> Run:
    """Run the command in this process: a second less than a new one."""

    def call(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["tensor-rpca", *map(str, arguments)])
        capsys.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code
        return Ended(code or 0, *capsys.readouterr())

    return call


def run_process(*arguments: object, **environment: str) -> Ended:
    ended = subprocess.run(
        [sys.executable, "-m", "tensor_rpca", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=120,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture
def z(tmp_path) -> Path:
    np.save(tmp_path / "z.npy", Z)
    return tmp_path / "z.npy"


def names(folder: Path) -> list[str]:
    """Everything in a folder, hidden files included."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def same_result(a: Path, b: Path) -> bool:
    """Compare all arrays bit for bit but those that tell the time."""
    with np.load(a) as one, np.load(b) as two:
        timed = {"about", "history_seconds"}
        return set(one) == set(two) and all(
            one[name].tobytes() == two[name].tobytes() for name in set(one) - timed
        )


def assert_refused(ended: Ended, match: str) -> None:
    """Exit code 2 and a single line for the user."""
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.count("\n") == 1, ended.err
    assert ended.err.startswith("error: ")
    assert "Traceback" not in ended.err
    assert match in ended.err


def strict_json(text: str) -> dict:
    """Read JSON as the standard has it: without NaN and Infinity."""
    return json.loads(text, parse_constant=pytest.fail)


# Five iterations, whatever the default solver makes of its limit.
SHORT = ("--solver", "lbfgs", "--max-iter", "5")


# --- real processes ------------------------------------------------------------------------------


def test_json_is_all_there_is_on_stdout(z, run):
    """And the same seed is the same result in another process, on another number of threads."""
    target = z.with_name("process.npz")
    ended = run_process(
        "decompose", z, "--json", "--seed", 3, "-o", target, OMP_NUM_THREADS="1", COLUMNS="80"
    )
    assert ended.code == 0, ended.err
    summary = strict_json(ended.out)
    assert set(summary) == KEYS
    assert summary["shape"] == [8, 7, 6]
    assert summary["output"] == str(target)
    assert "iteration" in ended.err
    assert "Traceback" not in ended.err
    here = z.with_name("here.npz")
    assert run("decompose", z, "--seed", 3, "-q", "-o", here).code == 0
    assert same_result(target, here)


def test_an_error_is_one_line_and_exit_code_2(tmp_path):
    (tmp_path / "z.npy").write_text("no tensor")
    ended = run_process("decompose", tmp_path / "z.npy")
    assert_refused(ended, "z.npy")
    assert names(tmp_path) == ["z.npy"]


@dataclass(frozen=True)
class Interrupted:
    """A process that was sent SIGINT while it was iterating."""

    code: int
    out: str
    terminal: str
    target: Path


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> Interrupted:
    folder = tmp_path_factory.mktemp("interrupted")
    # Noise: with nothing to converge to there are iterations for minutes.
    np.save(folder / "z.npy", np.random.default_rng(0).standard_normal((60, 50, 40)))
    target = folder / "out.npz"
    flags = ["--solver", "lbfgs", "--rank", "20", "--max-iter", "1000000", "--tol", "0"]
    ours, theirs = pty.openpty()  # progress is drawn on terminals only
    with subprocess.Popen(
        [sys.executable, "-m", "tensor_rpca", "decompose", "z.npy", "--json", "-o", target, *flags],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as process:
        try:
            os.close(theirs)
            seen = b""
            while b"objective" not in seen:
                seen += os.read(ours, 4096)
            process.send_signal(signal.SIGINT)
            while True:
                try:
                    seen += os.read(ours, 4096)
                except OSError:  # how a terminal says that the other end has hung up
                    break
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(ours)
    return Interrupted(process.returncode, out, seen.decode(), target)


def test_ctrl_c_ends_with_130(interrupted):
    assert interrupted.code == 130


def test_ctrl_c_saves_the_point_reached(interrupted):
    found = Decomposition.load(interrupted.target)
    assert found.n_iter >= 1
    assert not found.converged
    assert found.low_rank.shape == (60, 50, 40)
    assert names(interrupted.target.parent) == ["out.npz", "z.npy"]


def test_ctrl_c_says_what_it_does(interrupted):
    assert "stopping after this iteration" in interrupted.terminal
    assert "interrupted: the point reached is in" in interrupted.terminal
    assert "Traceback" not in interrupted.terminal
    summary = strict_json(interrupted.out)
    assert summary["converged"] is False
    assert summary["output"] == str(interrupted.target)


# --- decompose -----------------------------------------------------------------------------------


def write_npz(path):
    np.savez(path, tensor=Z, times=np.arange(8))


def write_mat(path):
    scipy.io.savemat(path, {"tensor": Z})


def write_hdf5(path):
    with h5py.File(path, "w") as file:
        file["run/tensor"] = Z


def write_zarr(path):
    zarr.save_array(path, Z)


FORMATS = {
    "t.npy": lambda path: np.save(path, Z),
    "t.npz": write_npz,
    "t.mat": write_mat,
    "t.h5": write_hdf5,
    "t.hdf5": write_hdf5,
    "t.zarr": write_zarr,
}


@pytest.mark.parametrize("name", FORMATS)
def test_decomposes_every_format(name, run, tmp_path):
    FORMATS[name](tmp_path / name)
    ended = run("decompose", tmp_path / name, "--rank", 2, "--json")
    assert ended.code == 0, ended.err
    summary = strict_json(ended.out)
    assert set(summary) == KEYS
    target = tmp_path / "t.decomposition.npz"
    assert summary["output"] == str(target)
    found = Decomposition.load(target)
    assert summary["rank"] == found.low_rank.rank == len(summary["weights"])
    assert summary["weights"] == [float(w) for w in found.low_rank.weights]
    assert summary["sparse_entries"] == found.sparse.nnz
    assert summary["sparse_fraction"] == pytest.approx(found.sparse.nnz / Z.size)
    assert summary["degrees_of_freedom"] == found.low_rank.degrees_of_freedom
    for name in ("lambda_x", "lambda_s", "objective", "converged", "message", "seconds"):
        assert summary[name] == getattr(found, name)
    assert summary["iterations"] == found.n_iter
    assert summary["evaluations"] == found.n_evaluations
    assert summary["verdict"] == found.certificate.verdict
    np.testing.assert_allclose(found.low_rank.to_dense(), X, atol=0.1)


def test_options_reach_decompose(run, z):
    target = z.with_name("a.npz")
    options = {
        "rank": 3,
        "lambda-x": 0.05,
        "lambda-s": 0.02,
        "solver": "lbfgs",
        "max-iter": 40,
        "tol": 1e-9,
        "seed": 5,
    }
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    assert run("decompose", z, "-o", target, "-q", *flags).code == 0
    expected = decompose(
        Z,
        3,
        lambda_x=0.05,
        lambda_s=0.02,
        solver="lbfgs",
        max_iter=40,
        tol=1e-9,
        random_state=5,
    )
    expected.save(z.with_name("b.npz"))
    assert same_result(target, z.with_name("b.npz"))


def test_the_same_seed_gives_the_same_bits_and_another_does_not(run, z):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("decompose", z, "-q", *SHORT, "--seed", seed, "-o", z.with_name(name))
    a, b, c = (z.with_name(f"{name}.npz") for name in "abc")
    assert same_result(a, b)
    assert not same_result(a, c)


@pytest.mark.parametrize(
    ("given", "written"),
    [("a.npz", "a.npz"), ("a", "a.npz"), ("a.v1", "a.v1.npz"), ("a.mat", "a.mat.npz")],
)
def test_adds_the_suffix_to_the_output(given, written, run, z):
    ended = run("decompose", z, *SHORT, "--json", "-o", z.with_name(given))
    assert ended.code == 0, ended.err
    assert strict_json(ended.out)["output"] == str(z.with_name(written))
    assert names(z.parent) == sorted([written, "z.npy"])
    assert Decomposition.load(z.with_name(written)).n_iter == 5


def test_output_may_be_relative(run, z, monkeypatch):
    monkeypatch.chdir(z.parent)
    assert run("decompose", "z.npy", "-q", *SHORT, "--out", "a.npz").code == 0
    assert names(z.parent) == ["a.npz", "z.npy"]


def test_prints_a_table_without_json(run, z):
    ended = run("decompose", z, "--rank", 2)
    assert ended.code == 0
    rows = {line.split("  ")[0].strip() for line in ended.out.splitlines()}
    assert {key.replace("_", " ") for key in KEYS} <= rows
    assert "8 x 7 x 6" in ended.out
    with pytest.raises(json.JSONDecodeError):
        json.loads(ended.out)


@pytest.mark.parametrize("name", ["run[old].npz", "run[x] [", "run[/x].npz"])
def test_the_table_shows_names_as_they_are(name, run, z, monkeypatch):
    monkeypatch.chdir(z.parent)
    Path(name).parent.mkdir(exist_ok=True)
    ended = run("decompose", "z.npy", *SHORT, "-o", name)
    assert ended.code == 0
    assert name in ended.out


def test_quiet_is_silent(run, z):
    assert run("decompose", z, "-q", *SHORT) == Ended(0, "", "")
    assert z.with_name("z.decomposition.npz").exists()


def test_quiet_json_is_json_alone(run, z):
    ended = run("decompose", z, "--quiet", "--json", *SHORT)
    assert set(strict_json(ended.out)) == KEYS
    assert ended.err == ""


def test_array_picks_one_of_several(run, tmp_path):
    np.savez(tmp_path / "z.npz", a=Z, b=Z[:, :4])
    ended = run("decompose", tmp_path / "z.npz")
    assert_refused(ended, "a (8 x 7 x 6), b (8 x 4 x 6); say which one is meant")
    ended = run("decompose", tmp_path / "z.npz", "--array", "b", "--json", *SHORT)
    assert strict_json(ended.out)["shape"] == [8, 4, 6]


def test_keeps_an_existing_file_unless_forced(run, z):
    target = z.with_name("a.npz")
    target.write_bytes(b"months of work")
    ended = run("decompose", z, "-o", target)
    assert_refused(ended, "a.npz exists; --force overwrites it, -o names another file")
    assert target.read_bytes() == b"months of work"
    assert run("decompose", z, "-o", target, "--force", "-q", *SHORT).code == 0
    assert Decomposition.load(target).n_iter == 5
    assert names(z.parent) == ["a.npz", "z.npy"]


def test_keeps_an_existing_file_that_gets_its_suffix_added(run, z):
    z.with_name("a.npz").write_bytes(b"months of work")
    assert_refused(run("decompose", z, "-o", z.with_name("a")), "a.npz exists")


def test_refuses_an_existing_output_before_it_reads_the_input(run, tmp_path):
    (tmp_path / "a.npz").write_bytes(b"months of work")
    (tmp_path / "z.npy").write_bytes(b"no tensor")
    assert_refused(
        run("decompose", tmp_path / "z.npy", "-o", tmp_path / "a.npz"), "--force overwrites it"
    )


def save_bad(array: np.ndarray) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / "z.npy", array)


save_good = save_bad(Z)


def output_is_a_folder(folder: Path) -> None:
    np.save(folder / "z.npy", Z)
    (folder / "a.npz").mkdir()


def refused(trouble: str, arguments: str, match: str, make=save_good):
    return pytest.param(arguments.split(), match, make, id=trouble)


@pytest.mark.parametrize(
    ("arguments", "match", "make"),
    [
        refused("absent", "y.npy", "y.npy does not exist"),
        refused(
            "absent folder",
            "none/y.npy",
            "y.npy does not exist",
        ),
        refused("folder", ".", ""),
        refused(
            "folder is named",
            ".",
            "is a folder",
        ),
        refused("unknown format", "z.csv", "'.csv' is none of", lambda f: (f / "z.csv").touch()),
        refused("text", "z.npy", "z.npy", lambda f: (f / "z.npy").write_text("no tensor")),
        refused("array of .npy", "z.npy --array Z", "leave the name out"),
        refused("infinite", "z.npy", "infinite entries", save_bad(np.full((3, 4), np.inf))),
        refused("all missing", "z.npy", "is missing", save_bad(np.full((3, 4), np.nan))),
        refused("complex", "z.npy", "Complex data", save_bad(np.ones((3, 4)) * 1j)),
        refused("one axis", "z.npy", "1D array", save_bad(np.ones(4))),
        refused("no entries", "z.npy", "is empty along axis 1", save_bad(np.ones((3, 0)))),
        refused("rank", "z.npy --rank 0", "rank must be at least 1"),
        refused("huge rank", "z.npy --rank 99999999999", "choose at most rank="),
        refused("lambda_x", "z.npy --lambda-x nan", "lambda_x must be positive"),
        refused("lambda_s", "z.npy --lambda-s -1", "lambda_s must be positive"),
        refused("max_iter", "z.npy --max-iter 0", "max_iter must be at least 1"),
        refused("tol", "z.npy --tol 2", "tol must lie in"),
        refused("solver", "z.npy --solver newton", "choose one of auto, lbfgs"),
        refused("seed", "z.npy --seed -1", "random_state must be"),
        refused("no such folder", "z.npy -o none/a.npz", "the folder none does not exist"),
        refused("file for a folder", "z.npy -o z.npy/a.npz", "z.npy"),
        refused(
            "output is a folder, forced",
            "z.npy -o a.npz --force",
            "a.npz is a folder; name a file",
            output_is_a_folder,
        ),
        refused(
            "output is a folder",
            "z.npy -o a.npz",
            "a.npz is a folder; name a file",
            output_is_a_folder,
        ),
        refused("no output name", "z.npy -o /", ""),
    ],
)
def test_refuses_and_leaves_nothing_behind(arguments, match, make, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path)
    before = names(tmp_path)
    assert_refused(run("decompose", *arguments, "-q"), match)
    assert names(tmp_path) == before


def test_errors_after_progress_has_begun_stay_one_line(run, z, monkeypatch):
    """A solver that fails: its file is not there, nor half of it."""

    def fail(*args, **kwargs):
        raise MemoryError("Unable to allocate 1 TiB")

    monkeypatch.setattr(tensor_rpca.decomposition, "decompose", fail)
    assert_refused(run("decompose", z), "Unable to allocate 1 TiB")
    assert names(z.parent) == ["z.npy"]


def test_what_nobody_foresaw_keeps_its_traceback(run, z, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(tensor_rpca.decomposition, "decompose", fail)
    with pytest.raises(ZeroDivisionError):
        run("decompose", z)


def test_refuses_a_folder_that_cannot_be_written_before_it_computes(run, z, monkeypatch):
    # Permissions do not bind root, who runs many a test suite.
    def deny(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", deny)
    monkeypatch.setattr(tensor_rpca.decomposition, "decompose", pytest.fail)
    assert_refused(run("decompose", z), "cannot write into")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_refuses_a_read_only_folder(run, z, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    ended = run("decompose", z, "-o", tmp_path / "closed" / "a.npz")
    assert_refused(ended, "Permission denied")


@pytest.fixture
def full_disk(monkeypatch, z):
    """The folder of Z takes no more files once the solver has finished."""
    save = Decomposition.save

    def save_elsewhere_only(self, path):
        if Path(path).parent == z.parent:
            raise OSError(28, "No space left on device")
        return save(self, path)

    (z.parent / "rescued").mkdir()
    monkeypatch.setattr(Decomposition, "save", save_elsewhere_only)
    monkeypatch.setattr(tempfile, "tempdir", str(z.parent / "rescued"))
    return z.parent / "rescued"


def test_a_result_that_does_not_fit_is_saved_elsewhere(run, z, full_disk):
    ended = run("decompose", z, "-q", *SHORT)
    (rescued,) = full_disk.rglob("*.npz")
    assert ended.err.startswith("error: ")
    assert "No space left on device" in ended.err
    assert str(rescued) in ended.err
    assert Decomposition.load(rescued).n_iter == 5


def test_a_result_saved_elsewhere_is_an_error(run, z, full_disk):
    assert run("decompose", z, "-q", *SHORT).code == 2


# --- interrupts, in this process -----------------------------------------------------------------


@pytest.fixture
def ctrl_c(monkeypatch):
    """Make decompose() receive SIGINT at given iterations."""

    def at(*iterations: int) -> None:
        def interrupted_decompose(*args, callback, **kwargs):
            def also(state):
                if state.iteration in iterations:
                    signal.raise_signal(signal.SIGINT)
                return callback(state)

            return decompose(*args, callback=also, **kwargs)

        monkeypatch.setattr(tensor_rpca.decomposition, "decompose", interrupted_decompose)

    before = signal.getsignal(signal.SIGINT)
    yield at
    signal.signal(signal.SIGINT, before)


def test_the_first_ctrl_c_stops_at_that_very_iteration(run, z, ctrl_c):
    ctrl_c(7)
    ended = run("decompose", z, "--solver", "lbfgs", "--tol", 0, "--json")
    assert strict_json(ended.out)["iterations"] == 7
    assert Decomposition.load(z.with_name("z.decomposition.npz")).n_iter == 7
    assert "interrupted: the point reached is in" in ended.err


@pytest.fixture
def given_up(run, z, monkeypatch) -> Ended:
    def interrupted_twice(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the second signal did not end the solver")

    monkeypatch.setattr(tensor_rpca.decomposition, "decompose", interrupted_twice)
    return run("decompose", z, "-q")


def test_the_second_ctrl_c_gives_up(given_up, z):
    assert names(z.parent) == ["z.npy"]
    assert given_up.out == ""
    assert "Traceback" not in given_up.err


def test_the_second_ctrl_c_ends_with_130_and_says_so(given_up):
    assert given_up.code == 130
    assert "interrupted; nothing was written" in given_up.err


@pytest.mark.parametrize("iterations", [(), (2,)], ids=["uninterrupted", "interrupted"])
def test_ctrl_c_is_afterwards_what_it_was(iterations, run, z, ctrl_c):
    def of_the_caller(number, frame):
        """A handler that is not Python's own."""

    ctrl_c(*iterations)
    signal.signal(signal.SIGINT, of_the_caller)
    run("decompose", z, "-q", *SHORT)
    assert signal.getsignal(signal.SIGINT) is of_the_caller


# --- usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["--frobnicate"], "No such option"),
        (["decompose"], "Missing argument 'INPUT'"),
        (["decompose", "z.npy", "--frobnicate"], "No such option"),
        (["decompose", "z.npy", "y.npy"], "unexpected extra argument"),
        (["decompose", "z.npy", "--rank"], "requires an argument"),
        (["decompose", "z.npy", "--rank", "many"], "'--rank'"),
        (["decompose", "z.npy", "--rank", "2.5"], "'--rank'"),
        (["decompose", "z.npy", "--lambda-s", "small"], "'--lambda-s'"),
        (["demo", "extra"], "unexpected extra argument"),
    ],
)
def test_usage_errors_end_with_2_and_name_the_trouble(arguments, match, run, z, monkeypatch):
    monkeypatch.chdir(z.parent)
    ended = run(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert match in ended.err
    assert "Traceback" not in ended.err
    assert names(z.parent) == ["z.npy"]


def test_version_is_the_installed_one(run):
    from importlib.metadata import version

    assert run("--version") == Ended(0, f"tensor-rpca {version('tensor-rpca')}\n", "")


def test_help_lists_the_commands(run):
    ended = run("--help")
    assert ended.code == 0
    assert "decompose" in ended.out
    assert "demo" in ended.out


def test_help_of_a_command_lists_its_options(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    ended = run("decompose", "--help")
    assert ended.code == 0
    for option in ("--rank", "--out", "--array", "--json", "--seed", "--force", "--quiet"):
        assert option in ended.out


def test_without_arguments_it_shows_the_help_and_ends_with_2(run):
    ended = run()
    assert ended.code == 2
    assert "decompose" in ended.out + ended.err
    assert "Traceback" not in ended.err


# --- demo ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[Ended, Path]:
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tensor-rpca", "demo", "--json", "-o", str(folder)])
        out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")  # noqa: SIM115
        with out, err:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with suppress(SystemExit):
                cli.main()
            out.seek(0)
            err.seek(0)
            return Ended(0, out.read(), err.read()), folder


DEMO = [
    "background.mp4",
    "decomposition.npz",
    "demo.png",
    "foreground.mp4",
    "mask.mp4",
    "original.mp4",
    "report.html",
]


@pytest.fixture
def hasty(monkeypatch):
    """A shorter, smaller film where the demonstration's result does not matter."""
    fast = functools.partial(scene.lobby_scene, 12, 40, 48)
    monkeypatch.setattr(scene, "lobby_scene", fast)


def test_demo_separates_people_from_the_lobby(demo):
    ended, folder = demo
    summary = strict_json(ended.out)
    assert summary["f_measure"] > 0.85
    assert summary["report"] == str(folder / "report.html")
    assert summary["rank"] <= 10
    assert "Traceback" not in ended.err


def test_demo_leaves_films_the_result_and_the_report(demo):
    ended, folder = demo
    assert names(folder) == DEMO
    found = Decomposition.load(folder / "decomposition.npz")
    assert found.n_iter == strict_json(ended.out)["iterations"]
    assert found.low_rank.shape == (200, 130 * 160)


@pytest.mark.parametrize("name", ["report.html", "mask.mp4"])
def test_demo_keeps_what_is_there_unless_forced(name, run, tmp_path, hasty):
    (tmp_path / name).write_bytes(b"months of work")
    assert_refused(run("demo", "-o", tmp_path), f"{name} exists; --force overwrites it")
    assert (tmp_path / name).read_bytes() == b"months of work"
    assert names(tmp_path) == [name]
    assert run("demo", "-o", tmp_path, "--force", "-q") == Ended(0, "", "")
    assert (tmp_path / name).read_bytes() != b"months of work"
    assert names(tmp_path) == DEMO


def test_demo_ends_with_the_measure_and_the_report(run, tmp_path, hasty):
    ended = run("demo", "-o", tmp_path)
    assert ended.code == 0
    assert "f measure" in ended.out
    assert "report" in ended.out[ended.out.index("f measure") :]


def test_demo_writes_into_a_folder_of_its_own_by_default(run, tmp_path, monkeypatch, hasty):
    monkeypatch.chdir(tmp_path)
    assert run("demo", "-q").code == 0
    assert names(tmp_path / "tensor-rpca-demo") == DEMO


def test_demo_repeats_with_a_seed(run, tmp_path, hasty):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run("demo", "-q", "--seed", seed, "-o", tmp_path / name).code == 0
    a, b, c = (tmp_path / name / "decomposition.npz" for name in "abc")
    assert same_result(a, b)
    assert not same_result(a, c)


def test_demo_refuses_a_file_for_a_folder(run, z):
    assert_refused(run("demo", "-o", z), "z.npy is a file; name a folder with -o")
    assert_refused(run("demo", "-o", z / "below"), "z.npy")
    assert_refused(run("demo", "-o", z.with_name("new"), "--seed", -1), "non-negative")

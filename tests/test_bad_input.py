import gc
import json
import pathlib
import warnings
import zipfile

import numpy as np
import psutil
import pytest
import scipy.sparse

from tensor_rpca import Decomposition, KruskalTensor, decompose
from tests.problems import random_factors

SHAPE = (4, 5, 6)
Z = np.random.default_rng(0).standard_normal(SHAPE)


def with_entry(value, dtype=float):
    array = Z.astype(dtype)
    array[1, 2, 3] = value
    return array


def without_slices(*indices):
    array = Z.copy()
    array[:, list(indices)] = np.nan
    return array


def solve(Z=Z, rank=None, **parameters):
    """Run one iteration of what should not even start."""
    return lambda folder: decompose(Z, rank, **({"max_iter": 1} | parameters))


def load(damage):
    """Load a saved file after ``damage(path)``, which may name another path."""

    def call(folder):
        path = decompose(Z, 2, random_state=0, max_iter=2).save(folder / "result.npz")
        return Decomposition.load(damage(path) or path)

    return call


def save_into_a_missing_folder(folder):
    decompose(Z, 2, max_iter=1).save(folder / "absent" / "result.npz")


def save_over_a_folder(folder):
    (folder / "taken.npz").mkdir()
    decompose(Z, 2, max_iter=1).save(folder / "taken.npz")


def absent(path):
    return path.with_name("absent.npz")


def truncated(path):
    path.write_bytes(path.read_bytes()[:-200])


def empty(path):
    path.write_bytes(b"")


def other_arrays(path):
    np.savez(path, a=np.ones(3), b=np.zeros(2))


def plain_text(path):
    path.write_text("frame,row,column\n1,2,3\n" * 20)


def a_single_array(path):
    np.save(path.with_suffix(".npy"), Z)
    return path.with_suffix(".npy")


def a_folder(path):
    return path.parent


class Code:
    def __reduce__(self):
        return (pathlib.Path.touch, (pathlib.Path("executed"),))


def pickled(path):
    np.savez(path, about=np.array([Code()], dtype=object), weights=np.ones(2))


def rewrite(path, changes):
    """Replace arrays of a saved file."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(path, **(arrays | changes))


def of_a_later_version(path):
    with np.load(path) as archive:
        about = json.loads(str(archive["about"]))
    rewrite(path, {"about": np.array(json.dumps(about | {"format": 99}))})


def about_nothing(path):
    rewrite(path, {"about": np.array("no json")})


def with_factors_that_do_not_fit(path):
    rewrite(path, {"factor_0": np.ones((4, 7))})


def rotten(path):
    """Damage what is compressed; the archive's own table of contents stays in order."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("factor_2.npy")
    data = bytearray(path.read_bytes())
    # A deflate stream cannot begin with these bytes; 30 bytes and the name precede it.
    start = member.header_offset + 30 + len(member.filename)
    extra = int.from_bytes(data[member.header_offset + 28 : member.header_offset + 30], "little")
    data[start + extra : start + extra + 8] = b"\xff" * 8
    path.write_bytes(data)


def row(name, call, error, *words):
    return pytest.param(call, error, words, id=name)


# The last words of a row belong to the cure.
TABLE = [
    # Z
    row("infinite", solve(with_entry(np.inf)), ValueError, "1 infinite", "np.where(np.isinf"),
    row("minus infinite", solve(with_entry(-np.inf)), ValueError, "infinite", "np.where(np.isinf"),
    row("infinite float16", solve(with_entry(np.inf, "f2")), ValueError, "1 infinite", "NaN"),
    row("complex", solve(Z + 1j), ValueError, "Complex", "Z.real"),
    row(
        "object", solve(Z.astype(object)), ValueError, "dtype object", "np.asarray(Z, dtype=float)"
    ),
    row("None inside", solve([[1.0, None], [2.0, 3.0]]), ValueError, "object", "np.asarray("),
    row("string", solve(Z.astype(str)), ValueError, "<U", "Z.astype(float)"),
    row("a file name", solve("video.npy"), ValueError, "<U9", "Z.astype(float)"),
    row("dates", solve(Z.astype("M8[s]")), ValueError, "datetime64", "Z.astype(float)"),
    row("empty", solve(np.empty((3, 0, 4))), ValueError, "empty along axis 1", "check the file"),
    row("empty list", solve([[]]), ValueError, "empty along axis 1", "check the file"),
    row("0-d", solve(np.float64(3)), ValueError, "0D", "reshape"),
    row("1-d", solve(np.ones(4)), ValueError, "1D", "reshape"),
    row("None", solve(None), ValueError, "object", "np.asarray("),
    row("sparse", solve(scipy.sparse.eye_array(4)), TypeError, "sparse", "Z.toarray()"),
    row("sparse matrix", solve(scipy.sparse.eye(4).tocsr()), TypeError, "sparse", "Z.toarray()"),
    row("all NaN", solve(np.full(SHAPE, np.nan)), ValueError, "every entry", "True means observed"),
    row("all masked", solve(mask=np.zeros(SHAPE, bool)), ValueError, "every entry", "inverted"),
    row(
        "all of a masked array",
        solve(np.ma.masked_all(SHAPE)),
        ValueError,
        "every entry",
        "inverted",
    ),
    row(
        "one slice missing",
        solve(without_slices(2)),
        ValueError,
        "1 of 5",
        "axis 1",
        "np.delete(Z, [2], axis=1)",
    ),
    row(
        "slices missing",
        solve(without_slices(0, 3)),
        ValueError,
        "2 of 5",
        "np.delete(Z, [0, 3], axis=1)",
    ),
    row(
        "slice masked",
        solve(mask=np.arange(6) != 4 * np.ones((4, 5, 1))),
        ValueError,
        "axis 2",
        "np.delete(Z, [4], axis=2)",
    ),
    # mask
    row(
        "mask shape",
        solve(mask=np.ones((4, 5), bool)),
        ValueError,
        "(4, 5)",
        "(4, 5, 6)",
        "np.broadcast_to",
    ),
    row(
        "mask of integers", solve(mask=np.ones(SHAPE, int)), TypeError, "int64", "mask.astype(bool)"
    ),
    row("mask of floats", solve(mask=np.ones(SHAPE)), TypeError, "float64", "mask.astype(bool)"),
    # rank
    row("rank 0", solve(rank=0), ValueError, "rank", "at least 1", "None lets the data choose"),
    row("rank -1", solve(rank=-1), ValueError, "rank", "-1", "None lets the data choose"),
    row("rank 2.5", solve(rank=2.5), TypeError, "rank", "2.5", "whole number or None"),
    row("rank 3.0", solve(rank=3.0), TypeError, "rank", "3.0", "whole number or None"),
    row("rank True", solve(rank=True), TypeError, "rank", "True", "whole number or None"),
    row("rank text", solve(rank="5"), TypeError, "rank", "'5'", "whole number or None"),
    row("rank of a trillion", solve(rank=10**12), ValueError, "GiB", "choose at most rank="),
    # weights
    *(
        row(f"{name} {value!r}", solve(**{name: value}), error, name, shown, cure)
        for name in ("lambda_x", "lambda_s")
        for value, error, shown, cure in (
            (-1, ValueError, "-1", "None chooses it"),
            (0, ValueError, "positive", "None chooses it"),
            (np.nan, ValueError, "nan", "None chooses it"),
            (np.inf, ValueError, "inf", "None chooses it"),
            ("a", TypeError, "'a'", "real number or None"),
            (True, TypeError, "True", "real number or None"),
            (1j, TypeError, "1j", "real number or None"),
        )
    ),
    # when to stop
    row("max_iter 0", solve(max_iter=0), ValueError, "max_iter", "at least 1", "None stands for"),
    row("max_iter 2.5", solve(max_iter=2.5), TypeError, "max_iter", "2.5", "whole number or None"),
    row("tol -1", solve(tol=-1), ValueError, "tol", "-1", "[0, 1)"),
    row("tol 2", solve(tol=2), ValueError, "tol", "2", "[0, 1)"),
    row("tol NaN", solve(tol=np.nan), ValueError, "tol", "nan", "[0, 1)"),
    row("tol text", solve(tol="1e-3"), TypeError, "tol", "'1e-3'", "real number or None"),
    # where to start
    row(
        "init of another shape",
        solve(init=random_factors((4, 6, 5), 2)),
        ValueError,
        "(4, 6, 5)",
        "(4, 5, 6)",
        "one row for each index",
    ),
    row(
        "init of another order",
        solve(init=random_factors((4, 5), 2)),
        ValueError,
        "(4, 5)",
        "(4, 5, 6)",
        "one row for each",
    ),
    row(
        "init of another rank",
        solve(rank=3, init=random_factors(SHAPE, 2)),
        ValueError,
        "2 components",
        "rank=3",
        "leave rank out",
    ),
    row(
        "init with NaN",
        solve(init=[np.full((d, 2), np.nan) for d in SHAPE]),
        ValueError,
        "NaN",
        "finite factors",
    ),
    row(
        "init with infinite weights",
        solve(init=([np.inf], random_factors(SHAPE, 1))),
        ValueError,
        "infinite",
        "finite factors",
    ),
    row(
        "init of uneven rank",
        solve(init=[np.ones((4, 2)), np.ones((5, 3)), np.ones((6, 2))]),
        ValueError,
        "equally many columns",
        "(weights, factors)",
    ),
    row("init as a number", solve(init=3), ValueError, "init", "(weights, factors)"),
    row("init as a word", solve(init="svd"), ValueError, "init", "KruskalTensor"),
    row("init as a tensor", solve(init=Z), ValueError, "init", "factors"),
    # how
    row("unknown solver", solve(solver="adam"), ValueError, "'adam'", "choose one of auto, lbfgs"),
    row("no solver", solve(solver=None), ValueError, "None", "choose one of auto, lbfgs"),
    row(
        "random_state text",
        solve(random_state="abc"),
        TypeError,
        "random_state",
        "abc",
        "non-negative integer",
    ),
    row(
        "random_state -1",
        solve(random_state=-1),
        ValueError,
        "random_state",
        "non-negative integer",
    ),
    # files
    row("load absent", load(absent), ValueError, "absent.npz does not exist", "check the spelling"),
    row("load truncated", load(truncated), ValueError, "result.npz is truncated", "write it again"),
    row("load empty", load(empty), ValueError, "result.npz is truncated", "write it again"),
    row(
        "load other arrays",
        load(other_arrays),
        ValueError,
        "no saved decomposition",
        "Decomposition.save wrote",
    ),
    row(
        "load nonsense inside",
        load(about_nothing),
        ValueError,
        "no saved decomposition",
        "Decomposition.save wrote",
    ),
    row("load a folder", load(a_folder), ValueError, "IsADirectoryError", "again"),
    row("load pickle", load(pickled), ValueError, "pickled", "refused", "save plain numbers"),
    row(
        "load later version",
        load(of_a_later_version),
        ValueError,
        "format 99",
        "update tensor-rpca",
    ),
    row(
        "save into a missing folder",
        save_into_a_missing_folder,
        ValueError,
        "absent does not exist",
        "create it first",
    ),
    row(
        "save over a folder", save_over_a_folder, ValueError, "taken.npz is a folder", "name a file"
    ),
    # Found wanting
    row("ragged", solve([[1, 2], [3]]), ValueError, "equally long"),
    row("load text", load(plain_text), ValueError, "write it again"),
    row("load .npy", load(a_single_array), ValueError, ".npz archive"),
    row("load rotten", load(rotten), ValueError, "write it again"),
    row(
        "load misfits",
        load(with_factors_that_do_not_fit),
        ValueError,
        "result.npz",
        "Decomposition.save wrote",
    ),
    row(
        "init complex",
        solve(init=[a * 1j for a in random_factors(SHAPE, 2)]),
        ValueError,
        "init",
        "complex",
    ),
]


@pytest.mark.parametrize(("call", "error", "words"), TABLE)
def test_bad_input_is_refused_with_the_trouble_and_the_cure(
    call, error, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as caught:
        call(tmp_path)
    message = str(caught.value)
    for word in words:
        assert word in message
    assert len(message) < 400  # a sentence or two, no dump
    assert not (tmp_path / "executed").exists()
    # Files that are left open (see below) are closed here, not amidst an innocent test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del caught
        gc.collect()


@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        empty,
        other_arrays,
        pickled,
        about_nothing,
    ],
)
def test_refused_files_are_closed(damage, tmp_path):
    with pytest.raises(ValueError, match=r"result\.npz") as caught:
        load(damage)(tmp_path)
    names = [pathlib.Path(file.path).name for file in psutil.Process().open_files()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del caught  # its traceback keeps the file alive, and open
        gc.collect()
    assert "result.npz" not in names


def test_the_good_input_beside_the_bad_is_accepted(tmp_path):
    # Or the table would hold for a function that refuses everything.
    mask = np.ones(SHAPE, bool)
    mask[0, 0] = False
    init = KruskalTensor(None, random_factors(SHAPE, 2))
    decompose(
        Z, 2, lambda_x=1, lambda_s=0.5, mask=mask, solver="auto", max_iter=1, tol=0, init=init
    )
    decompose(Z, 2, max_iter=1, random_state=0).save(tmp_path / "good.npz")
    assert Decomposition.load(tmp_path / "good.npz").low_rank.shape == SHAPE


def test_bad_parameters_are_refused_before_the_data_are_read():
    class Untouchable(np.ndarray):
        def __getitem__(self, index):
            raise AssertionError("an entry was read")

    # A typo in a parameter must not cost a pass over a terabyte.
    data = np.ones((3, 4)).view(Untouchable)
    for parameters in (
        {"rank": 0},
        {"lambda_x": -1},
        {"solver": "adam"},
        {"max_iter": 0},
        {"tol": 2},
        {"random_state": "abc"},
        {"init": 3},
        {"mask": np.ones(3, bool)},
    ):
        with pytest.raises((TypeError, ValueError)):
            decompose(data, **parameters)

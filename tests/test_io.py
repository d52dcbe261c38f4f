"""Files of all formats, good and bad; nothing that a file says is ever run."""

from __future__ import annotations

import gc
import io
import json
import pickle
import sys
import warnings
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import h5py
import numcodecs.pickles
import numpy as np
import pytest
import scipy.io
import scipy.sparse
import zarr

from tensor_rpca.files import FileError
from tensor_rpca.io import read_tensor

Z = np.random.default_rng(0).standard_normal((4, 5, 6))
W = np.arange(12.0).reshape(3, 4)


def save_npy(path: Path, array: np.ndarray = Z) -> Path:
    np.save(path, array)
    return path


def save_npz(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **(arrays or {"Z": Z}))
    return path


def save_mat(path: Path, **arrays: object) -> Path:
    scipy.io.savemat(path, arrays or {"Z": Z})
    return path


def save_mat73(path: Path, **arrays: np.ndarray) -> Path:
    """Write what MATLAB's ``save -v7.3`` does: HDF5 behind a MATLAB header, axes reversed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in (arrays or {"Z": Z}).items():
            file[name] = array.T
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM"
    with path.open("r+b") as stream:
        stream.write(header)
    return path


def save_hdf5(path: Path, **arrays: np.ndarray) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in (arrays or {"Z": Z}).items():
            file[name.replace("__", "/")] = array
    return path


def save_zarr(path: Path, **arrays: np.ndarray) -> Path:
    group = zarr.open_group(path, mode="w")
    for name, array in (arrays or {"Z": Z}).items():
        group.create_array(name.replace("__", "/"), data=array)
    return path


def save_zarr_array(path: Path) -> Path:
    zarr.save_array(path, Z)
    return path


def save_zarr_v2(path: Path, chunk: bytes, **metadata: object) -> Path:
    """Write the files of an old Zarr array by hand, with whatever codecs."""
    path.mkdir()
    about = {
        "zarr_format": 2,
        "shape": [3, 4],
        "chunks": [3, 4],
        "dtype": "<f8",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    (path / ".zarray").write_text(json.dumps(about | metadata))
    (path / "0.0").write_bytes(chunk)
    return path


GOOD: dict[str, Callable[[Path], Path]] = {
    "z.npy": save_npy,
    "z.NPY": lambda path: save_npy(path.with_suffix(".npy")).rename(path),
    "fortran.npy": lambda path: save_npy(path, np.asfortranarray(Z)),
    "z.npz": save_npz,
    "z.mat": save_mat,
    "z73.mat": save_mat73,
    "z.h5": save_hdf5,
    "z.hdf5": lambda path: save_hdf5(path, group__deeper__Z=Z),
    "array.zarr": save_zarr_array,
    "group.zarr": save_zarr,
    "nested.zarr": lambda path: save_zarr(path, group__deeper__Z=Z),
    "several.npz": lambda path: save_npz(path, times=np.arange(4.0), rate=np.float64(25), Z=Z),
    "several.h5": lambda path: save_hdf5(path, times=np.arange(4.0), rate=np.float64(25), Z=Z),
}


@pytest.mark.parametrize("name", GOOD)
def test_reads_the_only_tensor_of_a_file(name, tmp_path):
    path = GOOD[name](tmp_path / name)
    for spelling in (path, str(path)):
        found = read_tensor(spelling)
        assert isinstance(found, np.ndarray)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, Z)


@pytest.mark.parametrize("version", ["4", "5"])
def test_reads_matrices_of_old_matlab_versions(version, tmp_path):
    scipy.io.savemat(tmp_path / "w.mat", {"W": W}, format=version)
    np.testing.assert_array_equal(read_tensor(tmp_path / "w.mat"), W)


@pytest.mark.parametrize("dtype", ["f4", "u1", "i2", "?"])
@pytest.mark.parametrize("name", ["z.npy", "z.npz", "z.mat", "z.h5", "z.zarr"])
def test_keeps_values_and_width_of_other_types(name, dtype, tmp_path):
    array = (10 * Z > 5).astype(dtype) if dtype in ("u1", "?") else (10 * Z).astype(dtype)
    writers = {".npy": save_npy, ".npz": save_npz, ".mat": save_mat, ".h5": save_hdf5}
    path = tmp_path / name
    if path.suffix == ".npy":
        save_npy(path, array)
    else:
        writers.get(path.suffix, save_zarr)(path, Z=array)
    found = read_tensor(path)
    assert found.itemsize == array.itemsize
    np.testing.assert_array_equal(found, array)


def test_npy_is_a_read_only_map_and_no_copy(tmp_path):
    path = save_npy(tmp_path / "z.npy")
    found = read_tensor(path)
    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    writable = np.load(path, mmap_mode="r+")
    writable[0, 0, 0] = 123.0
    writable.flush()
    assert found[0, 0, 0] == 123.0


def test_npy_without_entries_is_left_to_decompose_to_refuse(tmp_path):
    assert read_tensor(save_npy(tmp_path / "none.npy", np.zeros((3, 0, 2)))).shape == (3, 0, 2)


# One table of files that hold several tensors, and how each is named.
SEVERAL = {
    "several.npz": (save_npz, {"Z": Z, "W": W}),
    "several.mat": (save_mat, {"Z": Z, "W": W}),
    "several73.mat": (save_mat73, {"Z": Z, "W": W}),
    "several.h5": (save_hdf5, {"clip__Z": Z, "W": W}),
    "several.zarr": (save_zarr, {"clip__Z": Z, "W": W}),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_chooses_by_name_among_several(name, tmp_path):
    write, arrays = SEVERAL[name]
    path = write(tmp_path / name, **arrays)
    for key, array in arrays.items():
        np.testing.assert_array_equal(read_tensor(path, key.replace("__", "/")), array)


@pytest.mark.parametrize("name", SEVERAL)
def test_lists_names_and_shapes_when_several_could_be_meant(name, tmp_path):
    write, arrays = SEVERAL[name]
    path = write(tmp_path / name, **arrays)
    with pytest.raises(FileError, match=r"several arrays.*--array") as caught:
        read_tensor(path)
    text = str(caught.value)
    # MATLAB 7.3 shapes are listed as HDF5 has them; either order tells them apart.
    for key, shape in (("Z", "4 x 5 x 6|6 x 5 x 4"), ("W", "3 x 4|4 x 3")):
        assert any(f"{key} ({s})" in text for s in shape.split("|")), text


@pytest.mark.parametrize("name", ["named.npz", "named.mat", "named.h5", "named.zarr"])
def test_a_name_also_picks_what_would_not_be_guessed(name, tmp_path):
    writers = {".npz": save_npz, ".mat": save_mat, ".h5": save_hdf5, ".zarr": save_zarr}
    path = tmp_path / name
    writers[path.suffix](path, Z=Z, times=np.arange(4.0))
    assert read_tensor(path, "times").size == 4


@pytest.mark.parametrize("write", [save_mat, save_mat73])
def test_a_matlab_scalar_beside_the_tensor_is_no_rival(write, tmp_path):
    path = write(tmp_path / "z.mat", Z=Z, rate=np.array([[25.0]]))
    np.testing.assert_array_equal(read_tensor(path), Z)


def test_hdf5_names_may_be_absolute(tmp_path):
    path = save_hdf5(tmp_path / "z.h5", clip__Z=Z, W=W)
    np.testing.assert_array_equal(read_tensor(path, "/clip/Z"), Z)


def test_other_files_inside_a_zarr_group_are_passed_over_in_silence(tmp_path):
    path = save_zarr(tmp_path / "z.zarr")
    (path / ".DS_Store").write_bytes(b"left by a file browser")
    np.testing.assert_array_equal(read_tensor(path), Z)


def test_the_word_pickle_in_an_attribute_is_harmless(tmp_path):
    path = tmp_path / "z.zarr"
    zarr.create_array(path, data=Z, attributes={"sample": "pickled cucumbers"})
    np.testing.assert_array_equal(read_tensor(path), Z)


def test_npz_may_hold_other_files_too(tmp_path):
    path = save_npz(tmp_path / "z.npz")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("README.txt", "taken on a Tuesday")
    np.testing.assert_array_equal(read_tensor(path), Z)


# --- bad files -----------------------------------------------------------------------------------


def text_file(path: Path) -> Path:
    path.write_text("time,value\n" + "1,2\n" * 200)
    return path


def empty_file(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def cut(path: Path, keep: float) -> Path:
    """Keep the first part of a file, as a broken download does."""
    raw = path.read_bytes()
    path.write_bytes(raw[: int(keep * len(raw))])
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def objects() -> np.ndarray:
    array = np.empty((2, 2), dtype=object)
    array[:] = [[1, "two"], [{}, None]]
    return array


def damaged_zip(path: Path) -> Path:
    """Overwrite compressed data, and leave the archive's own books in order."""
    np.savez_compressed(path, Z=Z)
    raw = bytearray(path.read_bytes())
    raw[200:300] = b"\xff" * 100
    path.write_bytes(raw)
    return path


def damaged_mat(path: Path) -> Path:
    scipy.io.savemat(path, {"Z": Z}, do_compression=True)
    raw = bytearray(path.read_bytes())
    raw[300:400] = b"\xff" * 100
    path.write_bytes(raw)
    return path


def damaged_hdf5(path: Path) -> Path:
    raw = bytearray(save_hdf5(path).read_bytes())
    at = raw.index(b"HEAP")  # where the names of the datasets are kept
    raw[at : at + 4] = b"XXXX"
    path.write_bytes(raw)
    return path


def damaged_zarr(path: Path) -> Path:
    save_zarr_array(path)
    for chunk in (path / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"no chunk")
    return path


def header_only(shape: tuple[int, ...]) -> bytes:
    """Return the start of an .npy file whose entries are still to come."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


def header_garbled(path: Path) -> Path:
    path.write_bytes(header_only((4, 5, 6)).replace(b"}", b" ") + Z.tobytes())
    return path


def npy_larger_than_memory(path: Path) -> Path:
    path.write_bytes(header_only((10**6, 10**6)) + bytes(80))
    return path


def npz_larger_than_memory(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Z.npy", header_only((10**6, 10**6)))
    return path


def hdf5_larger_than_memory(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        # Without chunks written the file stays small.
        file.create_dataset("Z", shape=(10**6, 10**6), dtype="f8", chunks=(100, 100))
    return path


def zarr_larger_than_memory(path: Path) -> Path:
    zarr.create_array(path, shape=(10**6, 10**6), chunks=(1000, 1000), dtype="f8")
    return path


def hdf5_of_strings(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("Z", data=[[b"a", b"bc"]], dtype=h5py.string_dtype())
    return path


def npz_with_encrypted_member(path: Path) -> Path:
    raw = bytearray(save_npz(path).read_bytes())
    raw[6] |= 1
    raw[raw.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    return path


SPOILT = r"truncated or not what its name says.*fetch or write it again"
PICKLED = r"pickled Python objects.*could run code.*save plain numbers"
OBJECTS = r"Python objects.*refused.*save plain numbers"
PICKLE_FILTER = [{"id": "pickle", "protocol": 5}]


def bad(trouble: str, make: Callable[[Path], Path], file: str, match: str, **keywords: object):
    """One row: what is wrong, how to make the file, its name, what the message must say."""
    name = keywords.get("name")
    return pytest.param(make, file, name, match, id=f"{file}: {trouble}")


BAD_FILES = [
    bad("absent", lambda p: p, "z.npy", "does not exist; check the spelling"),
    bad("absent", lambda p: p, "z.zarr", "does not exist; check the spelling"),
    bad("dangling link", lambda p: p.symlink_to("nowhere") or p, "z.h5", "does not exist"),
    bad("folder", folder, "z.npy", "is a folder; name a file in it"),
    bad("folder", folder, "z.mat", "is a folder; name a file in it"),
    bad("empty folder", folder, "z.zarr", SPOILT),
    bad("unknown suffix", text_file, "z.csv", r"'\.csv' is none of \.npy, \.npz, \.mat, \.h5"),
    bad("no suffix", text_file, "z", r"'no suffix' is none of \.npy"),
    bad("empty file", empty_file, "z.npy", SPOILT),
    bad("empty file", empty_file, "z.npz", SPOILT),
    bad("empty file", empty_file, "z.mat", SPOILT),
    bad("empty file", empty_file, "z.h5", SPOILT),
    bad("empty file", empty_file, "z.zarr", SPOILT),
    bad("text", text_file, "z.npy", SPOILT),
    bad("text", text_file, "z.npz", SPOILT),
    bad("text", text_file, "z.mat", SPOILT),
    bad("text", text_file, "z.h5", SPOILT),
    bad("text", text_file, "z.hdf5", SPOILT),
    bad("text", text_file, "z.zarr", SPOILT),
    bad("text for metadata", lambda p: text_file(folder(p) / "zarr.json").parent, "z.zarr", SPOILT),
    bad("cut", lambda p: cut(save_npy(p), 0.9), "z.npy", SPOILT),
    bad("cut in the header", lambda p: cut(save_npy(p), 0.03), "z.npy", SPOILT),
    bad("cut", lambda p: cut(save_npz(p), 0.9), "z.npz", SPOILT),
    bad("cut", lambda p: cut(save_mat(p), 0.9), "z.mat", SPOILT),
    bad("cut", lambda p: cut(save_mat73(p), 0.9), "z73.mat", SPOILT),
    bad("cut", lambda p: cut(save_hdf5(p), 0.9), "z.h5", SPOILT),
    bad("garbled header", header_garbled, "z.npy", SPOILT),
    bad("damaged", damaged_zip, "z.npz", SPOILT),
    bad("damaged", damaged_mat, "z.mat", SPOILT),
    bad("damaged", damaged_hdf5, "z.h5", SPOILT),
    bad("damaged", damaged_zarr, "z.zarr", SPOILT),
    bad("encrypted", npz_with_encrypted_member, "z.npz", SPOILT),
    bad(
        "cut and huge",
        npy_larger_than_memory,
        "z.npy",
        SPOILT,
    ),
    bad("huge", npz_larger_than_memory, "z.npz", r"needs 7,450\.6 GiB.*save it as \.npy"),
    bad("huge", hdf5_larger_than_memory, "z.h5", r"needs 7,450\.6 GiB.*save it as \.npy"),
    bad("huge", zarr_larger_than_memory, "z.zarr", r"needs 7,450\.6 GiB.*save it as \.npy"),
    bad("pickle", lambda p: p.write_bytes(pickle.dumps(W)) and p, "z.npy", PICKLED),
    bad("pickle", lambda p: p.write_bytes(pickle.dumps(W)) and p, "z.npz", PICKLED),
    bad(
        "objects",
        lambda p: save_npy(p, objects()),
        "z.npy",
        OBJECTS,
    ),
    bad("objects", lambda p: save_npz(p, Z=objects()), "z.npz", OBJECTS),
    bad("objects named", lambda p: save_npz(p, Z=Z, O=objects()), "z.npz", OBJECTS, name="O"),
    bad("strings", hdf5_of_strings, "z.h5", OBJECTS),
    bad("cell array", lambda p: save_mat(p, c=objects()[:1]), "z.mat", "no array of two or more"),
    bad("cell named", lambda p: save_mat(p, c=objects()[:1]), "z.mat", "no array named", name="c"),
    bad(
        "sparse matrix",
        lambda p: save_mat(p, s=scipy.sparse.csc_array(W)),
        "z.mat",
        "no array of two or more axes",
    ),
    bad(
        "pickle filter",
        lambda p: save_zarr_v2(p, pickle.dumps(W), filters=PICKLE_FILTER),
        "z.zarr",
        "pickle.*could run code.*store plain numbers|pickled.*save plain numbers",
    ),
    bad(
        "pickle filter behind another",
        lambda p: save_zarr_v2(
            p, pickle.dumps(W), dtype="|O", filters=[{"id": "vlen-utf8"}, *PICKLE_FILTER]
        ),
        "z.zarr",
        "pickle codec.*could run code.*store plain numbers",
    ),
    bad(
        "pickle compressor",
        lambda p: save_zarr_v2(
            p,
            pickle.dumps(W),
            dtype="|O",
            filters=[{"id": "vlen-utf8"}],
            compressor=PICKLE_FILTER[0],
        ),
        "z.zarr",
        "pickle codec.*could run code.*store plain numbers",
    ),
    bad(
        "unknown codec",
        lambda p: save_zarr_v2(p, W.tobytes(), compressor={"id": "unheard-of"}),
        "z.zarr",
        "unheard-of",
    ),
    bad("1-d only", lambda p: save_npz(p, a=W[0], b=W[0, 0]), "z.npz", r"a \(4\), b \(scalar\)"),
    bad("1-d only", lambda p: save_hdf5(p, a=W[0], b=W[0, 0]), "z.h5", r"a \(4\), b \(scalar\)"),
    bad("1-d only", lambda p: save_zarr(p, a=W[0]), "z.zarr", r"no array of two.*a \(4\)"),
    bad("no arrays", lambda p: save_hdf5(p, **{"a": W[0, 0]}), "z.h5", "no array of two or more"),
    bad("wrong name", save_npz, "z.npz", r"no array named 'Y'; it holds Z \(4 x 5", name="Y"),
    bad("wrong name", save_mat, "z.mat", r"no array named 'Y'; it holds Z \(4 x 5", name="Y"),
    bad("wrong name", save_hdf5, "z.h5", r"no array named 'Y'; it holds Z \(4 x 5", name="Y"),
    bad("wrong name", save_zarr, "z.zarr", r"no array named 'Y'; it holds Z \(4 x 5", name="Y"),
    bad("name for one", save_npy, "z.npy", "without a name; leave the name out", name="Z"),
    bad(
        "npz renamed",
        lambda p: save_npz(p.with_suffix(".npz")).rename(p),
        "z.npy",
        r"an \.npz archive by its content; rename it to \.npz",
    ),
    bad(
        "npy renamed",
        lambda p: save_npy(p.with_suffix(".npy")).rename(p),
        "z.npz",
        r"a single array by its content; rename it to \.npy",
    ),
]


@pytest.mark.parametrize(("make", "file", "name", "match"), BAD_FILES)
def test_refuses_a_bad_file_with_trouble_and_cure(make, file, name, match, tmp_path):
    path = make(tmp_path / file)
    with pytest.raises(FileError, match=match) as caught:
        read_tensor(path, name)
    assert isinstance(caught.value, ValueError)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    # What other libraries raised is told in the message; a chain of tracebacks is noise.
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_one_dimensional_npy_is_left_to_decompose_to_refuse(tmp_path):
    from tensor_rpca import decompose

    path = save_npy(tmp_path / "one.npy", W[0])
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        decompose(read_tensor(path))


MADE = {"z.npy": save_npy, "z.npz": save_npz, "z.mat": save_mat, "z73.mat": save_mat73}
MADE |= {"z.h5": save_hdf5}


@pytest.mark.parametrize("name", MADE)
def test_refuses_a_file_cut_anywhere(name, tmp_path):
    whole = MADE[name](tmp_path / name).read_bytes()
    path = tmp_path / f"cut-{name}"
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError, match=SPOILT):
            read_tensor(path)


def test_a_refused_file_is_closed(tmp_path):
    path = cut(save_npz(tmp_path / "z.npz"), 0.9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(FileError):
            read_tensor(path)
        gc.collect()
    assert [str(w.message) for w in caught] == []


@pytest.mark.parametrize(("suffix", "module"), [(".h5", "h5py"), (".zarr", "zarr")])
def test_an_absent_library_is_named_with_the_command_to_install_it(
    suffix, module, tmp_path, monkeypatch
):
    path = {".h5": save_hdf5, ".zarr": save_zarr}[suffix](tmp_path / f"z{suffix}")
    monkeypatch.setitem(sys.modules, module, None)
    extra = {"h5py": "hdf5", "zarr": "zarr"}[module]
    with pytest.raises(FileError, match=rf"need {module}: pip install 'tensor-rpca\[{extra}\]'"):
        read_tensor(path)


# --- nothing in a file is run --------------------------------------------------------------------


class Malicious:
    """Unpickling creates a file."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


def malicious_npy(path: Path, evil: Malicious) -> Path:
    array = np.empty((2, 2), dtype=object)
    array[:] = evil
    np.save(path, array, allow_pickle=True)
    return path


def malicious_npz(path: Path, evil: Malicious) -> Path:
    array = np.empty((2, 2), dtype=object)
    array[:] = evil
    np.savez(path, Z=array)
    return path


def bare_pickle(path: Path, evil: Malicious) -> Path:
    path.write_bytes(pickle.dumps(evil))
    return path


def malicious_zarr(path: Path, evil: Malicious) -> Path:
    # zarr itself refuses a lone pickle filter, but not one behind a codec that it knows.
    filters = [{"id": "vlen-utf8"}, *PICKLE_FILTER]
    return save_zarr_v2(path, pickle.dumps(evil), dtype="|O", filters=filters)


def load_trustingly(path: Path) -> None:
    """Read as someone would who has never heard of pickles."""
    if path.suffix == ".zarr":
        zarr.open(path, mode="r")[...]
    else:
        loaded = np.load(path, allow_pickle=True)
        if isinstance(loaded, np.lib.npyio.NpzFile):
            with loaded:
                loaded["Z"]


@pytest.mark.parametrize("name", [None, "Z", "data"])
@pytest.mark.parametrize(
    ("file", "make"),
    [
        ("z.npy", malicious_npy),
        ("bare.npy", bare_pickle),
        ("z.npz", malicious_npz),
        ("bare.npz", bare_pickle),
        ("z.zarr", malicious_zarr),
    ],
)
def test_never_runs_a_malicious_pickle(file, make, name, tmp_path, monkeypatch):
    # numcodecs' own lock is younger than the oldest version allowed: rely on ours alone.
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    marker = tmp_path / "was-here"
    path = make(tmp_path / file, Malicious(marker))
    with pytest.raises(FileError):
        read_tensor(path, name)
    assert not marker.exists()


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize(
    ("file", "make"),
    [
        ("z.npy", malicious_npy),
        ("bare.npy", bare_pickle),
        ("z.npz", malicious_npz),
        ("z.zarr", malicious_zarr),
    ],
)
def test_the_malicious_files_would_run_elsewhere(file, make, tmp_path, monkeypatch):
    """Or the test above would prove nothing."""
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    marker = tmp_path / "was-here"
    path = make(tmp_path / file, Malicious(marker))
    # An open file is no chunk, which zarr says only once the pickle has run.
    with pytest.raises(TypeError) if path.suffix == ".zarr" else nullcontext():
        load_trustingly(path)
    gc.collect()
    assert marker.exists()

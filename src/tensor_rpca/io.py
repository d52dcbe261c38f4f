"""Tensors from .npy, .npz, .mat, .h5 and .zarr; never a pickle, and no more memory than needed."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from tensor_rpca.files import FileError, numpy_file, refuse_absent, refuse_foreign, unreadable

Array = NDArray[Any]


@dataclass(frozen=True)
class _Candidate:
    """An array that a file holds, and how to get it."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None
    read: Callable[[], Array]


def read_tensor(path: str | Path, name: str | None = None) -> Array:
    """Read a tensor from a file.

    Parameters
    ----------
    path : path
        ``.npy`` is mapped into memory and read as needed; ``.npz``, ``.mat`` (all versions),
        ``.h5`` / ``.hdf5`` (with h5py) and ``.zarr`` (with zarr) are read whole.
    name : str, optional
        Which array, if the file holds several.

    Returns
    -------
    ndarray

    Raises
    ------
    FileError
        A ValueError that names the trouble and the cure.
    """
    source = Path(path)
    reader = _READERS.get(source.suffix.lower())
    if reader is None:
        known = ", ".join(_READERS)
        raise FileError(f"{path}: {source.suffix or 'no suffix'!r} is none of {known}")
    refuse_absent(source)
    if source.is_dir() != (source.suffix.lower() == ".zarr") and source.is_dir():
        raise FileError(f"{path} is a folder; name a file in it")
    try:
        return reader(source, name)
    except FileError:
        raise
    except Exception as error:  # damaged bytes raise whatever they happen to hit
        raise unreadable(source, error) from None


def _read_npy(path: Path, name: str | None) -> Array:
    if name is not None:
        raise FileError(f"{path} holds a single array without a name; leave the name out")
    with open(path, "rb") as stream:
        start = stream.read(6)
    refuse_foreign(path, start)
    if start.startswith(b"PK"):
        raise FileError(f"{path} is an .npz archive by its content; rename it to .npz")
    mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def _read_npz(path: Path, name: str | None) -> Array:
    with numpy_file(path) as archive:
        if isinstance(archive, np.ndarray):
            raise FileError(f"{path} is a single array by its content; rename it to .npy")
        candidates = []
        held = set(archive.zip.namelist())
        for member in (m for m in archive.files if f"{m}.npy" in held):
            shape, dtype = _npz_header(archive.zip, member)
            candidates.append(
                _Candidate(member, shape, dtype, partial(archive.__getitem__, member))
            )
        return _choose(path, candidates, name)


def _npz_header(archive: zipfile.ZipFile, member: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of a member, without reading its data."""
    with archive.open(f"{member}.npy") as stream:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(stream)
    return shape, dtype


def _read_mat(path: Path, name: str | None) -> Array:
    import scipy.io

    numeric = {"double", "single", "logical"} | {
        f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)
    }
    try:
        contents = scipy.io.whosmat(path)
    except NotImplementedError:  # MATLAB 7.3 files are HDF5
        # MATLAB's first axis runs fastest; HDF5 lists axes the other way round.
        return _read_hdf5(path, name).transpose()

    def reader(variable: str) -> Callable[[], Array]:
        return lambda: scipy.io.loadmat(path, variable_names=[variable])[variable]

    candidates = [
        _Candidate(variable, shape, None, reader(variable))
        for variable, shape, kind in contents
        if kind in numeric
    ]
    return _choose(path, candidates, name)


def _read_hdf5(path: Path, name: str | None) -> Array:
    try:
        import h5py
    except ImportError:
        raise FileError(f"{path}: HDF5 files need h5py: pip install 'tensor-rpca[hdf5]'") from None

    candidates: list[_Candidate] = []
    with h5py.File(path, "r") as file:

        def note(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                candidates.append(_Candidate(name, item.shape or (), item.dtype, lambda: item[()]))

        file.visititems(note)
        return _choose(path, candidates, name and name.strip("/"))


def _read_zarr(path: Path, name: str | None) -> Array:
    try:
        import zarr
    except ImportError:
        raise FileError(
            f"{path}: Zarr folders need zarr: pip install 'tensor-rpca[zarr]'"
        ) from None

    opened = zarr.open(path, mode="r")
    if isinstance(opened, zarr.Array):
        members = [(opened.basename or "data", opened)]
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that are not Zarr's own
            found = opened.members(max_depth=None)
        members = [(key, item) for key, item in found if isinstance(item, zarr.Array)]
    candidates = []
    for member, array in members:
        # A codec of this name unpickles while it decodes, whatever the array's dtype.
        stored = {k: v for k, v in array.metadata.to_dict().items() if k != "attributes"}
        if "pickle" in str(stored).lower():
            raise FileError(
                f"{path} is stored with a pickle codec, which could run code and is refused; "
                "store plain numbers instead"
            )
        candidates.append(_Candidate(member, array.shape, array.dtype, partial(np.asarray, array)))
    return _choose(path, candidates, name)


_READERS: dict[str, Callable[[Path, str | None], Array]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".mat": _read_mat,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
    ".zarr": _read_zarr,
}


def _choose(path: Path, candidates: list[_Candidate], name: str | None) -> Array:
    """Read the array that was asked for, or the only one that can be meant."""
    listing = ", ".join(
        f"{c.name} ({' x '.join(map(str, c.shape)) or 'scalar'})" for c in candidates
    )
    if name is not None:
        chosen = [c for c in candidates if c.name == name]
        if not chosen:
            raise FileError(f"{path} holds no array named {name!r}; it holds {listing or 'none'}")
    else:
        chosen = [c for c in candidates if len(c.shape) >= 2]
        if not chosen:
            raise FileError(
                f"{path} holds no array of two or more axes; it holds {listing or 'none'}"
            )
        # MATLAB's scalars have two axes.
        chosen = [c for c in chosen if math.prod(c.shape) != 1] or chosen
        if len(chosen) > 1:
            raise FileError(
                f"{path} holds several arrays: {listing}; say which one is meant, "
                f"on the command line with --array {chosen[0].name}"
            )
    one = chosen[0]
    if one.dtype is not None and one.dtype.kind == "O":
        raise FileError(
            f"{path}: array {one.name!r} holds Python objects, which are refused; "
            "save plain numbers instead"
        )
    size = int(np.prod(one.shape, dtype=np.float64)) * (one.dtype.itemsize if one.dtype else 8)
    available = int(psutil.virtual_memory().available)
    if size > available:
        raise FileError(
            f"{path}: array {one.name!r} needs {size / 2**30:,.1f} GiB and "
            f"{available / 2**30:,.1f} GiB are available; save it as .npy, which is read a part "
            "at a time"
        )
    return one.read()

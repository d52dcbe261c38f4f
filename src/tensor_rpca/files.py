"""Files written whole or not at all, and read without ever running what is in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class FileError(ValueError):
    """A file that cannot be read or written, with the reason and the cure."""


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``target``, renamed to it only if all goes well."""
    target = Path(target)
    refuse_unwritable(target)
    handle, name = tempfile.mkstemp(
        prefix=f".{target.stem}.", suffix=".part" + target.suffix, dir=target.parent
    )
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp's files are private, the result need not be
        try:
            temporary.replace(target)
        except OSError as error:
            raise FileError(f"cannot write {target}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def refuse_unwritable(target: Path) -> None:
    """Raise now if :func:`written_whole` would fail later; leaves nothing behind."""
    if target.is_dir():
        raise FileError(f"{target} is a folder; name a file")
    if not target.parent.is_dir():
        raise FileError(f"the folder {target.parent} does not exist; create it first")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise FileError(f"cannot write into {target.parent}: {error.strerror}") from None


@contextmanager
def numpy_file(path: Path) -> Iterator[Any]:
    """What np.load makes of a file, closed afterwards; failures become a FileError."""
    refuse_absent(path)
    try:
        # Opened here, because np.load leaves files open that turn out to be damaged.
        with open(path, "rb") as stream:
            refuse_foreign(path, stream.read(6))
            stream.seek(0)
            yield np.load(stream, allow_pickle=False)
    except FileError:
        raise
    except Exception as error:  # damaged bytes raise whatever they happen to hit
        raise unreadable(path, error) from None


def refuse_foreign(path: Path, start: bytes) -> None:
    """Raise unless a file's first bytes are NumPy's (or a pickle's, which NumPy refuses)."""
    if not start.startswith((b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06", b"\x80")):
        raise FileError(
            f"{path} is truncated or not what its name says (it does not begin like a NumPy file); "
            "fetch or write it again"
        )


def open_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz file; pickled ones are refused."""
    with numpy_file(path) as archive:
        if isinstance(archive, np.ndarray):
            raise FileError(f"{path} is a single array, not an .npz archive; rename it to .npy")
        return {name: archive[name] for name in archive.files}


def refuse_absent(path: Path) -> None:
    """Raise if there is no such file, or no permission to read it."""
    if not path.exists():
        raise FileError(f"{path} does not exist; check the spelling and the folder")
    if not os.access(path, os.R_OK):
        raise FileError(f"{path} cannot be read: permission denied")


def unreadable(path: Path, error: Exception) -> FileError:
    """Say what is the matter with a file in its reader's terms."""
    if any(word in str(error) for word in ("pickle", "Pickle", "Python objects")):
        return FileError(
            f"{path} contains pickled Python objects, which could run code and are refused; "
            "save plain numbers instead: np.save(path, np.asarray(Z, dtype=float))"
        )
    return FileError(
        f"{path} is truncated or not what its name says ({type(error).__name__}: {error}); "
        "fetch or write it again"
    )

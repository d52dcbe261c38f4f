"""Finished cells of a long experiment on disk, one line of JSON each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tensor_rpca.files import FileError


class CellStore:
    """Append-only; a run that is killed loses what it was computing and nothing else.

    Parameters
    ----------
    path : Path
        Of a .jsonl file, made when the first cell is finished.
    key : tuple of str
        Names of the entries that tell cells apart.
    """

    def __init__(self, path: Path, key: tuple[str, ...]):
        self._path = path
        self._key = key
        self._cells: dict[tuple[Any, ...], dict[str, Any]] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        content = self._path.read_bytes()
        whole, _, torn = content.rpartition(b"\n")
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                cell = json.loads(line)
                self._cells[tuple(cell[name] for name in self._key)] = cell
            except (ValueError, KeyError, TypeError):
                raise FileError(
                    f"line {number} of {self._path} is damaged; delete that line or the file, and "
                    "its cells are computed again"
                ) from None
        if torn:  # the last run was killed while it wrote
            with open(self._path, "r+b") as stream:
                stream.truncate(len(content) - len(torn))

    def __len__(self) -> int:
        return len(self._cells)

    def get(self, *key: Any) -> dict[str, Any] | None:
        """Return a finished cell, None if it is not there."""
        return self._cells.get(key)

    def add(self, cell: dict[str, Any]) -> None:
        """Keep a cell; it is on disk when this returns."""
        with open(self._path, "ab") as stream:
            stream.write(json.dumps(cell, separators=(",", ":")).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        self._cells[tuple(cell[name] for name in self._key)] = cell

"""Logits and labels from files: .npy, .npz, .csv, .parquet and .safetensors."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightset._foreign_arrays import from_arrow_lists
from tightset.cli.input_files import check_is_file
from tightset.cli.optional import optional_package
from tightset.cli.standard_streams import STANDARD

MAPPED_FROM = 64 * 2**20
"""Size in bytes from which .npy files are mapped into memory instead of read."""

_LABEL_COLUMNS = ("label", "labels", "y", "target")
_SUFFIXES = (".npy", ".npz", ".csv", ".parquet", ".safetensors")


class Data(NamedTuple):
    """Logits, and labels where they were asked for."""

    logits: NDArray[Any]
    labels: NDArray[Any]


def read_data(logits: str, labels: str | None) -> Data:
    """Return logits and labels from two files, or from one that holds both.

    ``-`` is standard input, and ``FILE:NAME`` an array of a file with several.
    """
    found = _read(logits)
    if labels is None:
        if not isinstance(found, Mapping):
            message = f"LABELS must be given: {logits} holds one array"
            raise ValueError(message)
        return Data(_pick(found, logits, "logits"), _whole(_pick(found, logits, "labels")))
    return Data(_only(found, logits, "logits"), _whole(_only(_read(labels), labels, "labels")))


def read_logits(path: str) -> NDArray[Any]:
    """Return the logits of a file; labels that it also holds are left aside."""
    return _only(_read(path), path, "logits")


def read_groups(path: str | None) -> NDArray[Any] | None:
    """Return the groups of a file, integers or strings; None without one."""
    return None if path is None else _whole(_only(_read(path), path, "groups"))


def _only(found: NDArray[Any] | Mapping[str, NDArray[Any]], path: str, name: str) -> NDArray[Any]:
    return _pick(found, path, name) if isinstance(found, Mapping) else found


def _pick(found: Mapping[str, NDArray[Any]], path: str, name: str) -> NDArray[Any]:
    if name in found:
        return found[name]
    if len(found) == 1:
        return next(iter(found.values()))
    names = ", ".join(found) or "nothing"
    message = f"{path} has no array {name!r} but {names}; say which with {path}:NAME"
    raise ValueError(message)


def _whole(labels: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as integers and one column as a vector: text knows neither.

    Others stay as they are, and are refused by `calibrate`.
    """
    flat = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if flat.dtype.kind == "f" and np.isfinite(flat).all() and (flat == np.floor(flat)).all():
        return flat.astype(np.int64)
    return flat


def _read(path: str) -> NDArray[Any] | Mapping[str, NDArray[Any]]:
    if path == STANDARD:
        return _from_bytes(sys.stdin.buffer.read())
    file, name = _named(path)
    check_is_file(file)
    suffix = file.suffix.lower()
    try:
        found = _from_file(file, suffix)
    except (ValueError, KeyError, OSError, EOFError) as error:
        message = f"{file} cannot be read as {suffix}: {error}"
        raise ValueError(message) from error
    if name is None:
        return found
    if not isinstance(found, Mapping) or name not in found:
        names = ", ".join(found) if isinstance(found, Mapping) else "one array without a name"
        message = f"{file} has no array {name!r}, it has {names}"
        raise ValueError(message)
    return found[name]


def _named(path: str) -> tuple[Path, str | None]:
    """Part ``FILE:NAME``."""
    file, colon, name = path.rpartition(":")
    if colon and Path(file).suffix.lower() in _SUFFIXES and not Path(path).exists():
        return Path(file), name
    return Path(path), None


def _from_file(file: Path, suffix: str) -> NDArray[Any] | Mapping[str, NDArray[Any]]:
    if suffix == ".npy":
        is_large = file.stat().st_size >= MAPPED_FROM
        array: NDArray[Any] = np.load(file, mmap_mode="r" if is_large else None, allow_pickle=False)
        return array
    if suffix == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    if suffix == ".csv":
        return _from_csv(file.read_text(encoding="utf-8-sig"))
    if suffix == ".parquet":
        return _from_parquet(file)
    if suffix == ".safetensors":
        return _from_safetensors(file)
    message = f"the file must end in one of {', '.join(_SUFFIXES)}"
    raise ValueError(message)


def _from_bytes(content: bytes) -> NDArray[Any] | Mapping[str, NDArray[Any]]:
    """Read what came through a pipe, which has no name: its first bytes tell what it is."""
    try:
        if content.startswith(b"\x93NUMPY"):
            array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
            return array
        if content.startswith(b"PK"):
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                return dict(arrays)
        if content.startswith(b"PAR1"):
            return _from_parquet(io.BytesIO(content))
        return _from_csv(content.decode("utf-8-sig"))
    except (ValueError, EOFError) as error:
        message = f"standard input is neither .npy, .npz, .parquet nor .csv: {error}"
        raise ValueError(message) from error


def _from_csv(text: str) -> NDArray[Any] | Mapping[str, NDArray[Any]]:
    lines = text.splitlines()
    if not lines:
        message = "it is empty"
        raise ValueError(message)
    first = next(csv.reader(lines[:1]))
    header = None if all(_is_number(cell) for cell in first) else [cell.strip() for cell in first]
    table = np.loadtxt(lines[header is not None :], delimiter=",", ndmin=2, quotechar='"')
    if header is None:
        return table
    if len(header) != table.shape[1]:
        message = f"it has {len(header)} names over {table.shape[1]} columns"
        raise ValueError(message)
    return _columns({name: table[:, i] for i, name in enumerate(header)})


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _columns(columns: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """Part a table into logits and labels: the label column by its name, all others are logits."""
    label = next((name for name in columns if name.lower() in _LABEL_COLUMNS), None)
    rest = [column for name, column in columns.items() if name != label]
    found = {}
    if rest:
        found["logits"] = np.column_stack(rest)
    if label is not None:
        found["labels"] = columns[label]
    return found


def _from_parquet(source: Path | io.BytesIO) -> Mapping[str, NDArray[Any]]:
    """Read columns of numbers, or one column of lists of equal length.

    On this thread alone. pyarrow's own threads hold on to an object of Python, such as bytes that came
    through a pipe, for a moment after they have read it; a process that ended in this moment was aborted.
    """
    parquet = optional_package("pyarrow.parquet", ".parquet files", "files")
    with parquet.ParquetFile(source, pre_buffer=False) as file:
        table = file.read(use_threads=False)
    columns: dict[str, NDArray[Any]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            message = f"column {name!r} has {column.null_count} missing values"
            raise ValueError(message)
        values = column.combine_chunks()
        if hasattr(values, "flatten") and hasattr(values.type, "value_type"):
            columns[name] = from_arrow_lists(values, f"column {name!r}")
        else:
            columns[name] = values.to_numpy(zero_copy_only=False)
    return _columns(columns)


def _from_safetensors(file: Path) -> Mapping[str, NDArray[Any]]:
    package = optional_package("safetensors", ".safetensors files", "files")
    try:
        with package.safe_open(file, framework="numpy") as tensors:
            return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118
    except (package.SafetensorError, TypeError, AttributeError) as error:
        message = f"{error}; bfloat16 needs ml_dtypes"
        raise ValueError(message) from error

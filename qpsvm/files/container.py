"""The container of result files: an npz of plain arrays with a JSON header, without pickle.

A file is a zip archive of .npy members that are stored uncompressed, so that no member is larger than
the file itself. One of them, `header`, is JSON in UTF-8. It lists name, dtype, shape and SHA-256 of every
other member, and the SHA-256 of itself without that entry. The digests find damage; an editor of a file
can recompute them on purpose, which is why `verify` recomputes the bounds.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_points

FORMAT_NAME = "qpsvm-result"
"""What a header says in its entry `format`."""

FORMAT_VERSION = 1
"""Version of the format that is written, and the latest that is read."""

DTYPES_ALLOWED = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64".split()
"""Types of numbers that a member may have, besides text."""

MALFORMED_ERRORS = (
    AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError,
    ZeroDivisionError,
)  # fmt: skip
"""What content that is not of the format raises where it is used; `LinAlgError` is a ValueError."""

MAX_MEMBERS = 100_000
"""Members of an archive; more are refused before they are listed."""

ROWS_PER_HASH = 4096
"""Rows of points that are converted at a time before they are hashed."""


def write_archive(path: Any, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write a file by a temporary one beside it, which then takes its place in one step.

    A process that is killed while it writes leaves the old file as it was.
    """
    target = Path(path)
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    header = {
        "format": FORMAT_NAME,
        "format_version": FORMAT_VERSION,
        **header,
        "arrays": {name: _entry(array) for name, array in arrays.items()},
    }
    header["digest"] = digest_of(header)
    text = np.frombuffer(json_text(header).encode(), dtype=np.uint8)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            # numpy.savez takes `allow_pickle` from version 2.2 on, and stores it as an array before.
            with zipfile.ZipFile(file, "w") as archive:
                for name, array in {"header": text, **arrays}.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        npy.write_array(member, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        _keep_mode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _keep_mode(target: Path, temporary: str) -> None:
    """Give the temporary file the permissions of the old file, or those of any new one."""
    if target.exists():
        mode = target.stat().st_mode & 0o777
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    os.chmod(temporary, mode)


def read_archive(path: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file, all digests checked.

    Raises
    ------
    InputError
        If the file is damaged or is no result file.
    OSError
        If it cannot be opened.
    """
    content = Path(path).read_bytes()
    try:
        return _parsed(content)
    except InputError as problem:
        raise InputError(f"path must name a result file of qpsvm; {path} {problem}") from None
    except Exception as problem:  # whatever zipfile, json and numpy say of bytes that are damaged
        raise InputError(
            f"path must name a result file of qpsvm; {path} is damaged or none: "
            f"{type(problem).__name__}: {problem}"
        ) from None


def _parsed(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if len(members) > MAX_MEMBERS or sum(m.file_size for m in members) > len(content):
            raise InputError("has members that are larger than the file")
        if any(m.compress_type != zipfile.ZIP_STORED for m in members):
            raise InputError("has compressed members, which result files do not have")
        names = [m.filename.removesuffix(".npy") for m in members]
        if len(set(names)) < len(names):
            raise InputError("has two members of one name")
        if "header" not in names:
            raise InputError("has no header")
        arrays = {
            name: _array(name, archive.read(m)) for name, m in zip(names, members, strict=True)
        }
    text = arrays.pop("header")
    if text.dtype != np.uint8 or text.ndim != 1:
        raise InputError("has a header that is no text")
    header = json.loads(text.tobytes().decode(), parse_constant=_no_constant)
    if not isinstance(header, dict) or header.get("format") != FORMAT_NAME:
        raise InputError("has the header of another format")
    version = header.get("format_version")
    if not isinstance(version, int) or not 1 <= version <= FORMAT_VERSION:
        raise InputError(
            f"has version {version!r} of the format; this release reads up to {FORMAT_VERSION}"
        )
    if header.get("digest") != digest_of(header):
        raise InputError("has a header that does not match its digest")
    if header.get("arrays") != {name: _entry(array) for name, array in arrays.items()}:
        raise InputError("has arrays that do not match the digests of the header")
    return header, arrays


def _no_constant(name: str) -> Any:
    raise InputError(f"has {name} in its header, which JSON does not have")


def _array(name: str, content: bytes) -> NDArray[Any]:
    """Return the array of a member; its type and size are checked before memory is allocated."""
    file = io.BytesIO(content)
    version = npy.read_magic(file)
    read: Any = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
    shape, _, dtype = read(file)
    if dtype.kind != "U" and dtype.name not in DTYPES_ALLOWED:
        raise InputError(f"has a member {name} of type {dtype}; numbers and text are allowed")
    size = dtype.itemsize * math.prod(shape)
    if min(shape, default=0) < 0 or size != len(content) - file.tell():
        raise InputError(f"has a member {name} whose length does not match its shape")
    file.seek(0)
    return np.asarray(npy.read_array(file, allow_pickle=False))


def _entry(array: NDArray[Any]) -> dict[str, Any]:
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
    }


def json_text(value: Any) -> str:
    """Return JSON by which equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(header: dict[str, Any]) -> str:
    """Return the SHA-256 of a header without its entry `digest`."""
    rest = {name: value for name, value in header.items() if name != "digest"}
    return hashlib.sha256(json_text(rest).encode()).hexdigest()


def hash_points(X: Any) -> dict[str, Any]:
    """Return form, shape and SHA-256 of points: of their values in float64, row by row.

    Sparse points are hashed as CSR with ascending columns, without stored zeros: row pointers and columns
    in int64, then values. An array of float32 has the hash of the same numbers in float64.

    Raises
    ------
    InputError
        If X holds no finite real numbers.
    """
    X = check_points("X", X)
    digest = hashlib.sha256()
    if sp.issparse(X):
        X = sp.csr_matrix(X, copy=True)
        X.eliminate_zeros()
        for part in (X.indptr, X.indices):
            digest.update(part.astype("<i8").tobytes())
        digest.update((X.data + 0.0).astype("<f8").tobytes())
    else:
        for at in range(0, len(X), ROWS_PER_HASH):
            rows = np.asarray(X[at : at + ROWS_PER_HASH], dtype="<f8") + 0.0  # -0.0 is 0.0
            digest.update(np.ascontiguousarray(rows).tobytes())
    form = "csr" if sp.issparse(X) else "dense"
    return {"form": form, "shape": list(X.shape), "sha256": digest.hexdigest()}


def hash_values(values: Any) -> dict[str, Any]:
    """Return length and SHA-256 of labels or values: of numbers in float64, of other labels as text."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"y must have shape (m,); got {array.shape}")
    if array.dtype.kind in "biuf":
        content = (array.astype("<f8") + 0.0).tobytes()
    else:
        content = json_text([str(value) for value in array.tolist()]).encode()
    return {"length": len(array), "sha256": hashlib.sha256(content).hexdigest()}

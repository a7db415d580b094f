"""One file per model: tensors and JSON in the safetensors format, replaced as a whole or not at all.

A file is eight bytes of header length, a JSON header, and the bytes of the tensors. The header's
`__metadata__` holds a `digest` over the whole file (with the digest itself blanked out), `format`,
`version` and the model's own `json`. Equal models give equal files. Nothing in a file can execute, and
what a file claims about its own size is checked before memory is spent on it.
"""

import json
import os
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from fpi import _files
from fpi.errors import InputError, ModelFileError, SaveError

FORMAT = "fpi"
VERSION = 1
MAX_HEADER_BYTES = 16 * 2**20
MAX_FILE_BYTES = 4 * 2**30

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_BLANK_DIGEST = "0" * 64


def write(
    path: str | os.PathLike[str], tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, object], follow: bool = True
) -> None:
    """Write tensors and JSON to `path`; the file there before stays whole until the new one is complete.

    A link stays a link, and what it leads to is replaced; without `follow` the link is.
    """
    path = _files.resolved(_files.as_path(path)) if follow else Path(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise SaveError(f"Could not save to {path}: it is not an ordinary file. Choose another name.")
    chunks = _encode(tensors, meta)
    if len(chunks[0]) > 8 + MAX_HEADER_BYTES or sum(map(len, chunks)) > MAX_FILE_BYTES:
        raise SaveError(
            f"Could not save to {path}: the model is larger than load accepts ({MAX_FILE_BYTES:,} bytes, "
            f"{MAX_HEADER_BYTES:,} of them header). Nothing was written; save a smaller model."
        )
    with _files.replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(chunks)


def read(path: str | os.PathLike[str], follow: bool = True) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read back what `write` wrote; any other content is a ModelFileError that says what is wrong.

    So is a symbolic link, unless it is to be followed.
    """
    path = _files.as_path(path)
    data = _bytes_of(path, follow)
    prefix, header = data[:8], data[8 : 8 + _header_length(path, data)]
    try:
        entries = deserialize(data)  # type: ignore[no-untyped-call]
        metadata: dict[str, str] = json.loads(header).get("__metadata__") or {}
    except (SafetensorError, ValueError) as error:
        raise _damaged(path, error) from error
    if metadata.get("format") != FORMAT:
        raise ModelFileError(
            f"{path} is a safetensors file, but not one that fpi wrote. Pass a file that an agent saved."
        )
    try:
        version, digest, text = int(metadata["version"]), metadata["digest"], metadata["json"]
    except (KeyError, ValueError) as error:
        raise _damaged(path, f"its metadata are not those of a model, {error!r}") from error
    if version > VERSION:
        raise ModelFileError(
            f"{path} was written by a newer fpi: the file has version {version}, this fpi reads up to "
            f"{VERSION}. Upgrade fpi, or save the model again with the older one."
        )
    blanked = header.replace(digest.encode(), _BLANK_DIGEST.encode(), 1)
    if digest != _digest([prefix, blanked, memoryview(data)[8 + len(header) :]]):
        raise _damaged(path, "its content does not match its digest")
    try:
        tensors = {
            name: np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in entries
        }
        meta = json.loads(text)
    except (KeyError, ValueError, RecursionError) as error:
        raise _damaged(path, f"it holds what fpi never writes, {error!r}") from error
    if not isinstance(meta, dict):
        raise _damaged(path, f"its JSON is a {type(meta).__name__}, not an object")
    return tensors, meta


def _encode(tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, object]) -> list[bytes | memoryview]:
    """The file in pieces: length and header first, then each tensor's bytes."""
    metadata = {
        "digest": _BLANK_DIGEST,
        "format": FORMAT,
        "version": str(VERSION),
        "json": json.dumps(dict(meta), sort_keys=True),
    }
    header: dict[str, object] = {"__metadata__": metadata}
    body: list[bytes | memoryview] = []
    end = 0
    # Widest items first: then every tensor is aligned for readers that map the file into memory.
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])):
        if name in header:
            raise InputError(f"A tensor cannot be called {name!r}: the format keeps that name. Choose another.")
        dtype = tensor.dtype.newbyteorder("<")
        if dtype not in _CODES:
            raise InputError(
                f"Tensor {name!r} has dtype {tensor.dtype}, which a model file cannot hold. "
                f"Convert it to one of {', '.join(map(str, _CODES))}."
            )
        raw = np.ascontiguousarray(tensor, dtype).reshape(-1).view(np.uint8).data
        start, end = end, end + len(raw)
        header[name] = {"dtype": _CODES[dtype], "shape": tensor.shape, "data_offsets": [start, end]}
        body.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    # The first run of zeros of that length is the digest's place: nothing but the length precedes it.
    return [head.replace(_BLANK_DIGEST.encode(), _digest([head, *body]).encode(), 1), *body]


def _digest(chunks: Iterable[bytes | memoryview]) -> str:
    digest = blake2b(digest_size=len(_BLANK_DIGEST) // 2)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def _bytes_of(path: Path, follow: bool) -> bytes:
    if os.path.exists(path) and not os.path.isfile(path):
        raise ModelFileError(f"{path} is a folder or a device. Pass a file that an agent saved.")
    try:
        return _files.read_bytes(_files.resolved(path) if follow else path, MAX_FILE_BYTES)
    except OSError as error:
        raise ModelFileError(f"Could not read {path}: {error.strerror}. Check the path.") from error


def _header_length(path: Path, data: bytes) -> int:
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER_BYTES:
        raise ModelFileError(
            f"{path} is not a model file: its first bytes announce a header of {length:,} bytes, but "
            f"none has more than {MAX_HEADER_BYTES:,}. Check the path, or restore the file from a copy."
        )
    if 8 + length > len(data):
        raise ModelFileError(
            f"{path} is cut short: it has {len(data):,} bytes, its header alone needs {8 + length:,}. "
            "Restore it from a copy, or train and save again."
        )
    return length


def _damaged(path: Path, reason: object) -> ModelFileError:
    return ModelFileError(f"{path} is damaged or cut short: {reason}. Restore it from a copy, or train and save again.")

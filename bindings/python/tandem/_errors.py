"""What tandem raises for errors of the library. Wrong types are TypeError, as everywhere in Python."""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """Any error of the library; ``code`` is its name, the same in all of tandem's languages."""

    code: ClassVar[str] = "internal"


class InvalidArgumentError(Error, ValueError):
    """Something was asked for that makes no sense."""

    code = "invalid_argument"


class NotFoundError(Error, FileNotFoundError):
    """A file, tensor, method or token that should be there is not."""

    code = "not_found"


class UnsupportedError(Error):
    """Well-formed, but nothing here can do it."""

    code = "unsupported"


class CorruptError(Error):
    """A file is truncated or damaged."""

    code = "corrupt"


class IoError(Error, OSError):
    """The operating system refused to read, write, map or rename."""

    code = "io"


class ResourceExhaustedError(Error, MemoryError):
    """Memory, positions of the context, or another limit is used up."""

    code = "resource_exhausted"


class CancelledError(Error):
    """The call was told to stop. Generations end with the finish reason "cancelled" instead."""

    code = "cancelled"


class InternalError(Error):
    """A bug in tandem."""

    code = "internal"


BY_CODE: dict[str, type[Error]] = {
    error.code: error
    for error in (
        InvalidArgumentError,
        NotFoundError,
        UnsupportedError,
        CorruptError,
        IoError,
        ResourceExhaustedError,
        CancelledError,
        InternalError,
    )
}

"""Where a model is, and the options of loading it: what Engine and probe() have in common."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Protocol, Union

from . import _arguments as arg
from . import _log, _native
from ._errors import InvalidArgumentError

if TYPE_CHECKING:

    class HasFileno(Protocol):
        def fileno(self) -> int: ...

    ModelFile = Union[arg.PathType, int, HasFileno]

Verify = Literal["first_use", "load", "never"]
_VERIFY = {"first_use": 0, "load": 1, "never": 2}  # VerifyWeights


def load_options(
    threads: object, verify: object, backend: object, run_on: object, decode_on: object
) -> tuple[int, int, int, Mapping[str, str], str, str]:
    """As the native functions take them."""
    count = arg.integer("threads", threads, 0, arg.INT32_MAX)
    if not isinstance(verify, str):
        raise TypeError(f"verify must be str, not {type(verify).__name__}")
    if verify not in _VERIFY:
        raise InvalidArgumentError(f"verify is {verify!r}; give one of {', '.join(_VERIFY)}")
    return (
        count,
        _VERIFY[verify],
        _log.native_level(),
        arg.options("backend", backend),
        "" if run_on is None else arg.text("run_on", run_on),
        "" if decode_on is None else arg.text("decode_on", decode_on),
    )


@contextlib.contextmanager
def located(file: object, offset: object, length: object) -> Iterator[Union[bytes, _native.FileRegion]]:
    """The path of a whole file, or an open part of one."""
    begin = arg.integer("offset", offset, 0, arg.INT64_MAX)
    size = -1 if length is None else arg.integer("length", length, 0, arg.INT64_MAX)
    try:
        if not isinstance(file, (str, bytes, os.PathLike)):
            yield _native.FileRegion(_descriptor(file), begin, size)
        elif begin == 0 and size == -1:
            yield arg.path("file", file)
        else:
            with open(os.fsdecode(arg.path("file", file)), "rb") as opened:
                yield _native.FileRegion(opened.fileno(), begin, size)
    finally:
        _log.flush()


def _descriptor(file: object) -> int:
    fileno = getattr(file, "fileno", None)
    if callable(fileno):
        file = fileno()
    if isinstance(file, bool) or not isinstance(file, int):
        raise TypeError(f"file must be a path, an open file or a descriptor, not {type(file).__name__}")
    return arg.integer("file", file, 0, arg.INT32_MAX)

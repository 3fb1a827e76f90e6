"""tandem turns a Hugging Face decoder checkpoint into one file and runs that file in your process.

    import tandem

    tandem.compile("models/demo", "demo.tdm")
    with tandem.Engine("demo.tdm") as engine, engine.session() as session:
        for piece in session.chat("Tell me a story."):
            print(piece, end="", flush=True)
"""

import atexit as _atexit

from . import _errors, _native

_native.register_errors(_errors.BY_CODE)
# Before the interpreter ends: a thread of Python's that comes back to it later would be killed inside the library.
_atexit.register(_native.shut_down)

from ._compile import Calibration, CompiledModel, CompiledProgram, compile  # noqa: E402
from ._engine import Engine  # noqa: E402
from ._errors import (  # noqa: E402
    CancelledError,
    CorruptError,
    Error,
    InternalError,
    InvalidArgumentError,
    IoError,
    NotFoundError,
    ResourceExhaustedError,
    UnsupportedError,
)
from ._options import GenerateOptions  # noqa: E402
from ._probe import probe  # noqa: E402
from ._session import Session  # noqa: E402
from ._stream import FinishReason, GenerateResult, Stream  # noqa: E402

__version__ = _native.version()


def guard_file_mappings() -> None:
    """From now on a model's file that is truncated while it is used is an error, and not the end of the process.

    It installs a handler of SIGBUS, after faulthandler's and others that the program may have.
    """
    _native.guard_file_mappings()


__all__ = [
    "Calibration",
    "CancelledError",
    "CompiledModel",
    "CompiledProgram",
    "CorruptError",
    "Engine",
    "Error",
    "FinishReason",
    "GenerateOptions",
    "GenerateResult",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "NotFoundError",
    "ResourceExhaustedError",
    "Session",
    "Stream",
    "UnsupportedError",
    "__version__",
    "compile",
    "guard_file_mappings",
    "probe",
]

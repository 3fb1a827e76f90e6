"""Can a file run here, and if not, why?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _model_file, _native

if TYPE_CHECKING:
    from ._model_file import ModelFile


def probe(
    file: ModelFile | None = None,
    *,
    offset: int = 0,
    length: int | None = None,
    threads: int = 0,
    backend: Mapping[str, object] | None = None,
    run_on: str | None = None,
    decode_on: str | None = None,
) -> dict[str, Any]:
    """Says which back ends can run a file on this machine and, where not, the reason and the remedy.

    Without a file: every back end of this build. Nothing is loaded but, for an NPU, the vendor's library. The arguments
    are those of Engine. The result has the keys "usable", "file" and "backends", a list of dicts with the keys
    "backend", "target", "usable", "reason", "remedy", "warnings", "memory_needed_bytes" and others.
    """
    options = _model_file.load_options(threads, "first_use", backend, run_on, decode_on)
    if file is None:
        report = _native.probe(None, *options)
    else:
        with _model_file.located(file, offset, length) as place:
            report = _native.probe(place, *options)
    parsed: dict[str, Any] = json.loads(report)
    return parsed

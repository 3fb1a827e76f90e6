"""Compiling a checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Union

from . import _arguments as arg
from . import _log, _native
from ._stream import WAIT_MS

if TYPE_CHECKING:
    ProgressCallback = Callable[[str, int, int], object]


class Calibration(TypedDict, total=False):
    """The data that activations are calibrated on, for NPUs and for activations="auto"."""

    file: arg.PathType
    """A text, or JSON with conversations; default: what the model itself writes."""
    task: str
    """The file is a task's, as `tandem eval --task` reads it."""
    prompt: str
    """Instead of a file."""
    samples: int
    """At most; default: 32, fewer of large models."""
    length: int
    """Tokens of a sample; default: 512."""
    range: str
    """"minmax", "percentile" or "mse"; default: minmax, and mse for u8 KV."""
    import_encodings: arg.PathType
    """Take encodings from this JSON instead of calibrating."""
    export_encodings: arg.PathType
    """Write them to this JSON."""
    report: arg.PathType
    """Write an HTML page about ranges and clipping."""


class CompiledProgram(NamedTuple):
    """A program of a file for several targets."""

    target: str
    bytes: int
    """What it uses of the file."""
    shared_bytes: int
    """What of that is stored for an earlier program."""
    methods: list[str]


@dataclass(frozen=True)
class CompiledModel:
    """What compile() has made. Sizes and methods are those of the first program, if there are several."""

    file_bytes: int
    weight_bytes: int
    parameters: int
    context: int
    methods: list[str]
    weight_sqnr_db: float
    """Of all quantized weights together; infinity if nothing was lost."""
    warnings: list[str]
    programs: list[CompiledProgram]
    """Of a file for several targets; else empty."""


def compile(
    checkpoint: arg.PathType,
    output: arg.PathType,
    *,
    target: str | Iterable[str] = "",
    prefill: Iterable[int] = (),
    decode_only: bool = False,
    context: int = 0,
    recipe: arg.PathType = "w4",
    kv: str = "",
    activations: str = "",
    head: str = "",
    rescore: int = -1,
    tune: str = "none",
    bits: float = 0.0,
    calibration: Calibration | None = None,
    backend: Mapping[str, object] | None = None,
    threads: int = 0,
    config: str = "config.json",
    force: bool = False,
    progress: Union[bool, ProgressCallback] = False,
) -> CompiledModel:
    """Turns a checkpoint into one file, which an Engine runs.

    ``checkpoint``: a folder in a model hub's or Meta's layout, a GGUF file, or llama2.c's .pt. ``output`` appears whole or
    not at all. Options mean the same as the flags of ``tandem compile``: an empty text, or 0, is the default there.

    ``progress``: True for a bar on standard error, or a function that gets the stage, and how much of what total is done.
    An exception of it, such as Ctrl-C's, stops the work; the same call later goes on where it was.
    """
    options = _native.CompileOptions()
    options.target = arg.text("target", target) if isinstance(target, str) else ",".join(arg.texts("target", target))
    options.prefill = _prefill(prefill)
    options.decode_only = arg.flag("decode_only", decode_only)
    options.context = arg.integer("context", context, 0, arg.INT64_MAX)
    options.recipe = arg.text("recipe", arg.path("recipe", recipe).decode(errors="surrogateescape"))
    options.kv = arg.text("kv", kv)
    options.activations = arg.text("activations", activations)
    options.head = arg.text("head", head)
    options.rescore = arg.integer("rescore", rescore, -1, arg.INT32_MAX)
    options.tune = arg.text("tune", tune)
    options.bits = arg.real("bits", bits)
    options.backend = arg.options("backend", backend)
    options.threads = arg.integer("threads", threads, 0, arg.INT32_MAX)
    options.config = arg.text("config", config)
    options.force = arg.flag("force", force)
    options.set_log_level(_log.native_level())
    _calibrate(options, calibration)
    if not callable(progress) and not isinstance(progress, bool):
        raise TypeError(f"progress must be bool or callable, not {type(progress).__name__}")
    bar = _Bar() if progress is True else None
    report = bar if bar else progress if callable(progress) else None

    call = _native.Compilation.start(arg.path("checkpoint", checkpoint), arg.path("output", output), options)
    try:
        while (events := call.next(WAIT_MS)) is not None:
            _log.flush()
            if report is not None:
                for event in events:
                    report(*event)
    except BaseException:  # Ctrl-C, or an exception of the callback.
        call.request_stop()
        while not call.wait_done(WAIT_MS):
            pass
        raise
    finally:
        _log.flush()
        if bar:
            bar.close()
    fields = call.result()
    fields["programs"] = [CompiledProgram(*program) for program in fields["programs"]]
    return CompiledModel(**fields)


def _prefill(value: object) -> list[int]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"prefill must be a list of int, not {type(value).__name__}")
    return [arg.integer("prefill", length, 1, arg.INT64_MAX) for length in value]


def _calibrate(options: _native.CompileOptions, given: object) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise TypeError(f"calibration must be a dict, not {type(given).__name__}")
    unknown = given.keys() - Calibration.__annotations__.keys()
    if unknown:
        raise TypeError(
            f"calibration has no {sorted(map(repr, unknown))[0]}; it has: {', '.join(Calibration.__annotations__)}"
        )
    for name in ("file", "import_encodings", "export_encodings", "report"):
        if name in given:
            options.set_calibration_path(name, arg.path(f"calibration[{name!r}]", given[name]))
    options.set_calibration(
        arg.text("calibration['task']", given.get("task", "")),
        arg.text("calibration['prompt']", given.get("prompt", "")),
        arg.integer("calibration['samples']", given.get("samples", 32), 1, arg.INT64_MAX),
        arg.integer("calibration['length']", given.get("length", 512), 1, arg.INT64_MAX),
        arg.text("calibration['range']", given.get("range", "")),
    )


class _Bar:
    """Progress on one line of standard error."""

    _WIDTH = 30

    def __init__(self) -> None:
        self._shown = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        part = min(done / total, 1.0) if total > 0 else 1.0
        filled = round(part * self._WIDTH)
        line = f"[{'#' * filled}{'.' * (self._WIDTH - filled)}] {part:4.0%} {stage}"
        self._write("\r" + line.ljust(len(self._shown)))
        self._shown = line

    def close(self) -> None:
        if self._shown:
            self._write("\n")

    @staticmethod
    def _write(text: str) -> None:
        if sys.stderr is not None:  # None in programs without a terminal.
            sys.stderr.write(text)
            sys.stderr.flush()



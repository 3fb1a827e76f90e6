"""An answer while it is generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from . import _log, _native
from ._errors import CancelledError, Error

FinishReason = Literal["stop", "length", "context_full", "cancelled"]

# How long a Python thread waits at most before it looks at signals and at the log.
WAIT_MS = 20


@dataclass(frozen=True)
class GenerateResult:
    """An answer and how it came about."""

    text: str
    """Of chat(): without the reasoning."""
    tokens: list[int]
    """Without the end-of-text token."""
    finish_reason: FinishReason
    """"stop": an end-of-text token or a stop string; "length": max_new_tokens; "context_full"; "cancelled"."""
    stop_string: str
    """The one that ended the answer, if one did."""
    reasoning: str
    """Of chat(): what a thinking model wrote before its answer."""
    prompt_tokens: int
    """Computed ones; those that the session still had do not count."""
    reused_tokens: int
    """Tokens of the prompt that the session still had."""
    prompt_seconds: float
    first_token_seconds: float
    decode_seconds: float
    """After the first token; time that the reader of the stream took counts."""
    seed: int

    def __str__(self) -> str:
        return self.text


class Stream(Iterator[str]):
    """The pieces of an answer, always whole characters. ``result()`` has the whole.

    The model generates as far as the stream is read: the session has the tokens of the pieces that were read. Leaving the
    loop and dropping the stream stops the generation, as does close(); ``with session.generate(...) as stream:`` closes it
    in any case. One thread reads; cancel() and close() may come from any.
    """

    __slots__ = ("_call", "_failure", "_on_reasoning", "_result", "_seed", "__weakref__")

    def __init__(self, call: _native.Generation, seed: int, on_reasoning: Callable[[str], object] | None) -> None:
        self._call = call
        self._seed = seed
        self._on_reasoning = on_reasoning
        self._result: GenerateResult | None = None
        # Not the exception itself: its traceback has this stream, and both would live until the next collection.
        self._failure: tuple[type[Error], str] | None = None

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        if self.done:
            raise StopIteration
        try:
            while True:
                event = self._call.next(WAIT_MS)
                _log.flush()
                if event is True:
                    raise StopIteration(self._finished())
                if isinstance(event, tuple):
                    is_reasoning, piece = event
                    if not is_reasoning:
                        return piece
                    if self._on_reasoning is not None:
                        self._on_reasoning(piece)
        except StopIteration:
            raise
        except BaseException as error:  # Ctrl-C, or an exception of on_reasoning.
            self._fail(error)
            raise

    def result(self) -> GenerateResult:
        """Generates the rest, if there is any, and returns the answer as a whole."""
        if not self.done:
            if self._on_reasoning is not None:
                for _ in self:
                    pass
            else:
                self._run_to_the_end()
        if self._failure is not None:
            kind, message = self._failure
            raise kind(message)
        assert self._result is not None
        return self._result

    def cancel(self) -> None:
        """Stops the generation within a token, without waiting for it. What was generated until then can be read."""
        self._call.request_stop()

    def close(self) -> None:
        """Stops the generation and waits for its end."""
        if self.done:
            return
        self._call.request_stop()
        self._run_to_the_end()

    @property
    def done(self) -> bool:
        """Whether the stream has been read to its end or closed."""
        return self._result is not None or self._failure is not None

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Not waiting: the session's next call does.
        if hasattr(self, "_failure") and not self.done:
            self._call.request_stop()

    def _run_to_the_end(self) -> None:
        try:
            self._call.finish()
            while not self._call.wait_done(WAIT_MS):
                _log.flush()
            _log.flush()
            self._finished()
        except BaseException as error:
            self._fail(error)
            raise

    def _finished(self) -> GenerateResult:
        result = GenerateResult(**self._call.result(), seed=self._seed)
        self._result = result
        return result

    def _fail(self, error: BaseException) -> None:
        self._call.request_stop()
        if self._result is None:
            if isinstance(error, Error):
                self._failure = (type(error), str(error))
            else:
                self._failure = (CancelledError, f"the generation was ended by {type(error).__name__}")

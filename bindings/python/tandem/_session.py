"""A conversation with a model."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _arguments as arg
from . import _log, _native, _options
from ._stream import WAIT_MS, GenerateResult, Stream

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Unpack

    from ._engine import Engine

_NO_ROWS, _LAST_ROW, _ALL_ROWS, _HIDDEN_ROWS = range(4)  # Scoring::Rows


class Session:
    """A conversation with a loaded model: its tokens, and the keys and values computed of them.

    A session serves one call at a time. cancel() and close() may come from any thread; any other call while the session
    generates is an error. Sessions of one engine are independent of each other.
    """

    def __init__(self, engine: Engine) -> None:
        from ._engine import Engine

        if not isinstance(engine, Engine):
            raise TypeError(f"engine must be tandem.Engine, not {type(engine).__name__}")
        self._native: _native.Session = engine._native.new_session()
        self._engine = engine
        with engine._lock:
            engine._sessions.add(self)
        _log.flush()

    @overload
    def generate(
        self, prompt: str | arg.Tokens, *, stream: Literal[True] = True, add_special: bool | None = None,
        **options: Unpack[_options.GenerateOptions],
    ) -> Stream: ...
    @overload
    def generate(
        self, prompt: str | arg.Tokens, *, stream: Literal[False], add_special: bool | None = None,
        **options: Unpack[_options.GenerateOptions],
    ) -> GenerateResult: ...
    def generate(
        self, prompt: str | arg.Tokens, *, stream: bool = True, add_special: bool | None = None, **options: Any
    ) -> Stream | GenerateResult:
        """Continues the session's tokens with ``prompt``, a text or tokens, and generates what follows.

        ``add_special``: put the tokens around a text that the tokenizer adds, such as the beginning of text; None: if
        the session is empty. For questions to a chat model use chat().
        """
        return self._generate(prompt, False, stream, add_special, options)

    @overload
    def generate_from(
        self, prompt: str | arg.Tokens, *, stream: Literal[True] = True, add_special: bool = True,
        **options: Unpack[_options.GenerateOptions],
    ) -> Stream: ...
    @overload
    def generate_from(
        self, prompt: str | arg.Tokens, *, stream: Literal[False], add_special: bool = True,
        **options: Unpack[_options.GenerateOptions],
    ) -> GenerateResult: ...
    def generate_from(
        self, prompt: str | arg.Tokens, *, stream: bool = True, add_special: bool = True, **options: Any
    ) -> Stream | GenerateResult:
        """Makes the session hold exactly ``prompt`` and generates; a prefix that it holds already is not recomputed."""
        return self._generate(prompt, True, stream, add_special, options)

    @overload
    def chat(
        self, messages: arg.Messages, *, stream: Literal[True] = True, **options: Unpack[_options.GenerateOptions]
    ) -> Stream: ...
    @overload
    def chat(
        self, messages: arg.Messages, *, stream: Literal[False], **options: Unpack[_options.GenerateOptions]
    ) -> GenerateResult: ...
    def chat(self, messages: arg.Messages, *, stream: bool = True, **options: Any) -> Stream | GenerateResult:
        """Answers the last message of a conversation, by the model's own chat template.

        ``messages``: [{"role": "user", "content": "Hi"}, ...], or a str for one message of the user. Further keys of a
        message go to the template. Tokens that the session still has from earlier turns are not recomputed.
        """
        arg.flag("stream", stream)
        converted = arg.messages(messages)
        native = self._engine._native.default_options()
        on_reasoning = _options.apply(native, options)
        call = self._native.generate_chat(converted, native)
        return self._answer(call, native.seed, on_reasoning, stream)

    def append(self, tokens: arg.Tokens) -> None:
        """Computes tokens after the session's, and nothing else."""
        self._score(tokens, _NO_ROWS)

    def logits(self, tokens: arg.Tokens, *, last_only: bool = False) -> npt.NDArray[np.float32]:
        """Computes tokens after the session's and returns the logits after each of them.

        The array has the shape [tokens, vocabulary], or [vocabulary] with ``last_only``, which is quicker.
        """
        rows = self._score(tokens, _LAST_ROW if arg.flag("last_only", last_only) else _ALL_ROWS)
        assert rows is not None
        return rows[0] if last_only else rows

    def embed(
        self, tokens: str | arg.Tokens, *, pooling: Literal["mean", "last"] | None = None, normalize: bool = False
    ) -> npt.NDArray[np.float32]:
        """Computes tokens, or those of a text, after the session's and returns the model's last hidden state of each.

        That is what its LM head multiplies. The array has the shape [tokens, hidden_size]; ``pooling`` makes one row of
        it, the mean or the last one. ``normalize``: rows have length 1. The session then holds the tokens: call reset()
        between two independent texts.
        """
        if pooling not in (None, "mean", "last"):
            raise ValueError(f"pooling is {pooling!r}; give None, 'mean' or 'last'")
        arg.flag("normalize", normalize)
        if isinstance(tokens, str):
            tokens = self._engine.encode(tokens, add_special=not self._native.tokens())
        rows = self._score(tokens, _HIDDEN_ROWS)
        assert rows is not None
        if pooling is not None:
            rows = rows[-1] if pooling == "last" else rows.mean(axis=0)
        if normalize:
            import numpy as np

            lengths = np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
            unit: npt.NDArray[np.float32] = (rows / np.maximum(lengths, 1e-30)).astype(np.float32)
            return unit
        return rows

    def rewind(self, length: int) -> None:
        """Forgets all tokens from ``length`` on."""
        self._native.rewind(arg.integer("length", length, 0, arg.INT64_MAX))

    def reset(self) -> None:
        """Forgets all tokens."""
        self._native.rewind(0)

    @property
    def tokens(self) -> list[int]:
        """The tokens that the session holds."""
        return self._native.tokens()

    def __len__(self) -> int:
        return len(self._native.tokens())

    def __bool__(self) -> bool:  # Not by __len__: an empty session is still one.
        return True

    @property
    def engine(self) -> Engine:
        return self._engine

    def cancel(self) -> None:
        """Stops what the session is doing within a token, from any thread.

        If it does nothing now, its next call is stopped at once: a request that comes just before a call is not lost.
        """
        self._native.cancel()

    def clear_cancel(self) -> None:
        """Withdraws a cancel() that no call has taken yet."""
        self._native.clear_cancel()

    @property
    def closed(self) -> bool:
        return self._native.closed()

    def close(self) -> None:
        """Stops what the session is doing and frees its memory; from any thread."""
        self._native.close()
        _log.flush()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tandem.Session {'closed ' if self.closed else ''}of {self._engine!r}>"

    def _generate(
        self, prompt: object, from_start: bool, stream: bool, add_special: bool | None, options: dict[str, Any]
    ) -> Stream | GenerateResult:
        arg.flag("stream", stream)
        native = self._engine._native.default_options()
        on_reasoning = _options.apply(native, options)
        if isinstance(prompt, str):
            if add_special is None:
                add_special = not self._native.tokens()
            ids = self._engine.encode(prompt, add_special=add_special, parse_special=native.parse_special)
            tokens = arg.tokens("prompt", ids)
        else:
            if add_special not in (None, True, False):
                raise TypeError("add_special must be bool")
            tokens = arg.tokens("prompt", prompt)
        call = self._native.generate(tokens, from_start, native)
        return self._answer(call, native.seed, on_reasoning, stream)

    @staticmethod
    def _answer(call: _native.Generation, seed: int, on_reasoning: Any, stream: bool) -> Stream | GenerateResult:
        answer = Stream(call, seed, on_reasoning)
        return answer if stream else answer.result()

    def _score(self, tokens: arg.Tokens, rows: int) -> npt.NDArray[np.float32] | None:
        call = self._native.score(arg.tokens("tokens", tokens), rows)
        try:
            while not call.wait_done(WAIT_MS):
                _log.flush()
        except BaseException:  # Ctrl-C
            call.request_stop()
            raise
        _log.flush()
        return call.result()

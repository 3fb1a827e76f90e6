"""A loaded model."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _arguments as arg
from . import _log, _model_file, _native
from ._options import GenerateOptions

if TYPE_CHECKING:
    from ._model_file import ModelFile, Verify
    from ._session import Session


class Engine:
    """A compiled file, ready to run. It is immutable: any number of sessions and threads may share it.

    ``file``: a path, or an open file or descriptor, with ``offset`` and ``length`` where the model is a part of it.
    ``threads``: 0 for one per core. ``verify``: when the weights' checksums are compared, "first_use", "load" or "never".
    ``backend``: options of back ends by name, such as {"profile": "sustained"} for an NPU.

    A file for several targets has a program for each, and the first that works here is taken. ``run_on`` names the one to
    take instead, by its target ("sm8750") or its back end ("cpu"). ``decode_on`` names another one, which computes single
    tokens while the first computes prompts; answers may then differ from those of either alone.
    """

    def __init__(
        self,
        file: ModelFile,
        *,
        offset: int = 0,
        length: int | None = None,
        threads: int = 0,
        verify: Verify = "first_use",
        backend: Mapping[str, object] | None = None,
        run_on: str | None = None,
        decode_on: str | None = None,
    ) -> None:
        options = _model_file.load_options(threads, verify, backend, run_on, decode_on)
        self._lock = threading.Lock()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()  # Under the lock.
        with _model_file.located(file, offset, length) as place:
            self._native = _native.Engine.load(place, *options)
        self._name = repr(file)

    def session(self) -> Session:
        """A new, empty conversation."""
        from ._session import Session

        return Session(self)

    @property
    def mode(self) -> str:
        """"kv": one token per call, prompts too; "hybrid": prompts in chunks."""
        return self._native.mode()

    @property
    def target(self) -> str:
        """What the file's program that runs was compiled for, such as "sm8750"."""
        return self._native.target()

    @property
    def backend(self) -> str:
        """The back end of that program, such as "qnn"."""
        return self._native.backend()

    @property
    def context(self) -> int:
        """Positions of a session."""
        return self._native.context()

    @property
    def vocab_size(self) -> int:
        return self._native.vocab_size()

    @property
    def hidden_size(self) -> int:
        """Numbers of a row of Session.embed(); 0 where the file's program gives no hidden states."""
        return self._native.hidden_size()

    @property
    def threads(self) -> int:
        return self._native.threads()

    @property
    def has_tokenizer(self) -> bool:
        return self._native.has_tokenizer()

    @property
    def eos_tokens(self) -> list[int]:
        """The tokens that end an answer."""
        return self._native.eos_tokens()

    @property
    def default_options(self) -> GenerateOptions:
        """The sampling that the model's authors recommend; what generate() and chat() do unless told otherwise."""
        native = self._native.default_options()
        return {
            "max_new_tokens": native.max_new_tokens,
            "temperature": native.temperature,
            "top_k": native.top_k,
            "top_p": native.top_p,
            "min_p": native.min_p,
            "repetition_penalty": native.repetition_penalty,
            "repetition_window": native.repetition_window,
        }

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """The tokens of a text. ``add_special``: with those that the tokenizer puts around it.

        What the text spells never becomes a control token, unless ``parse_special`` is true: use that for your own text,
        never for others', who could end turns and begin new ones with it.
        """
        return self._native.encode(
            arg.text("text", text), arg.flag("add_special", add_special), arg.flag("parse_special", parse_special)
        )

    def decode(self, tokens: arg.Tokens, *, skip_special: bool = True) -> str:
        """The text of tokens."""
        return self._native.decode(arg.tokens("tokens", tokens), arg.flag("skip_special", skip_special))

    def encode_chat(
        self,
        messages: arg.Messages,
        *,
        add_generation_prompt: bool = True,
        template_variables: Mapping[str, Any] | str | None = None,
        parse_special: bool = False,
    ) -> list[int]:
        """The tokens of a conversation, as Session.chat() gives them to the model."""
        return self._native.encode_chat(
            arg.messages(messages),
            arg.flag("add_generation_prompt", add_generation_prompt),
            arg.variables("template_variables", template_variables),
            arg.flag("parse_special", parse_special),
        )

    def render_chat(
        self,
        messages: arg.Messages,
        *,
        add_generation_prompt: bool = True,
        template_variables: Mapping[str, Any] | str | None = None,
    ) -> str:
        """The conversation as text, for display. For tokens use encode_chat(): the text no longer says who wrote what."""
        return self._native.render_chat(
            arg.messages(messages),
            arg.flag("add_generation_prompt", add_generation_prompt),
            arg.variables("template_variables", template_variables),
        )

    @property
    def closed(self) -> bool:
        return self._native.closed()

    def close(self) -> None:
        """Closes all sessions of the engine and unloads the file."""
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.close()
        self._native.close()
        _log.flush()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tandem.Engine {self._name}{' closed' if self.closed else ''}>"

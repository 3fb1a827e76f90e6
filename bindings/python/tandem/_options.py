"""Options of generating: what Session.generate(), generate_from() and chat() take."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, Union

from . import _arguments as arg
from . import _native


class GenerateOptions(TypedDict, total=False):
    """What is left out, the model's authors have chosen (Engine.default_options)."""

    max_new_tokens: int
    """0: until the model stops or the context is full."""
    temperature: float
    """0: always the most likely token."""
    top_k: int
    """Keep the k most likely; 0: all."""
    top_p: float
    """Keep the most likely that together have this probability; 1: all."""
    min_p: float
    """Keep what has at least this share of the most likely one's probability; 0: all."""
    repetition_penalty: float
    """Above 1: tokens that were there get less likely; 1: off."""
    repetition_window: int
    """How many of the last tokens count for that; 0: all."""
    seed: Union[int, None]
    """For the same answer again; None, the default: random."""
    stop_strings: Union[str, Iterable[str]]
    """Text that ends the answer; it is not part of it."""
    ignore_eos: bool
    """Go on after end-of-text tokens; for measurements."""
    parse_special: bool
    """Let the text of special tokens become these tokens. Whoever writes the text can then forge turns."""
    template_variables: Union[Mapping[str, Any], str, None]
    """For chat(): further variables for the chat template, such as {"enable_thinking": False}."""
    on_reasoning: Union[Callable[[str], object], None]
    """For chat(): called with the pieces that a thinking model writes before its answer."""


_INTEGERS = {
    "max_new_tokens": arg.INT64_MAX,
    "top_k": arg.INT32_MAX,
    "repetition_window": arg.INT32_MAX,
}
_REALS = ("temperature", "top_p", "min_p", "repetition_penalty")


def apply(native: _native.GenerateOptions, given: Mapping[str, Any]) -> Callable[[str], object] | None:
    """Sets what is given, and returns on_reasoning."""
    on_reasoning: Callable[[str], object] | None = None
    seed: int | None = None
    for name, value in given.items():
        if name in _INTEGERS:
            setattr(native, name, arg.integer(name, value, 0, _INTEGERS[name]))
        elif name in _REALS:
            setattr(native, name, arg.real(name, value))
        elif name == "seed":
            seed = None if value is None else arg.integer(name, value, 0, arg.UINT64_MAX)
        elif name == "stop_strings":
            native.stop_strings = arg.texts(name, value)
        elif name in ("ignore_eos", "parse_special"):
            setattr(native, name, arg.flag(name, value))
        elif name == "template_variables":
            native.template_variables = arg.variables(name, value)
        elif name == "on_reasoning":
            if value is not None and not callable(value):
                raise TypeError(f"on_reasoning must be callable, not {type(value).__name__}")
            on_reasoning = value
        else:
            raise TypeError(f"there is no option {name!r}; there are: {', '.join(GenerateOptions.__annotations__)}")
    native.seed = secrets.randbits(64) if seed is None else seed
    return on_reasoning

"""Checks and conversions of what users give. Every message names the argument and says what it should be."""

from __future__ import annotations

import json
import math
import operator
import os
from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex, Union

from ._errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Tokens = Union[Iterable[SupportsIndex], npt.NDArray[np.integer[Any]]]
    PathType = Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]
    Messages = Union[str, Iterable[Mapping[str, Any]]]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1


def _type_name(value: object) -> str:
    return type(value).__name__


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str, not {_type_name(value)}")
    value.encode()  # Half a surrogate pair has no UTF-8: UnicodeEncodeError, which is a ValueError.
    return value


def integer(name: str, value: object, lowest: int, highest: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be int, not {_type_name(value)}")
    number = operator.index(value)
    if not lowest <= number <= highest:
        shown = str(number) if abs(number) <= UINT64_MAX else "far too large"
        raise InvalidArgumentError(f"{name} is {shown}; give {lowest} to {highest}")
    return number


def real(name: str, value: object) -> float:
    if isinstance(value, (bool, str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{name} must be float, not {_type_name(value)}")
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or abs(number) > 3e38:  # The library computes with 32-bit floats.
        raise InvalidArgumentError(f"{name} must be a finite number")
    return number


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be bool, not {_type_name(value)}")
    return value


def texts(name: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [text(name, value)]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a str or a list of them, not {_type_name(value)}")
    return [text(f"{name}[{index}]", item) for index, item in enumerate(value)]


def path(name: str, value: object) -> bytes:
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {_type_name(value)}")
    encoded = os.fsencode(value)
    if not encoded:
        raise InvalidArgumentError(f"{name} is empty; give a path")
    if b"\0" in encoded:
        raise InvalidArgumentError(f"{name} has a null character, which no path has")
    return encoded


def tokens(name: str, value: object) -> bytes:
    """Tokens as the bytes of 32-bit integers."""
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list or an array of token ids, not {_type_name(value)}")
    try:
        ids = array("i", value)
    except TypeError:
        raise TypeError(f"{name} must have integers only") from None
    except OverflowError:
        raise InvalidArgumentError(f"{name} has a number that is no token id") from None
    return ids.tobytes()


def options(name: str, value: object) -> dict[str, str]:
    """Options of back ends: texts by name; numbers and bools are written as the command line takes them."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict, not {_type_name(value)}")
    converted = {}
    for key, item in value.items():
        if isinstance(item, bool):
            item = "true" if item else "false"
        elif isinstance(item, (int, float)):
            item = str(item)
        elif isinstance(item, os.PathLike):
            item = os.fspath(item)
        converted[text(f"a key of {name}", key)] = text(f"{name}[{key!r}]", item)
    return converted


def _json_object(name: str, value: Mapping[str, Any]) -> str:
    for key in value:
        text(f"a key of {name}", key)
    try:
        return text(name, json.dumps(value, ensure_ascii=False, allow_nan=False))
    except RecursionError:
        raise InvalidArgumentError(f"{name} is nested too deeply") from None


def variables(name: str, value: object) -> str:
    """Variables for the chat template, as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return text(name, value)
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict, not {_type_name(value)}")
    return _json_object(name, dict(value)) if value else ""


def messages(value: object) -> list[tuple[str, str, str]]:
    """A conversation as role, content, and JSON of what else a message has."""
    if isinstance(value, str):
        return [("user", text("messages", value), "")]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"messages must be a str or a list of dicts, not {_type_name(value)}")
    converted = []
    for index, message in enumerate(value):
        name = f"messages[{index}]"
        if not isinstance(message, Mapping):
            raise TypeError(f'{name} must be a dict such as {{"role": "user", "content": "Hi"}}, '
                            f"not {_type_name(message)}")
        if "role" not in message:
            raise InvalidArgumentError(f'{name} has no "role"')
        content = message.get("content")
        rest = {key: item for key, item in message.items() if key not in ("role", "content")}
        converted.append((
            text(f"{name}['role']", message["role"]),
            "" if content is None else text(f"{name}['content']", content),
            _json_object(name, rest) if rest else "",
        ))
    return converted

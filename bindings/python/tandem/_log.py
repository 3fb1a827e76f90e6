"""The library's log goes to the logger "tandem" of the logging module.

The library's threads put messages into a queue, and Python's threads take them out after each call and while they wait:
so a message never waits for the interpreter's lock, nor keeps a thread of the library waiting.
"""

from __future__ import annotations

import logging

from . import _native

logger = logging.getLogger("tandem")
logger.addHandler(logging.NullHandler())

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)  # In the order of tandem::LogLevel.


def native_level() -> int:
    """The finest level that the logger wants, as a number of tandem::LogLevel."""
    wanted = logger.getEffectiveLevel()
    finest = 0
    for number, level in enumerate(_LEVELS):
        if level >= wanted:
            finest = number
    return finest


def flush() -> None:
    for level, message in _native.take_log():
        logger.log(_LEVELS[level], "%s", message)

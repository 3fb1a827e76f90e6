"""What the tests share: the demo model, compiled once by the package itself."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import tandem

ROOT = Path(os.environ.get("TANDEM_ROOT", Path(__file__).resolve().parents[3]))
PROGRAM = Path(os.environ.get("TANDEM_PROGRAM", ROOT / "build/release/tandem"))
CHECKPOINT = ROOT / "models/demo"
FOX = "Tell me a story about a fox named Leo."

# A shell that starts the tests in the background has them ignore it, and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@functools.cache
def folder() -> Path:
    path = Path(tempfile.mkdtemp(prefix="tandem-python-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def model() -> Path:
    path = folder() / "demo.tdm"
    tandem.compile(CHECKPOINT, path)
    return path


@functools.cache
def slow_model() -> Path:
    """Of the same weights, run by the interpreter, token by token: prompts and answers that take many seconds."""
    path = folder() / "slow.tdm"
    tandem.compile(CHECKPOINT, path, target="reference", recipe="fp32", decode_only=True)
    return path


@functools.cache
def model_for_two() -> tuple[Path, tandem.CompiledModel]:
    """With a program for the CPU and one for the interpreter."""
    path = folder() / "two.tdm"
    return path, tandem.compile(CHECKPOINT, path, target=["cpu", "reference"], context=256)


@functools.cache
def engine() -> tandem.Engine:
    return tandem.Engine(model())


@functools.cache
def fox_story() -> tandem.GenerateResult:
    with engine().session() as session:
        return session.chat(FOX, temperature=0, stream=False)


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python program in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def run(program: str, *arguments: object) -> tuple[int, str, str]:
    """Exit status, standard output, standard error."""
    process = start(program, *arguments)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err

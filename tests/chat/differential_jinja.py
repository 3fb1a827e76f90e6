#!/usr/bin/env python3
"""Compares `tandem template` with Jinja2: differential_jinja.py TANDEM [--random N] [--seed S] [--chat FOLDER]

Needs the PyPI package jinja2. Every template of a written corpus and N random ones are rendered by both, set up as
transformers does. If one fails, the other must fail too; texts must be equal to the byte. With --chat, the templates
of a folder (as tests/chat/jinja/golden_test.cpp reads it) are rendered for random conversations too.
"""

import argparse
import copy
import json
import random
import re
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

sys.path.insert(0, str(Path(__file__).resolve().parent))
from differential_jinja_corpus import CORPUS, VARIABLES, conversation, random_template  # noqa: E402

NOW = "2025-07-04T09:05:03"


class Generation(jinja2.ext.Extension):
    """{% generation %} as transformers has it, without its book-keeping."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: datetime.fromisoformat(NOW).strftime(format)
    return env


ENV = environment()
warnings.simplefilter("ignore", SyntaxWarning)  # Python's, about what random templates do.


def expected(source, variables):
    """(text, None) or (None, error)."""
    # A copy, because some filters modify a list that they are given: indent does `s += newline`.
    variables = copy.deepcopy(variables)
    values = {"tools": None, "documents": None, "add_generation_prompt": False, **variables}
    try:
        return ENV.from_string(source).render(**values), None
    except RecursionError:
        return None, "recursion"
    except Exception as error:  # noqa: BLE001: whatever Python raises, the other side must fail too.
        return None, f"{type(error).__name__}: {error}"


def given(tandem, folder, number, source, variables):
    file = Path(folder) / f"{number}.jinja"
    file.write_bytes(source.encode())
    more = {**variables, "now": NOW}
    messages = more.pop("messages", [])
    (Path(folder) / f"{number}.messages").write_text(json.dumps(messages))
    (Path(folder) / f"{number}.vars").write_text(json.dumps(more))
    done = subprocess.run(
        [tandem, "template", str(file), "--messages", f"{folder}/{number}.messages"]
        + ["--vars", f"{folder}/{number}.vars"],
        capture_output=True,
        timeout=60,
    )
    if done.returncode not in (0, 1):
        return None, f"CRASH {done.returncode} {done.stderr.decode(errors='replace')[:2000]}"
    if done.returncode == 0:
        return done.stdout.decode(), None
    return None, done.stderr.decode(errors="replace").strip()


def hide_addresses(text):
    return re.sub(r"<[^>]* (at 0x[0-9a-f]+|object)>", "<object>", text) if text else text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tandem")
    parser.add_argument("--random", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chat", type=Path)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    cases = [(source, {**VARIABLES, **more}) for source, more in CORPUS]
    cases += [(random_template(rng), VARIABLES) for _ in range(options.random)]
    if options.chat:
        for template in sorted(options.chat.glob("*/template.jinja")):
            source = template.read_text()
            for _ in range(max(options.random // 20, 10)):
                cases.append((source, conversation(rng)))
    failures = unsupported = errors = 0
    with tempfile.TemporaryDirectory(prefix="jinja_") as folder, ThreadPoolExecutor(2) as pool:
        got = pool.map(lambda c: given(options.tandem, folder, c[0], *c[1]), enumerate(cases))
        for (source, variables), (text, error) in zip(cases, got):
            want, want_error = expected(source, variables)
            errors += want_error is not None
            # It said so, as it should. (Slices of constants that have none are undefined in Jinja2, because it folds
            # constants; those of variables are errors.)
            refused = ("64 bits", "not supported", "has no slices")
            if want_error is None and error is not None and any(r in error for r in refused):
                unsupported += 1
                continue
            same = (want is None) == (text is None) and hide_addresses(want) == hide_addresses(text)
            if same and want_error is not None and want_error.startswith("TemplateError: "):
                same = error == "error: " + want_error.removeprefix("TemplateError: ")
            if not same or (error or "").startswith("CRASH"):
                failures += 1
                if failures <= 30:
                    print(f"--- {source!r}\n  jinja2: {want!r} {want_error or ''}\n  tandem: {text!r} {error or ''}")
    print(f"{len(cases)} templates, of which {errors} fail; {failures} differ, {unsupported} refused as unsupported")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())

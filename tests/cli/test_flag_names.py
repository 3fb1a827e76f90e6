#!/usr/bin/env python3
"""Libraries name options by their field, and the command line says the flag: src/cli/flag_names.cpp has them all.

test_flag_names.py TANDEM [unittest's arguments]
"""
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"
# They talk to people who type. The C interface names its own arguments, to people who write C.
PROGRAMS = ("cli", "backends/qnn/worker", "c_api")
# Options of programs that are not ours, and words in backticks that are no fields.
OTHERS = {"llama-gguf-split --merge"}


def library_strings():
    """(file, text) of each run of string literals in libraries."""
    literal = r'"(?:[^"\\\n]|\\.)*"'
    for path in sorted(SOURCE.rglob("*")):
        name = path.relative_to(SOURCE).as_posix()
        if path.suffix not in (".h", ".cpp") or name.startswith(PROGRAMS):
            continue
        code = re.sub(r"^\s*(//|#include).*$", "", path.read_text(), flags=re.MULTILINE)
        for run in re.finditer(rf"{literal}(?:\s+{literal})*", code):
            yield name, "".join(part[1:-1] for part in re.findall(literal, run[0]))


class FlagNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        table = (SOURCE / "cli/flag_names.cpp").read_text()
        cls.flags = dict(re.findall(r'\{"([^"]+)", "(--[^"]+)"\}', table))
        assert len(cls.flags) > 10
        # Options of back ends are flags by their own names.
        for path in (SOURCE / "backends").rglob("*.cpp"):
            for option, rest in re.findall(r'\{\.name = "([a-z-]+)",(.*?)\}', path.read_text(), flags=re.DOTALL):
                if ".has_flag = false" not in rest:
                    cls.flags[option] = f"--{option}"
        assert "emulator" in cls.flags
        cls.strings = list(library_strings())
        assert any("`context`" in text for _, text in cls.strings)

    def test_libraries_know_no_flags(self):
        for name, text in self.strings:
            if any(other in text for other in OTHERS):
                continue
            # Not "<!--" and not a rule of dashes.
            self.assertIsNone(re.search(r"(?<![-!\w])--[a-z]", text), f"{name}: {text}")

    def test_every_field_has_a_flag(self):
        for name, text in self.strings:
            for field in re.findall(r"`([a-z][a-z_.()-]*)`", text):
                self.assertIn(field, self.flags, f"{name}: {text}")

    def test_every_flag_exists(self):
        text = subprocess.run([TANDEM, "--help-all"], capture_output=True, text=True, check=True).stdout
        for flag in self.flags.values():
            self.assertRegex(text, rf"(?<![-\w]){flag.split()[0]}(?![-\w])")


if __name__ == "__main__":
    TANDEM = sys.argv.pop(1)
    unittest.main()

"""The program of docs/python.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support


class Docs(unittest.TestCase):
    def test_the_program_runs(self) -> None:
        page = (support.ROOT / "docs/python.md").read_text()
        programs = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        self.assertEqual(len(programs), 1)
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(support.ROOT / "models", Path(folder) / "models")
            done = subprocess.run(
                [sys.executable, "-c", programs[0]], cwd=folder, capture_output=True, text=True, timeout=60
            )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(support.fox_story().text, done.stdout)
        self.assertIn("finished: stop]", done.stdout)
        self.assertRegex(done.stdout, r"\[1\d\d tokens reused\]")
        self.assertRegex(done.stdout, r"\(\d, 2048\) '.+'")


if __name__ == "__main__":
    unittest.main()

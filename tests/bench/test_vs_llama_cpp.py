#!/usr/bin/env python3
"""bench/vs_llama_cpp.py with programs that only pretend to measure: it finds them however their paths are written."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "vs_llama_cpp.py"

TANDEM = """#!/usr/bin/env python3
import json, sys
if sys.argv[1] == "bench":
    names = ("prompt_tokens_per_second decode_tokens_per_second int8_share prompt_operations prompt_bytes bandwidth_share "
             "decode_operations bytes_per_token read_bytes_per_second int8_operations_per_second first_token_ratio")
    print(json.dumps({name: 2.0 for name in names.split()} | {"isa": "portable"}))
"""
LLAMA_BENCH = """#!/usr/bin/env python3
print('[{"avg_ts": 1.0}]')
"""


class VsLlamaCpp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, text in (("tandem", TANDEM), ("llama-bench", LLAMA_BENCH)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        (self.folder / "model.gguf").write_text("")
        (self.folder / "work" / "qwen3-0.6b").mkdir(parents=True)
        (self.folder / "work" / "qwen3-0.6b" / "config.json").write_text("{}")

    def measure(self, llama_bench: str, build: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, SCRIPT, "--llama-bench", llama_bench, "--gguf", "model.gguf", "--build", build, "--work", "work",
             "--rounds", "1", "--prompts", "128", "--depths", "128", "--json"],
            cwd=self.folder, env=os.environ | {"PATH": os.path.dirname(sys.executable) + ":/usr/bin:/bin"},
            capture_output=True, text=True)

    def test_finds_programs_in_this_folder(self):
        for llama_bench in ("./llama-bench", "llama-bench", str(self.folder / "llama-bench")):
            with self.subTest(llama_bench):
                result = self.measure(llama_bench, ".")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(json.loads(result.stdout)["rows"]["prompt 128"]["ratio"], 2.0)

    def test_says_what_is_not_there(self):
        result = self.measure("./absent", ".")
        self.assertEqual(result.returncode, 1)
        self.assertIn("absent does not exist", result.stderr)


if __name__ == "__main__":
    unittest.main()

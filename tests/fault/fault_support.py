"""What test_faults.py and test_power_cut.py share: a tiny checkpoint, and running `tandem` under the shim."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from disk_model import read_tree, write_tree

# Far more than anything here takes: what runs into it hangs.
TIMEOUT = 60
SHAPE = "--hidden 32 --layers 1 --ffn 32 --heads 2 --kv-heads 1 --head-dim 16 --vocab 300 --context 64".split()
PROMPT = "a fox"


class Programs:
    tandem = ""
    make_checkpoint = ""
    shim = ""


def take_programs(arguments):
    """TANDEM MAKE_CHECKPOINT SHIM from the command line; the rest is for unittest."""
    Programs.tandem, Programs.make_checkpoint, Programs.shim = (str(Path(a).resolve()) for a in arguments[1:4])
    return [arguments[0], *arguments[4:]]


class FaultTest(unittest.TestCase):
    """Inputs in in/, results in out/. Nothing else may appear in either."""

    shape = SHAPE
    options = []  # Of every compile.

    @classmethod
    def setUpClass(cls):
        # In memory where that can be: thousands of compiles sync their files, and a busy disk takes its time.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        cls.temp = tempfile.TemporaryDirectory(prefix="tandem_fault_", dir=memory)
        cls.folder = Path(cls.temp.name).resolve()
        cls.root = cls.folder / "root"
        cls.checkpoint = cls.root / "in" / "model"
        cls.out = cls.root / "out"
        cls.output = cls.out / "model.tdm"
        cls.out.mkdir(parents=True)
        cls.checkpoint.parent.mkdir()
        # Two files of weights and their index, so that there is more to open.
        made = [Programs.make_checkpoint, cls.checkpoint, "-q", "--shard-size", "20KB", *cls.shape]
        subprocess.run(made, check=True, timeout=TIMEOUT)
        cls.inputs = read_tree(cls.root / "in")
        cls.old = cls.compiled("--context", "32")
        cls.reference = cls.compiled()
        assert cls.old != cls.reference

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    @classmethod
    def command(cls, *more):
        # Two threads, whatever the machine has: then the counts are the same everywhere.
        return ["compile", cls.checkpoint, "-o", cls.output, "--threads", "2", *cls.options, *more]

    @classmethod
    def compiled(cls, *more):
        write_tree(cls.out, {})
        done = cls.tandem(*cls.command(*more))
        assert done.returncode == 0, done.stderr
        return cls.output.read_bytes()

    @classmethod
    def tandem(cls, *arguments, program="tandem", **variables):
        """Runs a command to its end; with variables, under the shim."""
        environment = dict(os.environ)
        if variables:
            environment |= {"LD_PRELOAD": Programs.shim, "TANDEM_FAULT_PROGRAM": program}
            environment |= {"TANDEM_FAULT_ROOT": str(cls.root)}
            environment |= {f"TANDEM_{name}": str(value) for name, value in variables.items()}
        return subprocess.run(
            [Programs.tandem, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            encoding="utf-8",
            env=environment,
        )

    def assert_one_error(self, done):
        """One sentence, and an exit code that is neither success nor a signal's."""
        self.assertIn(done.returncode, (1, 2), f"ended with {done.returncode}: {done.stderr}")
        lines = [line for line in done.stderr.splitlines() if not re.match(r"\[ *\d+%\]", line)]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], r"^error: \S")
        self.assertLess(len(lines[0]), 600, "not a sentence that somebody reads")

    def assert_nothing_lost(self, before):
        """The inputs are as they were. The output is old or new and whole; beside it there is only the work folder."""
        self.assertTrue(read_tree(self.root / "in") == self.inputs, "an input has changed")
        after = read_tree(self.out)
        strays = {name for name in after if name.split("/")[0] not in ("model.tdm", "model.tdm.work")}
        self.assertFalse(strays, "stray files")
        self.assertTrue(after.get("model.tdm") in (before, self.reference), "the output is neither old nor new")
        return after.get("model.tdm")

    def assert_next_succeeds(self):
        done = self.tandem(*self.command())
        self.assertEqual(done.returncode, 0, done.stderr)
        after = read_tree(self.out)
        self.assertEqual(sorted(after), ["model.tdm"], "the next compile leaves something behind")
        self.assertTrue(after["model.tdm"] == self.reference, "the next compile gives another file")

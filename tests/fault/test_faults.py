#!/usr/bin/env python3
"""Every system call fails once: test_faults.py TANDEM MAKE_CHECKPOINT SHIM [unittest's arguments]

A run under the shim counts the calls of each kind. Then each of them fails, one per run, in the ways such a call can
fail. The program may do without it, or end with one sentence; nothing is lost, and the next attempt succeeds.
"""

import errno
import sys
import unittest

from disk_model import read_tree, write_tree
from fault_support import PROMPT, FaultTest, take_programs

# How calls fail. "+": so do all later ones of the kind, as on a disk that stays full.
FAULTS = {
    "open": ["EMFILE", "EACCES", "EINTR", "EIO"],
    "read": ["EIO", "EINTR", "short"],
    "write": ["ENOSPC", "EIO", "EINTR", "short", "ENOSPC+"],
    "fsync": ["EIO", "EINTR", "ENOSPC"],
    "truncate": ["ENOSPC", "EINTR", "EIO"],
    "rename": ["EIO", "ENOSPC", "EACCES"],
    "link": ["EIO", "EMLINK", "EPERM"],
    "unlink": ["EIO", "EACCES"],
    "mkdir": ["EACCES", "ENOSPC"],
    "rmdir": ["EIO", "EBUSY"],
    "mmap": ["ENOMEM", "EACCES"],
    "munmap": ["ENOMEM"],
    "madvise": ["EAGAIN"],
    "stat": ["EACCES", "EIO", "ENOMEM"],
    "opendir": ["EMFILE", "EACCES"],
    "readdir": ["EIO"],
    "readlink": ["EIO"],
    "chmod": ["EPERM"],
    "flock": ["EINTR", "ENOLCK"],
    "fcntl": ["EINVAL"],
    "close": ["EIO", "EINTR"],
    "dup": ["EMFILE"],
    "statvfs": ["EIO", "ENOSYS"],
    "pipe": ["EMFILE"],
    "spawn": ["EAGAIN", "ENOMEM"],
    "poll": ["EINTR", "ENOMEM"],
    "wait": ["EINTR", "ECHILD"],
    "thread": ["EAGAIN", "EAGAIN+"],
    "random": ["EINTR", "ENOSYS", "short"],
}


def fault_of(kind, n, way):
    """The value of TANDEM_FAULT."""
    name = way.rstrip("+")
    number = name if name == "short" else getattr(errno, name)
    return f"{kind}:{n}{'+' if way.endswith('+') else ''}:{number}"


class Faults(FaultTest):
    @property
    def mark(self):
        return self.folder / "mark"

    def count_calls(self, *command, program="tandem"):
        counts = self.folder / "counts"
        counts.unlink(missing_ok=True)
        done = self.tandem(*command, program=program, FAULT_COUNTS=counts)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.read_counts(counts)

    def read_counts(self, path):
        lines = (line.split() for line in path.read_text().splitlines())
        return {kind: int(count) for kind, count in lines if int(count) > 0}

    def each_fault(self, counts, check, ways=None):
        """check(fault) for each call and each way (or the first ways) in which it can fail, each in its subtest."""
        for kind, count in counts.items():
            for way in FAULTS[kind][:ways]:
                for n in range(1, count + 1):
                    fault = fault_of(kind, n, way)
                    with self.subTest(call=f"{kind} {n} of {count}", fails_with=way, TANDEM_FAULT=fault):
                        try:
                            check(fault)
                        except AssertionError as failure:
                            raise AssertionError(f"on {self.mark.read_text()}: {failure}") from None

    def run_with_fault(self, fault, *command, program="tandem"):
        self.mark.write_text("")
        done = self.tandem(*command, program=program, FAULT=fault, FAULT_MARK=self.mark)
        self.assertTrue(self.mark.read_text(), "that call did not happen: are the counts not the same each time?")
        return done

    def check_compile(self, before, fault, program="tandem"):
        write_tree(self.out, {} if before is None else {"model.tdm": before})
        done = self.run_with_fault(fault, *self.command(), program=program)
        output = self.assert_nothing_lost(before)
        if done.returncode == 0:
            self.assertTrue(output == self.reference, "success, and the output is not the new file")
        else:
            self.assert_one_error(done)
        self.assert_next_succeeds()


class EveryCall(Faults):
    def count_compile(self, state):
        write_tree(self.out, state)
        counts = self.count_calls(*self.command())
        # What a compile cannot do without: an empty count would be a shim that sees nothing.
        for kind in ("open", "write", "fsync", "rename", "mmap", "stat", "close", "thread"):
            self.assertGreater(counts.get(kind, 0), 0, kind)
        return counts

    def test_compile(self):
        self.each_fault(self.count_compile({}), lambda fault: self.check_compile(None, fault))

    def test_compile_over_an_older_file(self):
        counts = self.count_compile({"model.tdm": self.old})
        self.each_fault(counts, lambda fault: self.check_compile(self.old, fault), ways=1)

    def test_an_input_is_never_written_over(self):
        """Whatever of the checks fails: not even --force gets there."""
        for name in ("tokenizer.json", "model-00001-of-00002.safetensors"):
            command = ["compile", self.checkpoint, "-o", self.checkpoint / name, "--threads", "2", "--force"]
            counts = self.folder / "counts"
            counts.unlink(missing_ok=True)
            self.assert_one_error(self.tandem(*command, FAULT_COUNTS=counts))

            def check(fault, command=command):
                self.assert_one_error(self.run_with_fault(fault, *command))
                self.assertTrue(read_tree(self.root / "in") == self.inputs, "an input has changed")

            self.each_fault(self.read_counts(counts), check)

    def check_reading(self, *command):
        write_tree(self.out, {"model.tdm": self.reference})
        wanted = self.tandem(*command)
        self.assertEqual(wanted.returncode, 0, wanted.stderr)

        def check(fault):
            done = self.run_with_fault(fault, *command)
            if done.returncode == 0:
                self.assertEqual(done.stdout, wanted.stdout)
            else:
                self.assert_one_error(done)
                # What an answer had before its file failed is right; the line is ended all the same.
                self.assertTrue(wanted.stdout.startswith(done.stdout.removesuffix("\n")), done.stdout)
            self.assert_nothing_lost(self.reference)

        self.each_fault(self.count_calls(*command), check)

    def test_run(self):
        self.check_reading("run", self.output, "-p", PROMPT, "-n", "4", "--greedy", "--seed", "1", "--threads", "2")

    def test_inspect(self):
        self.check_reading("inspect", self.output, "--json")

    def test_tokenize(self):
        self.check_reading("tokenize", self.checkpoint, "-p", PROMPT)
        self.check_reading("tokenize", self.output, "-p", PROMPT)

    def test_counts_are_the_same_each_time(self):
        write_tree(self.out, {})
        first = self.count_calls(*self.command())
        write_tree(self.out, {})
        self.assertEqual(self.count_calls(*self.command()), first)


if __name__ == "__main__":
    unittest.main(argv=take_programs(sys.argv))

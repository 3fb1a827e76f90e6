#!/usr/bin/env python3
"""The same for a compile for an NPU, whose shards other processes compile: test_npu_faults.py TANDEM MAKE_CHECKPOINT
SHIM [unittest's arguments]

Each compile takes half a second, most of it in Qualcomm's library: these are the calls around the processes, and a few
of each kind that writes.
"""

import os
import sys
import unittest
from pathlib import Path

import test_faults
import test_power_cut
from disk_model import write_tree
from fault_support import take_programs

SOURCE = Path(__file__).resolve().parents[2]
LIBRARIES = Path(os.environ.get("TANDEM_QNN_LIBS") or SOURCE / "build" / "qnn" / "onnxruntime_qnn")
WORKER = "tandem-qnn-worker"
# Calls of a kind that fail: the first, the last, and so many in between. Polls and waits differ from run to run.
FEW = {
    "tandem": {"spawn": 2, "pipe": 2, "fcntl": 2, "rename": 4, "fsync": 3, "write": 4, "unlink": 2, "open": 4},
    WORKER: {"dup": 2, "rename": 2, "fsync": 3, "write": 4, "open": 3, "mmap": 2, "close": 2},
}
FIRST = {"poll": 2, "wait": 2}


def spread(count, most):
    """`most` of 1 to `count`, both ends among them."""
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1 + i * (count - 1) // (most - 1) for i in range(most)})


@unittest.skipUnless((LIBRARIES / "libQnnHtp.so").exists(), f"Qualcomm's QNN library is not in {LIBRARIES}")
class Npu:
    shape = "--hidden 64 --layers 1 --ffn 64 --heads 2 --kv-heads 1 --head-dim 32 --vocab 300 --context 64".split()
    options = "--target sm8750 --emulator --mode kv --recipe w8 --qnn-libs".split() + [LIBRARIES]


class Processes(Npu, test_faults.Faults):
    def check(self, program, kind, occurrences):
        for n in occurrences:
            # In turn, so that few runs see all ways.
            ways = test_faults.FAULTS[kind]
            fault = test_faults.fault_of(kind, n, ways[n % len(ways)])
            with self.subTest(program=program, TANDEM_FAULT=fault):
                self.check_compile(self.old if n % 2 else None, fault, program)

    def test_processes_that_cannot_be_waited_for(self):
        for kind, count in FIRST.items():
            for way in test_faults.FAULTS[kind]:
                for n in range(1, count + 1):
                    with self.subTest(kind=kind, n=n, way=way):
                        self.check_compile(None, test_faults.fault_of(kind, n, way))

    def test_a_few_calls_of_each_kind(self):
        for program, kinds in FEW.items():
            write_tree(self.out, {})
            counts = self.count_calls(*self.command(), program=program)
            for kind, most in kinds.items():
                self.assertGreater(counts.get(kind, 0), 0, f"{kind} in {program}")
                self.check(program, kind, spread(counts[kind], most))


class PowerCut(Npu, test_power_cut.Cuts):
    programs = f"tandem,{WORKER}"

    def test_after_each_rename(self):
        self.check_cuts({"model.tdm": self.old}, after="RU", variants=3)


if __name__ == "__main__":
    unittest.main(argv=take_programs(sys.argv))

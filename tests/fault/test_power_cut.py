#!/usr/bin/env python3
"""The power fails at every moment of a compile: test_power_cut.py TANDEM MAKE_CHECKPOINT SHIM [unittest's arguments]

The shim writes a journal of every change. For each prefix of it, disk_model.py says what the disk may hold after a
power cut at that moment: unsynced data is lost, unsynced names are undone or not. Each such disk is made, looked at,
and compiled on.
"""

import itertools
import signal
import sys
import unittest

from disk_model import Disk, read_journal, read_tree, write_tree
from fault_support import FaultTest, take_programs


class Cuts(FaultTest):
    programs = "tandem"

    def journal_of(self, state, **variables):
        """The journal of one compile, and the disk as it was before."""
        write_tree(self.out, state)
        disk = Disk(self.root)
        journal = self.folder / "journal"
        journal.unlink(missing_ok=True)
        done = self.tandem(*self.command(), program=self.programs, FAULT_JOURNAL=journal, **variables)
        return done, disk, read_journal(journal)

    def under_out(self, state):
        """The part of a disk's state that is under out/."""
        return {name[len("out/") :]: data for name, data in state.items() if name.startswith("out/")}

    def check_cuts(self, state, after="CWTSDRUNM", variants=None):
        """After every change of these kinds, the states that may be left (or the first few of them)."""
        before = state.get("model.tdm")
        done, disk, records = self.journal_of(state)
        self.assertEqual(done.returncode, 0, done.stderr)
        checked = {}
        for k in range(len(records) + 1):
            if k > 0:
                disk.apply(records[k - 1])
            last = "nothing" if k == 0 else " ".join(map(str, (records[k - 1][0], *records[k - 1][3:5])))
            if k > 0 and k < len(records) and records[k - 1][0] not in after:
                continue
            for i, state in enumerate(itertools.islice(disk.states(), variants)):
                left = self.under_out(state)
                key = frozenset(left.items())
                if k < len(records) and key in checked:
                    continue
                with self.subTest(cut=f"after {k} of {len(records)} changes, the last: {last}", variant=i):
                    # Once the command has ended well, no power cut may take its file away.
                    allowed = (before, self.reference) if k < len(records) else (self.reference,)
                    self.assertTrue(left.get("model.tdm") in allowed, f"the output is broken; there is {sorted(left)}")
                    if key not in checked:
                        checked[key] = True
                        write_tree(self.out, left)
                        self.assert_next_succeeds()
        self.assertEqual(self.under_out(disk.now()), {"model.tdm": self.reference})
        self.assertGreater(len(checked), 15)  # Else the journal is not what it should be.


class PowerCut(Cuts):
    def test_new_file(self):
        self.check_cuts({})

    def test_over_an_older_file(self):
        self.check_cuts({"model.tdm": self.old})

    def test_again_while_it_goes_on_from_the_last_cut(self):
        _, _, records = self.journal_of({"model.tdm": self.old})
        self.journal_of({"model.tdm": self.old}, FAULT_KILL=len(records) // 2)
        state = read_tree(self.out)
        self.assertIn("model.tdm.work/manifest.json", state)
        self.check_cuts(state)

    def test_killed_at_every_change(self):
        """And the model is right: what it says is there after k changes is what a killed program leaves."""
        done, _, records = self.journal_of({"model.tdm": self.old})
        self.assertEqual(done.returncode, 0, done.stderr)
        for k in range(1, len(records) + 1):
            with self.subTest(killed_before=k):
                done, disk, journal = self.journal_of({"model.tdm": self.old}, FAULT_KILL=k)
                self.assertEqual(done.returncode, -signal.SIGKILL)
                for record in journal:
                    disk.apply(record)
                self.assertTrue(disk.now() == read_tree(self.root), "the model of the disk is wrong")
                self.assert_next_succeeds()


if __name__ == "__main__":
    unittest.main(argv=take_programs(sys.argv))

"""tandem.compile()"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import unittest

import support

import tandem


class Compile(unittest.TestCase):
    def setUp(self) -> None:
        self.output = support.folder() / f"{self.id()}.tdm"

    def test_makes_the_file_that_the_command_line_makes(self) -> None:
        by_program = support.folder() / "by_program.tdm"
        for python, flags in (
            ({}, []),
            (
                {"recipe": "w8", "context": 256, "prefill": [16], "kv": "fp16", "head": "int8", "threads": 1},
                "--recipe w8 --context 256 --prefill 16 --kv fp16 --head int8 --threads 1".split(),
            ),
            ({"decode_only": True, "target": ["cpu"]}, ["--mode", "kv"]),
            ({"target": ["cpu", "reference"], "context": 256}, "--target cpu,reference --context 256".split()),
        ):
            with self.subTest(flags):
                model = tandem.compile(support.CHECKPOINT, self.output, **python)  # type: ignore[arg-type]
                subprocess.run(
                    [support.PROGRAM, "compile", support.CHECKPOINT, "-o", by_program, "-q", *flags], check=True
                )
                self.assertEqual(self.output.read_bytes(), by_program.read_bytes())
                self.assertEqual(model.file_bytes, self.output.stat().st_size)
                self.assertIn("decode", model.methods)

    def test_a_file_for_several_targets_has_programs(self) -> None:
        path, model = support.model_for_two()
        self.assertEqual([program.target for program in model.programs], ["cpu", "reference"])
        cpu, reference = model.programs
        self.assertEqual(cpu.methods, model.methods)
        self.assertEqual(cpu.shared_bytes, 0)
        self.assertGreater(reference.shared_bytes, model.weight_bytes * 0.9)  # They read the same weights.
        self.assertLessEqual(reference.shared_bytes, reference.bytes)
        self.assertLessEqual(cpu.bytes, path.stat().st_size)
        self.assertEqual(tandem.compile(support.CHECKPOINT, self.output).programs, [])
        with self.assertRaises(tandem.InvalidArgumentError):
            tandem.compile(support.CHECKPOINT, self.output, target=["cpu", "cpu"])

    def test_reports_progress(self) -> None:
        events: list[tuple[str, int, int]] = []
        tandem.compile(str(support.CHECKPOINT), str(self.output), progress=lambda *event: events.append(event))
        self.assertIn("layers.3", [stage for stage, _, _ in events])
        done = [done for _, done, _ in events]
        self.assertEqual(done, sorted(done))
        self.assertTrue(all(0 <= done <= total for _, done, total in events))
        with contextlib.redirect_stderr(io.StringIO()) as bar:
            tandem.compile(support.CHECKPOINT, self.output, progress=True)
        self.assertTrue(bar.getvalue().endswith("\n"))
        self.assertIn("100%", bar.getvalue())

    def test_an_exception_of_the_callback_stops_it_and_leaves_no_file(self) -> None:
        def stop(stage: str, done: int, total: int) -> None:
            raise LookupError(stage)

        with self.assertRaises(LookupError):
            tandem.compile(support.CHECKPOINT, self.output, progress=stop)
        self.assertFalse(self.output.exists())
        tandem.compile(support.CHECKPOINT, self.output)  # Goes on where it was.
        self.assertEqual(self.output.read_bytes(), support.model().read_bytes())

    def test_an_interrupt_in_the_callback_stops_it(self) -> None:
        with self.assertRaises(KeyboardInterrupt):
            tandem.compile(
                support.CHECKPOINT, self.output, progress=lambda *_: os.kill(os.getpid(), signal.SIGINT)
            )
        self.assertFalse(self.output.exists())

    def test_calibration_and_options_of_back_ends_arrive(self) -> None:
        encodings = self.output.with_suffix(".json")
        tandem.compile(
            support.CHECKPOINT,
            self.output,
            activations="auto",
            calibration={"prompt": "Once upon a time", "samples": 1, "length": 8},
        )
        for wrong, message in (
            ({"calibration": {"range": "widest"}}, "calibration.range"),
            ({"calibration": {"prompt": "a", "file": "b"}}, "calibration.file"),
            ({"backend": {"no-such-option": True}}, "no-such-option"),
            ({"target": "no-such-chip"}, "no-such-chip"),
            ({"context": 100000}, "`context`"),
            ({"prefill": [1 << 40]}, "prefill"),
            ({"recipe": "no-such-recipe"}, "no-such-recipe"),
        ):
            with self.subTest(message), self.assertRaises(tandem.Error) as caught:
                tandem.compile(support.CHECKPOINT, encodings, **wrong)  # type: ignore[arg-type]
            self.assertIn(message, str(caught.exception))

    def test_refuses_wrong_arguments(self) -> None:
        for kind, wrong in (
            (TypeError, {"checkpoint": None}),
            (TypeError, {"output": 3}),
            (TypeError, {"target": 3}),
            (TypeError, {"target": b"cpu"}),
            (TypeError, {"prefill": "32"}),
            (TypeError, {"prefill": [1.5]}),
            (ValueError, {"prefill": [0]}),
            (TypeError, {"decode_only": 1}),
            (ValueError, {"context": -1}),
            (ValueError, {"context": 1 << 100}),
            (ValueError, {"threads": 10**400}),
            (ValueError, {"threads": 5000}),
            (TypeError, {"calibration": [1]}),
            (TypeError, {"calibration": {"sample": 1}}),
            (TypeError, {"calibration": {"file": 1}}),
            (TypeError, {"backend": "x"}),
            (TypeError, {"backend": {"x": None}}),
            (TypeError, {"progress": "yes"}),
            (ValueError, {"config": "\ud800"}),
            (FileNotFoundError, {"checkpoint": "/nowhere"}),
            (ValueError, {"checkpoint": "a\0b"}),
            (TypeError, {"no_such_option": 1}),
        ):
            arguments: dict[str, object] = {"checkpoint": support.CHECKPOINT, "output": self.output, **wrong}
            with self.subTest(wrong), self.assertRaises(kind):
                tandem.compile(**arguments)  # type: ignore[arg-type]
        self.assertFalse(self.output.exists())


if __name__ == "__main__":
    unittest.main()

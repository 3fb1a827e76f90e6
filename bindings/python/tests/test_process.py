"""Signals, forks, the end of the interpreter: each in a process of its own."""

from __future__ import annotations

import signal
import time
import unittest

import support

GENERATE = """
import sys, tandem
session = tandem.Engine(sys.argv[1]).session()
next(session.generate("Once"))  # The weights are verified.
session.reset()
print("ready")
try:
    {}
    print("it ended by itself")
except KeyboardInterrupt:
    print("interrupted")
session.reset()
print(session.generate("Once", max_new_tokens=3, stream=False).finish_reason)
"""

COMPILE = """
import sys, tandem
print("ready")
try:
    tandem.compile(sys.argv[1], sys.argv[2], activations="auto", calibration={"samples": 500, "length": 512,
                   "file": sys.argv[1] + "/eval.json"})
    print("it ended by itself")
except KeyboardInterrupt:
    print("interrupted")
"""


class Interrupts(unittest.TestCase):
    def interrupt(self, program: str, *arguments: object) -> list[str]:
        """Lines that the program prints after SIGINT, which must take effect at once."""
        process = support.start(program, *arguments)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "ready\n")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        first = process.stdout.readline()
        seconds = time.monotonic() - sent
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertEqual(first, "interrupted\n")
        self.assertLess(seconds, 3)  # A small part of what the call would take.
        return out.splitlines()

    def test_generating(self) -> None:
        for call in (
            'session.generate("Once", ignore_eos=True, stream=False)',
            'list(session.generate("Once", ignore_eos=True))',
            "session.logits(range(3, 1500))",
            'session.generate(range(3, 1500), stream=False)',
        ):
            with self.subTest(call):
                self.assertEqual(self.interrupt(GENERATE.format(call), support.slow_model()), ["length"])

    def test_compiling(self) -> None:
        output = support.folder() / "interrupted.tdm"
        self.interrupt(COMPILE, support.CHECKPOINT, output)
        self.assertFalse(output.exists())


class Ends(unittest.TestCase):
    def ends_quietly(self, program: str, expected: str = "") -> None:
        status, out, err = support.run("import sys, tandem\n" + program, support.slow_model())
        self.assertEqual((status, out, err), (0, expected, ""))

    def test_with_a_stream_half_read(self) -> None:
        self.ends_quietly('stream = tandem.Engine(sys.argv[1]).session().generate("Once")\nnext(stream)')

    def test_with_a_stream_never_read(self) -> None:
        self.ends_quietly('stream = tandem.Engine(sys.argv[1]).session().generate(range(3, 1500))')

    def test_with_objects_in_cycles(self) -> None:
        self.ends_quietly("""
class Holder: pass
holder = Holder()
holder.me = holder
holder.engine = tandem.Engine(sys.argv[1])
holder.session = holder.engine.session()
holder.stream = holder.session.generate("Once")
next(holder.stream)
sys.keep = holder
""")

    def test_with_daemon_threads_inside(self) -> None:
        self.ends_quietly("""
import threading, time
engine = tandem.Engine(sys.argv[1])
def forever():
    while True:
        with engine.session() as session:
            session.generate("Once", ignore_eos=True, stream=False)
def encode():
    while True:
        engine.encode("a b c " * 100)
for target in (forever, forever, encode):
    threading.Thread(target=target, daemon=True).start()
time.sleep(0.3)
threading.excepthook = lambda arguments: None
""")

    def test_with_sys_exit_in_the_loop(self) -> None:
        status, _, err = support.run(
            'import sys, tandem\nfor p in tandem.Engine(sys.argv[1]).session().generate("Once"): sys.exit(3)',
            support.slow_model(),
        )
        self.assertEqual((status, err), (3, ""))

    def test_without_importing_numpy(self) -> None:
        self.ends_quietly('print("numpy" in sys.modules)', "False\n")


class Forks(unittest.TestCase):
    def test_a_child_may_load_its_own_and_end(self) -> None:
        status, out, err = support.run(
            """
import os, sys, tandem, warnings
warnings.simplefilter("ignore")  # Python 3.12 and later warn of forks where there are threads.
engine = tandem.Engine(sys.argv[1])
session = engine.session()
stream = session.generate("Once upon", ignore_eos=True)
next(stream)
child = os.fork()
if child == 0:
    for call in (lambda: engine.encode("a"), engine.session, lambda: session.generate("a"), lambda: session.tokens,
                 lambda: session.cancel(), lambda: next(stream), stream.result):
        try:
            call()
            print("no error")
        except tandem.InvalidArgumentError as error:
            assert "fork" in str(error), error
    session.close()
    engine.close()
    del stream, session, engine
    with tandem.Engine(sys.argv[1]) as own:
        print(own.session().chat("Hi", temperature=0, stream=False).finish_reason)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(len(list(stream)) > 100)
""",
            support.model(),
        )
        self.assertEqual((status, out, err), (0, "stop\n7\nTrue\n", ""))

    def test_multiprocessing(self) -> None:
        status, out, err = support.run(
            """
import multiprocessing, sys, tandem
path = sys.argv[1]
def answer(prompt):
    return tandem.Engine(path).session().chat(prompt, temperature=0, stream=False).text
if __name__ == "__main__":
    alone = answer("Hi")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(answer, ["Hi"] * 4) == [alone] * 4)
""",
            support.model(),
        )
        self.assertEqual((status, out, err), (0, "True\n", ""))


if __name__ == "__main__":
    unittest.main()

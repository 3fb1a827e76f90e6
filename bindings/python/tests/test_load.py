"""Many threads and many generations."""

from __future__ import annotations

import random
import threading
import time
import unittest

import support

import tandem


# Prints the resident memory in KB after 400 generations, after 3000 more, and after 100 sessions of 20 MB each.
MEMORY = """
import sys, tandem

engine = tandem.Engine(sys.argv[1])
session = engine.session()

def work(count):
    for index in range(count):
        for _ in session.generate("Once upon a time", max_new_tokens=2):
            if index % 3 == 0:
                break
        session.chat("Hi", max_new_tokens=1, stop_strings=["x"], stream=False)
        session.reset()
        if index % 20 == 0:
            session.logits([1, 2, 3])
            try:
                session.generate([1 << 30], stream=False)
            except ValueError:
                pass
            session.reset()

def resident_kb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

work(200)
print(resident_kb())
work(1500)
print(resident_kb())
for _ in range(100):
    engine.session().generate("a", max_new_tokens=1).result()
print(resident_kb())
"""


class Load(unittest.TestCase):
    def test_threads_that_cancel_and_close_at_random(self) -> None:
        engine = tandem.Engine(support.model())
        expected = support.fox_story().tokens
        end = time.monotonic() + 4
        sessions: dict[int, tandem.Session] = {}
        problems: list[str] = []
        done = [0] * 8

        def work(number: int) -> None:
            rng = random.Random(number)
            session = engine.session()
            sessions[number] = session
            while time.monotonic() < end:
                try:
                    what = rng.random()
                    if what < 0.3:
                        for index, _ in enumerate(session.chat(support.FOX, temperature=0)):
                            if index > rng.randrange(30):
                                break
                    elif what < 0.4:
                        session.generate("Once", ignore_eos=True)  # Dropped.
                    elif what < 0.5:
                        session.reset()
                        session.logits(range(3, 40))
                    else:
                        result = session.generate_from(
                            engine.encode_chat(support.FOX), temperature=0, stream=False
                        )
                        whole = result.tokens == expected
                        if not whole and result.finish_reason != "cancelled":
                            problems.append(f"{result.finish_reason}: {result.text}")
                    done[number] += 1
                except tandem.CancelledError:
                    pass
                except tandem.InvalidArgumentError as error:
                    if "closed" not in str(error):
                        problems.append(str(error))
                    session = engine.session()
                    sessions[number] = session

        def disturb() -> None:
            rng = random.Random(99)
            while time.monotonic() < end:
                time.sleep(rng.random() * 0.02)
                session = sessions.get(rng.randrange(8))
                try:
                    if session is not None:
                        session.close() if rng.random() < 0.2 else session.cancel()
                except tandem.InvalidArgumentError:
                    pass  # Closed before.

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        threads.append(threading.Thread(target=disturb))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(problems, [])
        self.assertTrue(all(count > 3 for count in done), done)
        engine.close()

    def test_memory_stays_as_it_is(self) -> None:
        status, out, err = support.run(MEMORY, support.model())  # A process without what other tests leave behind.
        self.assertEqual((status, err), (0, ""))
        first, generations, sessions = map(int, out.split())
        self.assertLess(generations - first, 1000)  # Less than 0.4 KB for each generation.
        self.assertLess(sessions - generations, 100000)  # A few may wait for their threads to end, not 100.


if __name__ == "__main__":
    unittest.main()

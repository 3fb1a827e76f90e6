"""tandem.Session and tandem.Stream"""

from __future__ import annotations

import gc
import json
import subprocess
import threading
import time
import unittest
from collections.abc import Generator

import numpy as np
import support

import tandem


class SessionTest(unittest.TestCase):
    def setUp(self) -> None:
        self.session = support.engine().session()
        self.addCleanup(self.session.close)

    def test_answers_as_the_command_line_does(self) -> None:
        for prompt in (support.FOX, "Write a story about Anna the turtle."):
            by_program = json.loads(
                subprocess.check_output([support.PROGRAM, "run", support.model(), "-p", prompt, "--greedy", "--json"])
            )
            self.session.reset()
            pieces = list(stream := self.session.chat([{"role": "user", "content": prompt}], temperature=0))
            result = stream.result()
            self.assertEqual(result.tokens, by_program["tokens"])
            self.assertEqual("".join(pieces), by_program["text"])
            self.assertEqual(result.text, by_program["text"])
            self.assertEqual(result.finish_reason, by_program["finish"])
            self.assertEqual(result.prompt_tokens, by_program["prompt_tokens"])
            self.assertGreater(len(pieces), 20)
            self.assertGreater(result.decode_seconds, 0)
        seeded = json.loads(
            subprocess.check_output(
                [support.PROGRAM, "run", support.model(), "-p", support.FOX, "--seed", "7", "--json"]
            )
        )
        self.session.reset()
        self.assertEqual(self.session.chat(support.FOX, seed=7, stream=False).tokens, seeded["tokens"])
        raw = json.loads(
            subprocess.check_output(
                [support.PROGRAM, "run", support.model(), "-p", "Once upon", "--greedy", "--no-template", "-n", "9"]
                + ["--json"]
            )
        )
        self.session.reset()
        story = self.session.generate("Once upon", temperature=0, max_new_tokens=9, stream=False)
        self.assertEqual((story.tokens, story.finish_reason), (raw["tokens"], "length"))

    def test_a_conversation_reuses_its_tokens(self) -> None:
        first = self.session.chat(support.FOX, temperature=0, stream=False)
        messages = [
            {"role": "user", "content": support.FOX},
            {"role": "assistant", "content": first.text},
            {"role": "user", "content": "What did Leo love most?"},
        ]
        second = self.session.chat(messages, temperature=0, stream=False)
        self.assertGreater(second.reused_tokens, 100)
        fresh = support.engine().session().chat(messages, temperature=0, stream=False)
        self.assertEqual(second.tokens, fresh.tokens)
        self.assertEqual(fresh.reused_tokens, 0)

    def test_options(self) -> None:
        story = support.fox_story().text
        chat = self.session.chat
        stopped = chat(support.FOX, temperature=0, stop_strings=["river"], stream=False)
        self.assertEqual(stopped.text, story[: story.index("river")])
        self.assertEqual((stopped.finish_reason, stopped.stop_string), ("stop", "river"))
        self.assertEqual(chat(support.FOX, temperature=0, stop_strings="river", stream=False).text, stopped.text)
        one = chat(support.FOX, seed=5, stream=False)
        self.assertEqual(one.seed, 5)
        self.assertEqual(chat(support.FOX, seed=5, stream=False).text, one.text)
        random = chat(support.FOX, stream=False)
        self.assertEqual(chat(support.FOX, seed=random.seed, stream=False).text, random.text)
        self.session.reset()
        full = self.session.generate([1], ignore_eos=True, temperature=0, stream=False)
        self.assertEqual(full.finish_reason, "context_full")
        self.assertEqual(len(self.session), support.engine().context)
        self.assertEqual(str(one), one.text)

    def test_prompts_may_be_tokens(self) -> None:
        tokens = support.engine().encode_chat(support.FOX)
        for prompt in (tokens, tuple(tokens), iter(tokens), np.array(tokens), np.array(tokens, dtype=np.int32)):
            self.session.reset()
            result = self.session.generate(prompt, temperature=0, stream=False)
            self.assertEqual(result.tokens, support.fox_story().tokens)
        again = self.session.generate_from(tokens, temperature=0, stream=False)
        self.assertEqual(again.tokens, support.fox_story().tokens)
        self.assertEqual(again.reused_tokens, len(tokens) - 1)

    def test_logits(self) -> None:
        tokens = support.engine().encode_chat(support.FOX)
        story = support.fox_story().tokens
        rows = self.session.logits(tokens + story)
        self.assertEqual(rows.shape, (len(tokens) + len(story), support.engine().vocab_size))
        self.assertEqual(rows.dtype, np.float32)
        self.assertEqual(self.session.tokens, tokens + story)
        # Greedy decoding takes the argmax of each row.
        self.assertEqual(rows[len(tokens) - 1 : -1].argmax(axis=1).tolist(), story)
        self.session.rewind(0)
        self.session.append(tokens[:5])
        self.assertEqual(len(self.session), 5)
        last = self.session.logits(np.array(tokens[5:]), last_only=True)
        np.testing.assert_array_equal(last, rows[len(tokens) - 1])
        self.session.close()
        del rows
        gc.collect()
        self.assertEqual(int(last.argmax()), story[0])  # The array outlives its session.

    def test_embeddings(self) -> None:
        engine = support.engine()
        tokens = engine.encode("Once upon a time there was a fox.")
        rows = self.session.embed(tokens)
        self.assertEqual(rows.shape, (len(tokens), engine.hidden_size))
        self.assertEqual(rows.dtype, np.float32)
        self.assertGreater(engine.hidden_size, 0)
        self.assertEqual(self.session.tokens, tokens)
        for pooling, wanted in (("mean", rows.mean(axis=0)), ("last", rows[-1])):
            self.session.reset()
            np.testing.assert_array_equal(self.session.embed(tokens, pooling=pooling), wanted)  # type: ignore[arg-type]
        self.session.reset()
        unit = self.session.embed("Once upon a time there was a fox.", normalize=True)
        self.assertEqual(unit.dtype, np.float32)
        np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-5)
        # Logits are products of hidden states with one matrix: with enough rows they determine each other.
        self.session.reset()
        many = list(range(3, 3 + 2 * engine.hidden_size))
        hidden = self.session.embed(many)
        self.session.reset()
        logits = self.session.logits(many)
        head = np.linalg.lstsq(hidden, logits, rcond=None)[0]
        self.assertLess(np.abs(hidden @ head - logits).max(), 0.05 * logits.std())
        with self.assertRaises(ValueError):
            self.session.embed(tokens, pooling="median")  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            self.session.embed(tokens, normalize=1)  # type: ignore[arg-type]
        with self.assertRaises(tandem.InvalidArgumentError):
            self.session.embed([])

    def test_logits_are_those_of_the_command_line(self) -> None:
        out = support.folder() / "logits.npy"
        tokens = support.engine().encode("Once upon a time there was a fox.")
        subprocess.run(
            [support.PROGRAM, "logits", support.model(), "--out", out, "--tokens", ",".join(map(str, tokens))],
            check=True,
            capture_output=True,
        )
        np.testing.assert_array_equal(self.session.logits(tokens), np.load(out))

    def test_stops_where_the_reader_stops(self) -> None:
        for piece in self.session.generate("Once upon", temperature=0, ignore_eos=True):
            self.assertTrue(piece)
            held = self.session.tokens
            break
        # The session has what was read: no token was generated behind the reader's back.
        self.assertEqual(self.session.tokens, held)
        stream = self.session.generate("a", ignore_eos=True)
        next(stream)
        stream.close()
        self.assertTrue(stream.done)
        self.assertEqual(list(stream), [])
        self.assertEqual(stream.result().finish_reason, "cancelled")
        stream.close()
        with self.session.generate("a", ignore_eos=True) as stream:
            next(stream)
        self.assertTrue(stream.done)
        self.session.generate("a", ignore_eos=True)  # Dropped at once.
        self.session.reset()
        self.assertEqual(self.session.chat(support.FOX, temperature=0, stream=False), self._same_as(support.fox_story()))

    def _same_as(self, expected: tandem.GenerateResult) -> object:
        class Same:
            def __eq__(self, other: object) -> bool:
                return isinstance(other, tandem.GenerateResult) and other.text == expected.text

        return Same()

    def test_the_result_is_the_value_of_a_generator(self) -> None:
        def answer() -> Generator[str, None, tandem.GenerateResult]:
            return (yield from self.session.chat(support.FOX, temperature=0))

        pieces = answer()
        with self.assertRaises(StopIteration) as stop:
            while True:
                next(pieces)
        self.assertEqual(stop.exception.value.text, support.fox_story().text)

    def test_cancels_from_another_thread(self) -> None:
        slow = tandem.Engine(support.slow_model())
        with slow.session() as session:
            threading.Timer(0.2, session.cancel).start()
            before = time.monotonic()
            result = session.generate("Once", ignore_eos=True, stream=False)
            self.assertEqual(result.finish_reason, "cancelled")
            self.assertLess(time.monotonic() - before, 2)
            self.assertGreater(len(result.tokens), 0)
            # Before a call, it is not lost; and it is withdrawn by clear_cancel().
            session.cancel()
            cancelled = session.generate("Once", ignore_eos=True, stream=False)
            self.assertEqual((cancelled.finish_reason, cancelled.tokens), ("cancelled", []))
            session.cancel()
            session.clear_cancel()
            self.assertEqual(session.generate("a", max_new_tokens=1, stream=False).finish_reason, "length")
            session.cancel()
            with self.assertRaises(tandem.CancelledError):
                session.logits([1, 2, 3])
            # While the reader is elsewhere.
            stream = session.generate("a", ignore_eos=True)
            next(stream)
            session.cancel()
            self.assertLess(len(list(stream)), 5)
            # A stream's own request is for that stream alone, even when it comes after its end.
            stream = session.generate("a", max_new_tokens=1)
            stream.result()
            stream.cancel()
            self.assertEqual(session.generate("a", max_new_tokens=1, stream=False).finish_reason, "length")

    def test_closes_from_another_thread(self) -> None:
        slow = tandem.Engine(support.slow_model())
        session = slow.session()
        threading.Timer(0.2, session.close).start()
        self.assertEqual(session.generate("Once", ignore_eos=True, stream=False).finish_reason, "cancelled")
        threading.Timer(0.2, slow.close).start()
        session = slow.session()
        self.assertEqual(session.generate("Once", ignore_eos=True, stream=False).finish_reason, "cancelled")

    def test_the_interpreter_is_free_meanwhile(self) -> None:
        slow = tandem.Engine(support.slow_model())
        turns = 0
        done = threading.Event()

        def count() -> None:
            nonlocal turns
            while not done.is_set():
                turns += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        before = time.monotonic()
        with slow.session() as session:
            session.generate("Once", ignore_eos=True, max_new_tokens=40, stream=False)
        elapsed = time.monotonic() - before
        done.set()
        thread.join()
        self.assertGreater(turns, elapsed * 100)

    def test_two_callers_of_one_session_get_an_error(self) -> None:
        stream = self.session.generate("Once upon", ignore_eos=True)
        next(stream)
        for call in (
            lambda: self.session.generate("a"),
            lambda: self.session.chat("a"),
            lambda: self.session.logits([1]),
            lambda: self.session.append([1]),
            lambda: self.session.rewind(0),
        ):
            with self.assertRaisesRegex(tandem.InvalidArgumentError, "still generating"):
                call()  # type: ignore[no-untyped-call]
        self.assertGreaterEqual(len(self.session.tokens), 2)
        self.assertTrue(next(stream))
        stream.close()
        with tandem.Engine(support.slow_model()).session() as slow:
            other = threading.Thread(target=lambda: slow.generate("Once", ignore_eos=True, stream=False))
            other.start()
            time.sleep(0.3)
            for call in (lambda: slow.tokens, lambda: slow.generate("a", add_special=True), lambda: slow.rewind(0)):
                with self.assertRaisesRegex(tandem.InvalidArgumentError, "generating"):
                    call()  # type: ignore[no-untyped-call]
            slow.cancel()
            other.join(10)
            self.assertFalse(other.is_alive())

    def test_reasoning(self) -> None:
        thoughts: list[str] = []
        result = self.session.chat(support.FOX, temperature=0, on_reasoning=thoughts.append, stream=False)
        self.assertEqual((result.reasoning, thoughts), ("", []))  # The demo model does not think aloud.
        # A stand-in for one that does.
        from tandem._stream import Stream

        class Thinking:
            events = iter([(True, "hm"), (False, "Hi"), (True, "m"), True])

            def next(self, milliseconds: int) -> object:
                return next(self.events)

            def result(self) -> dict[str, object]:
                fields = {name: getattr(support.fox_story(), name) for name in support.fox_story().__dict__}
                del fields["seed"]
                return fields

            def request_stop(self) -> None: ...

        self.assertEqual(list(Stream(Thinking(), 0, thoughts.append)), ["Hi"])  # type: ignore[arg-type]
        self.assertEqual(thoughts, ["hm", "m"])

    def test_refuses_wrong_arguments(self) -> None:
        session = self.session
        context = support.engine().context
        for number, (kind, call) in enumerate((
            (TypeError, lambda: tandem.Session(None)),
            (TypeError, lambda: session.generate(None)),
            (TypeError, lambda: session.generate(b"bytes")),
            (TypeError, lambda: session.generate(5)),
            (TypeError, lambda: session.generate([1.5])),
            (TypeError, lambda: session.generate(np.array([1.5]))),
            (TypeError, lambda: session.generate(np.array([[1, 2]]))),
            (TypeError, lambda: session.generate(["a"])),
            (ValueError, lambda: session.generate([1 << 40])),
            (ValueError, lambda: session.generate([-1], stream=False)),
            (ValueError, lambda: session.generate([1 << 30], stream=False)),
            (ValueError, lambda: session.generate([], stream=False)),
            (ValueError, lambda: session.generate("\udc80")),
            (TypeError, lambda: session.generate("a", add_special=3)),
            (TypeError, lambda: session.generate("a", stream=None)),
            (TypeError, lambda: session.generate("a", temprature=1)),
            (TypeError, lambda: session.generate("a", temperature="hot")),
            (TypeError, lambda: session.generate("a", temperature=None)),
            (ValueError, lambda: session.generate("a", temperature=float("nan"))),
            (ValueError, lambda: session.generate("a", temperature=10**400)),
            (ValueError, lambda: session.generate("a", temperature=-1, stream=False)),
            (ValueError, lambda: session.generate("a", top_p=7, stream=False)),
            (ValueError, lambda: session.generate("a", top_k=-1)),
            (ValueError, lambda: session.generate("a", max_new_tokens=-1)),
            (ValueError, lambda: session.generate("a", max_new_tokens=1 << 63)),
            (TypeError, lambda: session.generate("a", max_new_tokens=1.0)),
            (ValueError, lambda: session.generate("a", seed=-1)),
            (ValueError, lambda: session.generate("a", seed=1 << 64)),
            (TypeError, lambda: session.generate("a", stop_strings=5)),
            (TypeError, lambda: session.generate("a", stop_strings=[b"x"])),
            (TypeError, lambda: session.generate("a", ignore_eos="yes")),
            (TypeError, lambda: session.chat("a", on_reasoning=5)),
            (TypeError, lambda: session.chat(None)),
            (MemoryError, lambda: session.generate([5] * (context + 1), stream=False)),
            (MemoryError, lambda: session.logits([5] * (context + 1))),
            (ValueError, lambda: session.logits([])),
            (ValueError, lambda: session.logits([-1])),
            (TypeError, lambda: session.logits("a")),
            (TypeError, lambda: session.logits([1], last_only=1)),
            (TypeError, lambda: session.append(None)),
            (ValueError, lambda: session.rewind(-1)),
            (ValueError, lambda: session.rewind(1)),
            (ValueError, lambda: session.rewind(1 << 70)),
            (TypeError, lambda: session.rewind("a")),
        )):
            with self.subTest(number), self.assertRaises(kind) as caught:
                call()  # type: ignore[no-untyped-call]
            self.assertNotIn("incompatible function arguments", str(caught.exception))
            self.assertEqual(session.tokens, [])
        stream = session.generate([1 << 30])
        with self.assertRaises(ValueError):
            next(stream)
        self.assertEqual(list(stream), [])
        with self.assertRaises(ValueError):
            stream.result()
        session.close()
        session.close()
        for call in (
            lambda: session.generate("a"),
            lambda: session.chat("a"),
            lambda: session.logits([1]),
            lambda: session.tokens,
            lambda: session.rewind(0),
            session.cancel,
            session.clear_cancel,
        ):
            with self.assertRaisesRegex(tandem.InvalidArgumentError, "closed"):
                call()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    unittest.main()

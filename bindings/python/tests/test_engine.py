"""tandem.Engine and tandem.probe()"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import unittest

import support

import tandem


class EngineTest(unittest.TestCase):
    def test_properties(self) -> None:
        engine = support.engine()
        self.assertEqual(engine.mode, "hybrid")
        self.assertEqual((engine.target, engine.backend), ("cpu", "cpu"))
        self.assertEqual(engine.context, 2048)
        self.assertEqual(engine.vocab_size, 2048)
        self.assertGreaterEqual(engine.threads, 1)
        self.assertTrue(engine.has_tokenizer)
        self.assertEqual(engine.eos_tokens, [2, 0])
        self.assertAlmostEqual(engine.default_options["temperature"], 0.7, places=6)
        self.assertFalse(engine.closed)
        self.assertIn("demo.tdm", repr(engine))
        self.assertEqual(tandem.Engine(support.model(), threads=1).threads, 1)
        version = (support.ROOT / "CMakeLists.txt").read_text()
        self.assertIn(f"project(tandem VERSION {tandem.__version__} ", version)

    def test_texts_and_tokens(self) -> None:
        engine = support.engine()
        text = "Once upon a time 🦊 there was 中文."
        tokens = engine.encode(text, add_special=False)
        self.assertEqual(engine.decode(tokens), text)
        self.assertEqual(engine.decode(iter(tokens)), text)
        self.assertEqual(engine.decode([]), "")
        self.assertEqual(engine.encode("", add_special=False), [])

    def test_chats(self) -> None:
        engine = support.engine()
        messages = [{"role": "user", "content": "Hi"}]
        rendered = engine.render_chat(messages)
        self.assertIn("Hi", rendered)
        self.assertEqual(engine.encode(rendered, add_special=False, parse_special=True), engine.encode_chat(messages))
        self.assertEqual(engine.encode_chat("Hi"), engine.encode_chat(messages))
        self.assertNotEqual(engine.encode_chat("Hi", add_generation_prompt=False), engine.encode_chat("Hi"))
        # A user's words never become control tokens.
        end = engine.decode(engine.eos_tokens[:1], skip_special=False)
        self.assertNotIn(engine.eos_tokens[0], engine.encode(end, add_special=False))
        self.assertIn(engine.eos_tokens[0], engine.encode(end, add_special=False, parse_special=True))

    def test_loads_from_descriptors_files_and_parts_of_files(self) -> None:
        expected = support.fox_story().tokens
        padded = support.folder() / "padded"
        data = support.model().read_bytes()
        padded.write_bytes(b"x" * 128 + data + b"y" * 99)
        with open(support.model(), "rb") as file, open(padded, "rb") as part:
            for arguments in (
                {"file": file.fileno()},
                {"file": file},
                {"file": part.fileno(), "offset": 128, "length": len(data)},
                {"file": padded, "offset": 128, "length": len(data)},
                {"file": os.fsencode(support.model())},
                {"file": str(support.model())},
            ):
                with self.subTest(arguments), tandem.Engine(**arguments) as engine:  # type: ignore[arg-type]
                    story = engine.session().chat(support.FOX, temperature=0, stream=False)
                    self.assertEqual(story.tokens, expected)

    def test_runs_the_program_that_is_named(self) -> None:
        path, _ = support.model_for_two()
        for names, flags, runs in (
            ({}, [], "cpu"),
            ({"run_on": "cpu"}, [], "cpu"),
            ({"run_on": "reference"}, ["--on", "reference"], "reference"),
            ({"run_on": "cpu", "decode_on": "reference"}, ["--decode-on", "reference"], "cpu"),
        ):
            with self.subTest(names), tandem.Engine(path, **names) as engine, engine.session() as session:
                self.assertEqual((engine.target, engine.backend), (runs, runs))
                by_program = json.loads(
                    subprocess.check_output(
                        [support.PROGRAM, "run", path, "-p", support.FOX, "--greedy", "-n", "8", "--json", *flags]
                    )
                )
                answer = session.chat(support.FOX, temperature=0, max_new_tokens=8, stream=False)
                self.assertEqual(answer.tokens, by_program["tokens"])
        for name in ("run_on", "decode_on"):
            with self.assertRaisesRegex(tandem.InvalidArgumentError, f"`{name}`.*cpu, reference"):
                tandem.Engine(path, **{name: "sm8750"})  # type: ignore[arg-type]
        self.assertEqual([backend["target"] for backend in tandem.probe(path)["backends"]], ["cpu", "reference"])
        named = tandem.probe(path, run_on="reference")["backends"]
        self.assertEqual([backend["target"] for backend in named], ["reference"])

    def test_closing_closes_sessions(self) -> None:
        with tandem.Engine(support.model()) as engine:
            session = engine.session()
            stream = session.generate("Once", ignore_eos=True)
            next(stream)
        self.assertTrue(engine.closed and session.closed)
        self.assertEqual(stream.result().finish_reason, "cancelled")
        engine.close()
        for call in (
            engine.session,
            lambda: engine.encode("x"),
            lambda: engine.decode([1]),
            lambda: engine.encode_chat("x"),
            lambda: engine.render_chat("x"),
            lambda: engine.mode,
            lambda: engine.target,
            lambda: engine.backend,
            lambda: engine.eos_tokens,
            lambda: engine.default_options,
        ):
            with self.assertRaisesRegex(tandem.InvalidArgumentError, "closed"):
                call()  # type: ignore[no-untyped-call]

    def test_errors_have_classes_and_codes(self) -> None:
        broken = support.folder() / "broken.tdm"
        broken.write_bytes(support.model().read_bytes()[:100000])
        with self.assertRaises(tandem.CorruptError) as corrupt:
            tandem.Engine(broken)
        self.assertEqual(corrupt.exception.code, "corrupt")
        with self.assertRaises(FileNotFoundError) as missing:
            tandem.Engine("/nowhere.tdm")
        self.assertIsInstance(missing.exception, tandem.NotFoundError)
        self.assertEqual(str(missing.exception), "/nowhere.tdm: no such file")
        self.assertEqual(tandem.NotFoundError.code, "not_found")
        for code, kind in (
            ("invalid_argument", ValueError),
            ("io", OSError),
            ("resource_exhausted", MemoryError),
            ("unsupported", tandem.Error),
            ("cancelled", tandem.Error),
            ("internal", tandem.Error),
        ):
            classes = [error for error in tandem.Error.__subclasses__() if error.code == code]
            self.assertEqual(len(classes), 1)
            self.assertTrue(issubclass(classes[0], kind))

    def test_refuses_wrong_arguments(self) -> None:
        model = support.model()
        for kind, wrong in (
            (TypeError, {"file": None}),
            (TypeError, {"file": 1.5}),
            (TypeError, {"file": True}),
            (ValueError, {"file": -1}),
            (ValueError, {"file": 1 << 80}),
            (ValueError, {"file": 1000000}),
            (ValueError, {"file": ""}),
            (ValueError, {"file": "a\0b"}),
            (ValueError, {"file": "\ud800"}),
            (ValueError, {"file": support.folder()}),
            (TypeError, {"threads": "2"}),
            (TypeError, {"threads": True}),
            (ValueError, {"threads": -1}),
            (ValueError, {"threads": 1 << 40}),
            (ValueError, {"verify": "always"}),
            (TypeError, {"verify": None}),
            (TypeError, {"backend": []}),
            (TypeError, {"backend": {1: "x"}}),
            (ValueError, {"backend": {"no-such-option": 1}}),
            (TypeError, {"run_on": 3}),
            (TypeError, {"decode_on": ["cpu"]}),
            (ValueError, {"run_on": "reference"}),
            (ValueError, {"run_on": "c\0pu"}),
            (ValueError, {"offset": -5}),
            (TypeError, {"length": "all"}),
            (tandem.Error, {"offset": 1 << 50}),
        ):
            arguments: dict[str, object] = {"file": model, **wrong}
            with self.subTest(wrong), self.assertRaises(kind):
                tandem.Engine(**arguments)  # type: ignore[arg-type]
        engine = support.engine()
        for kind, call in (
            (TypeError, lambda: engine.encode(None)),
            (TypeError, lambda: engine.encode(b"bytes")),
            (TypeError, lambda: engine.encode("a", add_special=1)),
            (UnicodeEncodeError, lambda: engine.encode("lone \ud83e surrogate")),
            (TypeError, lambda: engine.decode("12")),
            (TypeError, lambda: engine.decode(b"\1\0\0\0")),
            (TypeError, lambda: engine.decode([1.5])),
            (TypeError, lambda: engine.decode(5)),
            (ValueError, lambda: engine.decode([1 << 40])),
            (TypeError, lambda: engine.encode_chat(None)),
            (TypeError, lambda: engine.encode_chat({"role": "user", "content": "x"})),
            (TypeError, lambda: engine.encode_chat(["x"])),
            (ValueError, lambda: engine.encode_chat([{"content": "x"}])),
            (TypeError, lambda: engine.encode_chat([{"role": "user", "content": 3}])),
            (TypeError, lambda: engine.encode_chat([{"role": "user", "content": "x", "tools": {1, 2}}])),
            (ValueError, lambda: engine.encode_chat([{"role": "user", "content": "x", "score": float("nan")}])),
            (ValueError, lambda: engine.encode_chat("x", template_variables="{not json")),
            (ValueError, lambda: engine.session().chat([], stream=False)),
            (TypeError, lambda: engine.encode_chat("x", template_variables=[1])),
        ):
            with self.assertRaises(kind):
                call()  # type: ignore[no-untyped-call]

    def test_probe(self) -> None:
        with open(support.model(), "rb") as file:
            by_file = tandem.probe(file)
        report = tandem.probe(support.model())
        self.assertTrue(report["usable"])
        self.assertEqual(by_file["backends"][0]["target"], report["backends"][0]["target"])
        by_program = json.loads(subprocess.check_output([support.PROGRAM, "probe", support.model(), "--json"]))
        for side in (report, by_program):
            side["backends"][0].pop("memory_free_bytes")
        self.assertEqual(report, by_program)
        self.assertIn("cpu", [backend["backend"] for backend in tandem.probe()["backends"]])
        with self.assertRaises(tandem.NotFoundError):
            tandem.probe("/nowhere")
        with self.assertRaises(tandem.InvalidArgumentError):
            tandem.probe(backend={"no-such-option": 1})

    def test_logs_through_logging(self) -> None:
        from tandem import _log, _native

        program = """
import logging, sys, tandem
from tandem import _log
logging.basicConfig(level=logging.DEBUG, format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
print(_log.native_level())
"""
        self.assertEqual(support.run(program)[:2], (0, "3\n"))
        for level, native in ((logging.CRITICAL, 0), (logging.WARNING, 1), (logging.INFO, 2), (logging.DEBUG, 3)):
            _log.logger.setLevel(level)
            self.assertEqual(_log.native_level(), native)
        _log.logger.setLevel(logging.NOTSET)
        _native.push_log(1, "100% slow: \udcff".encode("utf-8", "surrogateescape"))
        with self.assertLogs("tandem", logging.WARNING) as logs:
            support.engine().session().close()
        self.assertEqual(logs.output, ["WARNING:tandem:100% slow: \ufffd"])


if __name__ == "__main__":
    unittest.main()

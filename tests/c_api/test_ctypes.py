#!/usr/bin/env python3
"""The C interface through ctypes: test_ctypes.py LIBRARY TANDEM. Tokens must be those of the command line."""
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from ctypes_binding import (EngineInfo, EngineOptions, GenerateOptions, GenerateResult, LogitsFunction, Message,
                            TextFunction, byref, load, sized)

SOURCES = pathlib.Path(__file__).resolve().parents[2]
PROMPT = "Tell me a story about a fox named Leo."


class CtypesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = load(LIBRARY)
        cls.folder = tempfile.TemporaryDirectory()
        cls.demo = cls.compile(SOURCES / "models/demo", "demo.tdm")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def compile(cls, checkpoint, name, *flags):
        path = os.path.join(cls.folder.name, name)
        subprocess.run([TANDEM, "compile", str(checkpoint), "-o", path, "-q", "--context", "256", *flags], check=True)
        return path

    def check(self, status):
        self.assertEqual(status, 0, self.library.tandem_last_error())

    def session(self, path, options=None):
        engine, session = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.tandem_engine_load(path.encode(), byref(options) if options else None, byref(engine)))
        self.check(self.library.tandem_session_create(engine, byref(session)))
        self.addCleanup(self.library.tandem_engine_destroy, engine)
        self.addCleanup(self.library.tandem_session_destroy, session)
        return engine, session

    def by_command_line(self, path, count, *flags):
        run = subprocess.run([TANDEM, "run", path, "-p", PROMPT, "--greedy", "-n", str(count), "--json", *flags],
                             check=True, capture_output=True)
        return json.loads(run.stdout)

    def chat(self, session, options):
        """The answer as a dict, like the command line's JSON."""
        message = Message(b"user", PROMPT.encode(), None)
        result = sized(GenerateResult)
        self.check(self.library.tandem_session_generate_chat(session, byref(message), 1, byref(options),
                                                             byref(result)))
        answer = {"text": result.text[:result.text_length].decode(), "tokens": result.tokens[:result.token_count],
                  "reasoning": result.reasoning[:result.reasoning_length].decode(),
                  "finish": self.library.tandem_finish_reason_name(result.finish).decode()}
        self.check(self.library.tandem_generate_result_clear(byref(result)))
        return answer

    def test_greedy_tokens_are_the_command_lines(self):
        engine, session = self.session(self.demo)
        wanted = self.by_command_line(self.demo, 60)
        options = sized(GenerateOptions)
        options.max_new_tokens = 60
        answer = self.chat(session, options)
        self.assertEqual(len(answer["tokens"]), 60)
        for key, value in answer.items():
            self.assertEqual(value, wanted[key], key)
        info = sized(EngineInfo)
        self.check(self.library.tandem_engine_get_info(engine, byref(info)))
        self.assertEqual((info.context, info.has_tokenizer), (256, 1))

    def test_streams_and_stops(self):
        _, session = self.session(self.demo)
        pieces = []

        def receive(piece, length, _):
            pieces.append(piece[:length].decode())
            return 0 if len(pieces) == 5 else 1

        options = sized(GenerateOptions)
        options.on_text = TextFunction(receive)
        answer = self.chat(session, options)
        self.assertEqual(answer["finish"], "cancelled")
        self.assertEqual("".join(pieces), answer["text"])
        self.assertTrue(self.by_command_line(self.demo, 60)["text"].startswith(answer["text"]))

    def test_reasoning_has_its_own_function(self):
        checkpoint = pathlib.Path(self.folder.name) / "thinking"
        shutil.copytree(SOURCES / "models/demo", checkpoint)
        config = json.loads((checkpoint / "tokenizer_config.json").read_text())
        config["chat_template"] = config["chat_template"].replace("assistant\n'", "assistant\n<think>\n'")
        (checkpoint / "tokenizer_config.json").write_text(json.dumps(config))
        path = self.compile(checkpoint, "thinking.tdm")
        _, session = self.session(path)
        reasoning, text = [], []
        options = sized(GenerateOptions)
        options.max_new_tokens = 20
        options.on_reasoning = TextFunction(lambda piece, length, _: reasoning.append(piece[:length]) or 1)
        options.on_text = TextFunction(lambda piece, length, _: text.append(piece[:length]) or 1)
        answer = self.chat(session, options)
        self.assertGreater(len(answer["reasoning"]), 10)
        self.assertEqual(b"".join(reasoning).decode(), answer["reasoning"])
        self.assertEqual(answer["reasoning"], self.by_command_line(path, 20)["reasoning"])
        self.assertEqual((text, answer["text"]), ([], ""))

    def test_tokens_and_logits(self):
        engine, session = self.session(self.demo)
        tokens, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        # As (size_t)-1.
        self.check(self.library.tandem_engine_encode(engine, "Once upon a time ☂".encode(), -1, 0, byref(tokens),
                                                     byref(count)))
        best = []

        def take(index, logits, vocabulary, _):
            self.assertEqual(index, len(best))
            row = logits[:vocabulary]
            best.append(row.index(max(row)))
            return 1

        self.check(self.library.tandem_session_score(session, tokens, count, LogitsFunction(take), None))
        self.assertEqual(len(best), count.value)
        result, options = sized(GenerateResult), sized(GenerateOptions)
        options.max_new_tokens = options.ignore_eos = 1
        other = ctypes.c_void_p()
        self.check(self.library.tandem_session_create(engine, byref(other)))
        self.check(self.library.tandem_session_generate(other, tokens, count, byref(options), byref(result)))
        self.assertEqual(result.tokens[0], best[-1])
        self.check(self.library.tandem_generate_result_clear(byref(result)))
        self.check(self.library.tandem_session_destroy(other))
        self.library.tandem_free(tokens)

    def test_errors(self):
        engine = ctypes.c_void_p()
        status = self.library.tandem_engine_load(b"/no such file", None, byref(engine))
        self.assertEqual(self.library.tandem_status_name(status), b"not_found")
        self.assertIn(b"/no such file", self.library.tandem_last_error())
        self.assertIsNone(engine.value)
        self.assertEqual(self.library.tandem_session_cancel(None), 1)
        with open(self.demo, "rb") as file:
            self.check(self.library.tandem_engine_load_fd(file.fileno(), 0, -1, None, byref(engine)))
        self.check(self.library.tandem_engine_destroy(engine))
        self.assertEqual(self.library.tandem_engine_destroy(engine), 1)

    def test_a_file_for_several_targets(self):
        path = self.compile(SOURCES / "models/demo", "several.tdm", "--target", "cpu,reference")
        generate = sized(GenerateOptions)
        generate.max_new_tokens = 12
        for run_on, decode_on, flags, runs in (
                (None, None, [], b"cpu"),
                (b"", b"", [], b"cpu"),
                (b"cpu", None, ["--on", "cpu"], b"cpu"),
                (b"reference", None, ["--on", "reference"], b"reference"),
                (b"cpu", b"reference", ["--on", "cpu", "--decode-on", "reference"], b"cpu")):
            with self.subTest(run_on=run_on, decode_on=decode_on):
                options = sized(EngineOptions)
                options.run_on, options.decode_on = run_on, decode_on
                engine, session = self.session(path, options)
                info = sized(EngineInfo)
                self.check(self.library.tandem_engine_get_info(engine, byref(info)))
                self.assertEqual((info.target, info.backend), (runs, runs))
                self.assertEqual(self.chat(session, generate)["tokens"], self.by_command_line(path, 12, *flags)["tokens"])
        for field in ("run_on", "decode_on"):
            options, engine = sized(EngineOptions), ctypes.c_void_p()
            setattr(options, field, b"sm8750")
            status = self.library.tandem_engine_load(path.encode(), byref(options), byref(engine))
            self.assertEqual(self.library.tandem_status_name(status), b"invalid_argument")
            self.assertIn(f"`{field}`".encode(), self.library.tandem_last_error())
            self.assertIn(b"cpu, reference", self.library.tandem_last_error())
            self.assertIsNone(engine.value)

    def test_probe_is_json(self):
        text = ctypes.c_char_p()
        self.check(self.library.tandem_probe(self.demo.encode(), None, byref(text)))
        report = json.loads(text.value)
        self.library.tandem_free(text)
        self.assertTrue(report["usable"])

    def test_the_documented_program(self):
        page = (SOURCES / "docs/c-api.md").read_text()
        program = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
        scope = {}
        exec(program.replace("libtandem.so.0.1", str(LIBRARY)), scope)
        messages = json.dumps([{"role": "user", "content": PROMPT}])
        self.assertEqual(scope["ask"](self.demo, messages), self.by_command_line(self.demo, 1000)["text"])
        with self.assertRaisesRegex(RuntimeError, "no such file"):
            scope["ask"]("/nowhere", messages)


if __name__ == "__main__":
    LIBRARY, TANDEM = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
"""The command line where things go wrong: test_cli_hostile.py TANDEM MAKE_CHECKPOINT [unittest's arguments]

Terminals that are closed or full, names made to steer a terminal, signals, limits, values that make no sense, damaged
files. Standard library only; test_cli.py has the helpers.
"""

import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import test_cli
from test_cli import COMMANDS, DEMO, GOLDEN, PROMPT, SOURCE, TIMEOUT, CliTest, tandem

# What steers a terminal, ends a line, turns text around, or is no text: none of it may be printed.
HOSTILE = "\x1b[2J\x1b]0;title\x07\r\n\x08\x7f\x9b31m\u202egnp\u2066x\u2069\u2028"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def start(*arguments, **options):
    for stream in ("stdin", "stdout", "stderr"):
        options.setdefault(stream, subprocess.PIPE)
    return subprocess.Popen([test_cli.TANDEM, *map(str, arguments)], **options)


def closing(*descriptors):
    """For preexec_fn: a program that starts without these."""

    def close():
        for descriptor in descriptors:
            os.close(descriptor)

    return close


def on_terminal(*arguments, stdin=b"", until=None, then=None):
    """Runs a command on a terminal of its own; what it printed, both streams, as bytes, and its exit status.

    Once `until` was printed, `then(process)` is called.
    """
    terminal, other = pty.openpty()
    process = start(*arguments, stdin=other, stdout=other, stderr=other, start_new_session=True)
    os.close(other)
    os.write(terminal, stdin)
    printed = b""
    while True:
        ready, _, _ = select.select([terminal], [], [], TIMEOUT)
        assert ready, "nothing happens"
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # The other end is closed.
            break
        if not piece:
            break
        printed += piece
        if until is not None and until in printed:
            then(process)
            until = None
    os.close(terminal)
    return printed.replace(b"\r\n", b"\n"), process.wait(timeout=TIMEOUT)


class HostileTest(CliTest):
    def assert_clean(self, output):
        """Text that a terminal shows and does not obey."""
        text = output if isinstance(output, str) else output.decode("utf-8")
        found = UNSAFE.search(text)
        self.assertIsNone(found, f"{found and found[0]!r} in {text[:500]!r}")

    def assert_one_clean_error(self, done, *parts):
        self.assert_clean(done.stderr)
        said = re.sub(r"(?m)^\[ *\d+%\].*\n", "", done.stderr)
        self.assertEqual(said.count("\n"), 1, done.stderr)
        self.assertTrue(said.startswith("error: "), done.stderr)
        self.assertLess(len(said), 1200)
        self.assertIn(done.returncode, (1, 2))
        for part in parts:
            self.assertIn(part, done.stderr)

    def broken_pipe(self):
        """A pipe that nobody reads: its write end."""
        read, write = os.pipe()
        os.close(read)
        self.addCleanup(os.close, write)
        return write

    def full(self):
        file = open("/dev/full", "w")
        self.addCleanup(file.close)
        return file


class StandardStreams(HostileTest):
    """Progress never decides about success; results that cannot be written do."""

    def setUp(self):
        self.output = self.folder / "out.tdm"
        self.output.unlink(missing_ok=True)
        self.text = self.folder / "text.txt"
        self.text.write_text("Once upon a time there was a fox. The fox was happy.")

    def bad_stderrs(self):
        yield "closed", {"preexec_fn": closing(2)}
        yield "broken pipe", {"stderr": self.broken_pipe()}
        if Path("/dev/full").exists():
            yield "full", {"stderr": self.full()}

    def run_without_stderr(self, options, *arguments, stdin=""):
        options = {"stderr": subprocess.DEVNULL, **options}
        done = subprocess.run([test_cli.TANDEM, *map(str, arguments)], stdout=subprocess.PIPE, timeout=TIMEOUT,
                              input=stdin.encode(), **options)
        self.assertEqual(done.returncode, 0)
        return done.stdout.decode()

    def test_no_stderr_is_no_reason_to_fail(self):
        flags = ("--greedy", "-n", 8)
        answer = self.ok("run", self.demo, "-p", PROMPT, *flags).stdout
        chat = self.ok("chat", self.demo, *flags, stdin=f"{PROMPT}\n/what\n/help\n").stdout
        measured = self.ok("eval", self.demo, "--text", self.text).stdout
        for name, options in self.bad_stderrs():
            with self.subTest(stderr=name):
                self.output.unlink(missing_ok=True)
                self.run_without_stderr(options, "compile", DEMO, "-o", self.output, "--context", 512)
                self.assertEqual(self.output.read_bytes(), self.demo.read_bytes())
                # With a warning, because there is no tokenizer.
                self.run_without_stderr(options, "compile", GOLDEN / "qwen3", "-o", self.folder / "warned.tdm")
                self.assertEqual(self.run_without_stderr(options, "run", self.demo, "-p", PROMPT, *flags), answer)
                stdin = f"{PROMPT}\n/what\n/help\n"
                self.assertEqual(self.run_without_stderr(options, "chat", self.demo, *flags, stdin=stdin), chat)
                self.assertEqual(self.run_without_stderr(options, "eval", self.demo, "--text", self.text), measured)

    def test_no_stderr_keeps_the_reasoning_from_nobody(self):
        file = self.folder / "thinks.tdm"
        shutil.copytree(DEMO, self.folder / "thinks", ignore=shutil.ignore_patterns("chat_template.jinja"))
        (self.folder / "thinks" / "chat_template.jinja").write_text(
            "{{ '<|im_start|>user\\n' + messages[-1].content + '<|im_end|>\\n<|im_start|>assistant\\n<think>' }}")
        self.ok("compile", self.folder / "thinks", "-o", file, "--context", 256, "-q")
        for name, options in self.bad_stderrs():
            with self.subTest(stderr=name):
                printed = self.run_without_stderr(options, "run", file, "-p", PROMPT, "--greedy", "-n", 8)
                self.assertEqual(printed, "\n")

    def test_an_error_stays_one_without_stderr(self):
        for name, options in self.bad_stderrs():
            with self.subTest(stderr=name):
                options = {"stderr": subprocess.DEVNULL, **options}
                for arguments, status in ((("inspect", "absent.tdm"), 1), (("run", self.demo, "--top-k", "x"), 2)):
                    done = subprocess.run([test_cli.TANDEM, *map(str, arguments)], stdout=subprocess.DEVNULL,
                                          timeout=TIMEOUT, **options)
                    self.assertEqual(done.returncode, status)

    def test_files_never_get_the_numbers_of_closed_streams(self):
        tokens = ("--tokens", "5,6,7")
        npy = self.folder / "x.npy"
        self.ok("logits", self.demo, *tokens, "--out", npy)
        expected = npy.read_bytes()
        for closed in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
            with self.subTest(closed=closed):
                def run(*arguments):
                    streams = [None if i in closed else subprocess.DEVNULL for i in range(3)]
                    done = subprocess.run([test_cli.TANDEM, *map(str, arguments)], stdin=streams[0], stdout=streams[1],
                                          stderr=streams[2], preexec_fn=closing(*closed), timeout=TIMEOUT)
                    self.assertEqual(done.returncode, 0)
                self.output.unlink(missing_ok=True)
                run("compile", DEMO, "-o", self.output, "--context", 512)
                self.assertEqual(self.output.read_bytes(), self.demo.read_bytes())
                npy.unlink()
                run("logits", self.demo, *tokens, "--out", npy)
                self.assertEqual(npy.read_bytes(), expected)

    def results(self):
        ids = self.folder / "ids.json"
        ids.write_text("[5, 6, 7]")
        messages = self.folder / "messages.json"
        messages.write_text('[{"role": "user", "content": "Hi"}]')
        return [
            ("--help",), (), ("--version",), ("compile", "--help"), ("targets",), ("targets", "--json"),
            ("inspect", self.demo), ("inspect", self.demo, "--json"), ("inspect", self.demo, "--dump-ir"),
            ("run", self.demo, "-p", PROMPT, "-n", 4), ("run", self.demo, "-p", PROMPT, "-n", 4, "--json"),
            ("chat", self.demo), ("tokenize", self.demo, "-p", "Hi"), ("tokenize", self.demo, "--jsonl"),
            ("template", self.demo, "--messages", messages), ("eval", self.demo, "--ids", ids),
            ("eval", self.demo, "--ids", ids, "--json"),
            ("compile", GOLDEN / "qwen3", "-o", self.output, "--dump-ir"),
        ]

    STDIN = b'{"text": "Hello"}\n'

    def test_results_that_cannot_be_written_are_an_error(self):
        for arguments in self.results():
            for name, options in (("closed", {"preexec_fn": closing(1)}), ("full", {"stdout": self.full()})):
                with self.subTest(arguments=arguments, stdout=name):
                    done = subprocess.run([test_cli.TANDEM, *map(str, arguments)], input=self.STDIN,
                                          stderr=subprocess.PIPE, timeout=TIMEOUT, **options)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    last = done.stderr.decode().splitlines()[-1]
                    self.assertTrue(last.startswith("error: the output cannot be written ("), done.stderr)
                    self.assertFalse(self.output.exists())

    def test_a_reader_that_goes_away_ends_it_quietly(self):
        for arguments in self.results():
            with self.subTest(arguments=arguments):
                done = subprocess.run([test_cli.TANDEM, *map(str, arguments)], input=self.STDIN,
                                      stdout=self.broken_pipe(), stderr=subprocess.PIPE, timeout=TIMEOUT)
                self.assertEqual(done.returncode, -signal.SIGPIPE)
                said = [line for line in done.stderr.decode().splitlines() if not re.match(r"\[ *\d+%\]", line)]
                self.assertEqual([line for line in said if not line.startswith("warning: ")], [])
                self.assertFalse(self.output.exists())
                self.assertEqual(list(self.folder.glob("*.partial*")), [])

    def test_an_ignored_broken_pipe_is_an_error(self):
        done = subprocess.run([test_cli.TANDEM, "targets"], stdout=self.broken_pipe(), stderr=subprocess.PIPE,
                              timeout=TIMEOUT, restore_signals=False)  # Python itself ignores SIGPIPE.
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"error: ", done.stderr)

    def test_input_that_cannot_be_read(self):
        folder = os.open("/", os.O_RDONLY)
        self.addCleanup(os.close, folder)
        for arguments in (("run", self.demo), ("chat", self.demo), ("tokenize", self.demo, "--jsonl")):
            for name, options in (("folder", {"stdin": folder}), ("closed", {"preexec_fn": closing(0)})):
                with self.subTest(command=arguments[0], stdin=name):
                    done = subprocess.run([test_cli.TANDEM, *map(str, arguments)], capture_output=True,
                                          timeout=TIMEOUT, encoding="utf-8", **options)
                    self.assert_one_clean_error(done, "standard input cannot be read")

    def test_input_without_an_end(self):
        for arguments in (("run", self.demo), ("chat", self.demo), ("tokenize", self.demo, "--jsonl"),
                          ("template", "-", "--messages", "x.json")):
            with self.subTest(command=arguments[0]), open("/dev/zero", "rb") as zeros:
                done = subprocess.run([test_cli.TANDEM, *map(str, arguments)], stdin=zeros, capture_output=True,
                                      timeout=TIMEOUT, encoding="utf-8")
                self.assert_one_clean_error(done, "MB")


class Worker(HostileTest):
    """The program that compiles a shard for an NPU follows the same rules."""

    def test_a_job_that_is_not_there(self):
        worker = Path(test_cli.TANDEM).with_name("tandem-qnn-worker")
        result = self.folder / "result.json"
        for name, options in (("closed", {"preexec_fn": closing(0, 1, 2)}), ("full", {"stderr": self.full()}),
                              ("broken pipe", {"stderr": self.broken_pipe(), "stdout": self.broken_pipe()})):
            with self.subTest(streams=name):
                done = subprocess.run([worker, self.folder / "absent.json", result], timeout=TIMEOUT, **options)
                self.assertEqual(done.returncode, 1)
                self.assertFalse(result.exists())

    def test_a_compile_that_is_stopped_and_one_without_standard_streams(self):
        libraries = test_cli.qnn_libraries()
        if libraries is None:
            self.skipTest("not tested, because there is no libQnnHtp.so (QNN); `make qnn` installs it")
        output = self.folder / "npu.tdm"
        arguments = ["compile", DEMO, "-o", output, "--target", "sm8750", "--emulator", "--prefill", 32, "--context",
                     128, "--shards", 2, "--qnn-libs", libraries]
        process = start(*arguments, stdout=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdin.close)
        next(line for line in process.stderr if b": ops of" in line)
        os.killpg(process.pid, signal.SIGTERM)  # The worker too: it leaves that to the compile.
        self.assertEqual(process.wait(timeout=TIMEOUT), 143)
        self.assertIn(b"goes on", process.stderr.read())
        for closed in ((), (0, 1, 2)):
            done = subprocess.run([test_cli.TANDEM, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=closing(*closed),
                                  timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0)
            self.ok("inspect", output)
            output.unlink()


class Names(HostileTest):
    """Whatever a file calls its parts, the terminal shows it and does not obey."""

    def hostile_folder(self, name="evil"):
        folder = self.folder / name
        shutil.copytree(GOLDEN / "qwen3", folder, dirs_exist_ok=True)
        return folder

    def test_template_errors(self):
        template = self.folder / "chat.jinja"
        messages = self.folder / "messages.json"
        messages.write_text(json.dumps([{"role": "user", "content": HOSTILE}]))
        template.write_text("{{ raise_exception('Refused: ' + messages[0].content) }}")
        self.assert_one_clean_error(tandem("template", template, "--messages", messages), "Refused: \\x1b[2J", "\\n")
        template.write_text("{{ raise_exception('a\\nerror: b' * 10000) }}")
        self.assert_one_clean_error(tandem("template", template, "--messages", messages))
        template.write_text("{% for " + HOSTILE + " in x %}")
        self.assert_one_clean_error(tandem("template", template, "--messages", messages))
        template.write_bytes(b"{{ \xff\xfe\x1b }}")
        self.assert_one_clean_error(tandem("template", template, "--messages", messages))

    def test_names_in_checkpoints(self):
        folder = self.hostile_folder()
        output = self.folder / "evil.tdm"
        config = json.loads((folder / "config.json").read_text())
        for key, value in (("architectures", [HOSTILE]), ("model_type", HOSTILE), ("hidden_act", HOSTILE),
                           ("rope_scaling", {"rope_type": HOSTILE}), (HOSTILE, HOSTILE), ("num_hidden_layers", HOSTILE)):
            with self.subTest(key=key):
                (folder / "config.json").write_text(json.dumps({**config, key: value}))
                self.assert_clean(tandem("compile", folder, "-o", output).stderr)
        (folder / "config.json").write_text(json.dumps(config))
        weights = folder / "model.safetensors"
        data = weights.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + size])
        for name in (HOSTILE, "x" * 100_000, "word " * 20_000):
            with self.subTest(name=name[:10]):
                changed = dict(header)
                changed[name] = changed.pop(next(key for key in header if key != "__metadata__"))
                text = json.dumps(changed).encode()
                weights.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])
                done = tandem("compile", folder, "-o", output, "-q")
                self.assert_one_clean_error(done)
        weights.write_bytes(data)

    def test_names_in_recipes(self):
        recipe = self.folder / "recipe.json"
        for content in ({"name": HOSTILE, "base": "w8"}, {"base": HOSTILE}, {HOSTILE: 1},
                        {"base": "w4", "rules": [{"match": HOSTILE, "format": "fp16"}]},
                        {"base": "w4", "rules": [{"match": "*", "format": HOSTILE}]}):
            with self.subTest(content=content):
                recipe.write_text(json.dumps(content))
                done = tandem("compile", GOLDEN / "qwen3", "-o", self.folder / "r.tdm", "--recipe", recipe)
                self.assertIn(done.returncode, (0, 1))
                self.assert_clean(done.stderr)

    def test_names_in_compiled_files(self):
        # The model is called as its folder.
        folder = self.hostile_folder("m" + HOSTILE.replace("/", ""))
        output = self.folder / "named.tdm"
        done = self.ok("compile", folder, "-o", output)
        self.assert_clean(done.stderr)
        done = self.ok("inspect", output)
        self.assert_clean(done.stdout)
        self.assertEqual(sum(line.startswith("model ") for line in done.stdout.splitlines()), 1)
        self.assertIn("m\\x1b[2J", done.stdout)
        self.assert_clean(self.ok("inspect", output, "--dump-ir").stdout)
        done = self.ok("inspect", output, "--json")
        self.assert_clean(done.stdout)
        self.assertEqual(json.loads(done.stdout)["model"]["name"], folder.name)

    def test_what_the_user_types(self):
        path = os.fsencode(self.folder) + b"/" + HOSTILE.encode() + b"\xff\xfe"
        for arguments in (
            ("inspect", path), ("run", path, "-p", "x"), ("tokenize", path, "-p", "x"), ("bench", path),
            ("compile", path), ("compile", GOLDEN / "qwen3", "-o", path + b"/no/x.tdm"),
            ("compile", GOLDEN / "qwen3", "--recipe", path), ("compile", GOLDEN / "qwen3", "--target", path),
            ("compile", GOLDEN / "qwen3", "--calib", path), ("compile", GOLDEN / "qwen3", "--mode", path),
            ("template", path, "--messages", "x"), ("eval", self.demo, "--text", path), ("eval", path, "--text", path),
            ("logits", self.demo, "--tokens", path, "--out", "x"), ("run", self.demo, "-p", "x", b"--" + path[-9:]),
            (HOSTILE,), ("run", self.demo, "-p", "x", "--var", HOSTILE), ("--" + HOSTILE,),
        ):
            with self.subTest(arguments=arguments):
                done = subprocess.run([test_cli.TANDEM, *(a if isinstance(a, bytes) else str(a) for a in arguments)],
                                      capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT,
                                      cwd=self.folder, encoding="utf-8")
                self.assert_one_clean_error(done)
        done = self.ok("chat", self.demo, stdin="/\x1b[2J\n")
        self.assert_clean(done.stderr)
        self.assertIn("unknown command /\\x1b[2J", done.stderr)


class Terminal(HostileTest):
    """What is for a program is its bytes; what is for a person's terminal is made harmless."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A model that prints an escape sequence wherever the demo prints an "o".
        folder = cls.folder / "escapes"
        shutil.copytree(DEMO, folder)
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        replace = {"type": "Replace", "pattern": {"String": "o"}, "content": HOSTILE}
        tokenizer["decoder"] = {"type": "Sequence", "decoders": [tokenizer["decoder"], replace]}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        cls.escapes = cls.folder / "escapes.tdm"
        done = tandem("compile", folder, "-o", cls.escapes, "--context", 256, "-q")
        assert done.returncode == 0, done.stderr

    FLAGS = ("--greedy", "-n", 8)

    def test_answers(self):
        plain = self.ok("run", self.demo, "-p", PROMPT, *self.FLAGS, "-q").stdout
        self.assertIn("o", plain)
        piped = tandem("run", self.escapes, "-p", PROMPT, *self.FLAGS, "-q", encoding=None, stdin=b"").stdout
        self.assertIn(HOSTILE.encode(), piped)
        printed, status = on_terminal("run", self.escapes, "-p", PROMPT, *self.FLAGS)
        self.assertEqual(status, 0)
        self.assert_clean(printed)
        self.assertIn(b"\\x1b[2J", printed)
        printed, status = on_terminal("chat", self.escapes, *self.FLAGS, stdin=f"{PROMPT}\n\x04".encode())
        self.assertEqual(status, 0)
        self.assert_clean(printed)
        self.assertIn(b"\\x1b[2J", printed)

    def test_an_ordinary_answer_is_the_same_everywhere(self):
        plain = self.ok("run", self.demo, "-p", PROMPT, *self.FLAGS, "-q").stdout
        printed, _ = on_terminal("run", self.demo, "-p", PROMPT, *self.FLAGS, "-q")
        self.assertEqual(printed.decode(), plain)

    def test_templates(self):
        template = self.folder / "t.jinja"
        template.write_text("{{ messages[0].content }}\n\tend")
        messages = self.folder / "m.json"
        messages.write_text(json.dumps([{"role": "user", "content": HOSTILE}]))
        raw = tandem("template", template, "--messages", messages, encoding=None, stdin=b"").stdout
        self.assertEqual(raw, (HOSTILE + "\n\tend").encode())
        printed, status = on_terminal("template", template, "--messages", messages)
        self.assertEqual(status, 0)
        self.assert_clean(printed)
        self.assertIn(b"\n\tend", printed)

    def test_progress_stays_on_its_line(self):
        printed, status = on_terminal("compile", DEMO, "-o", self.folder / "p.tdm")
        self.assertEqual(status, 0)
        # The bar's own sequences and nothing else.
        self.assert_clean(printed.replace(b"\r\x1b[K", b""))
        for drawn in printed.split(b"\r\x1b[K"):
            self.assertLess(len(drawn.split(b"\n")[0]), 100)


class Signals(HostileTest):
    def chat(self, *arguments):
        """A conversation whose answer does not end by itself, in the middle of it."""
        process = start("chat", self.demo, "--ignore-eos", "--greedy", *arguments)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdin.close)
        process.stdin.write(PROMPT.encode() + b"\n")
        process.stdin.flush()
        process.stdout.read(1)
        return process

    def test_terminating_an_answer_ends_the_conversation(self):
        for sent, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with self.subTest(signal=sent):
                process = self.chat()
                process.send_signal(sent)
                # Standard input stays open: nothing but the signal ends it.
                self.assertEqual(process.wait(timeout=TIMEOUT), status)
                self.assertTrue(process.stdout.read().endswith(b"\n"))
                self.assertIn(b"finished: cancelled", process.stderr.read())

    def test_terminating_while_it_waits(self):
        for sent, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)):
            with self.subTest(signal=sent):
                printed, got = on_terminal("chat", self.demo, until=b"> ", then=lambda p: p.send_signal(sent))
                self.assertEqual(got, status, printed)

    def test_ctrl_c_then_terminate(self):
        process = self.chat()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=TIMEOUT), 143)

    def test_run_says_which(self):
        for sent, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)):
            with self.subTest(signal=sent):
                process = start("run", self.demo, "-p", PROMPT, "--ignore-eos", "--greedy")
                process.stdout.read(1)
                process.send_signal(sent)
                out, _ = process.communicate(timeout=TIMEOUT)
                self.assertEqual(process.returncode, status)
                self.assertTrue(out.endswith(b"\n"))

    def big_checkpoint(self):
        checkpoint = self.folder / "big"
        if not checkpoint.exists():
            made = subprocess.run(
                [test_cli.MAKE_CHECKPOINT, checkpoint, "-q", "--hidden", "512", "--layers", "8", "--ffn", "2048"]
                + ["--heads", "8", "--kv-heads", "4", "--head-dim", "64"], timeout=TIMEOUT)
            self.assertEqual(made.returncode, 0)
        return checkpoint

    def stopped_compile(self, sent, output, **options):
        process = start("compile", self.big_checkpoint(), "-o", output, "--threads", 1, **options)
        for line in process.stderr:
            if b"layers.2" in line:
                break
        process.send_signal(sent)
        _, rest = process.communicate(timeout=TIMEOUT)
        return process.returncode, rest.decode()

    def test_compile_can_go_on(self):
        for sent, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with self.subTest(signal=sent):
                output = self.folder / f"{status}.tdm"
                got, said = self.stopped_compile(sent, output)
                self.assertEqual(got, status, said)
                self.assertIn("goes on", said.splitlines()[-1])
                self.assertFalse(output.exists())
                self.assertEqual(list(self.folder.rglob("*.partial*")), [])
                done = self.ok("compile", self.big_checkpoint(), "-o", output)
                self.assertRegex(done.stderr, r"[3-9] parts were finished by an earlier run")

    def test_nohup(self):
        output = self.folder / "nohup.tdm"
        got, said = self.stopped_compile(signal.SIGHUP, output,
                                         preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual(got, 0, said)
        self.assertTrue(output.is_file())


class FileSizeLimit(HostileTest):
    """`ulimit -f`: a write that the system refuses is an error as any other, not a signal that leaves things behind."""

    def limited(self, *arguments, size=200_000):
        return tandem(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))

    def test_nothing_is_left_behind(self):
        output = self.folder / "limited.tdm"
        done = self.limited("compile", DEMO, "-o", output, "-q")
        self.assert_one_clean_error(done, "too large")
        npy = self.folder / "limited.npy"
        done = self.limited("logits", self.demo, "--tokens", ",".join(["5"] * 100), "--out", npy)
        self.assert_one_clean_error(done, "too large")
        self.assertFalse(output.exists() or npy.exists())
        self.assertEqual(list(self.folder.rglob("*.partial*")), [])


class OptionValues(HostileTest):
    """Every option of every command with values that nobody means: each is taken for what it says, or refused."""

    VALUES = ["", " ", "nan", "-nan", "inf", "-inf", "-1", "-0.5", "1e400", "1e-400", "9223372036854775808",
              "18446744073709551616", "-9223372036854775809", " 5", "5 ", "+5", "5x", "0x10", "1'000", ",", "1,,2",
              ",5", "[]", "[5]", "{}", "-", "--", "99999999", "x" * 100_000, HOSTILE]
    # Not numbers, whatever the option's range; 5 and 99999999 may be.
    NO_NUMBERS = ["", " ", "nan", "-nan", "inf", "-inf", "1e400", "9223372036854775808000", " 5", "5 ", "+5", "5x",
                  "0x10", "1'000", ",", "1,,2", "[]", "[5]", "{}"]

    def setUp(self):
        self.here = self.folder / "here"
        shutil.rmtree(self.here, ignore_errors=True)
        self.here.mkdir()
        (self.here / "text.txt").write_text("Once upon a time there was a fox.")
        (self.here / "messages.json").write_text('[{"role": "user", "content": "Hi"}]')
        self.base = {
            "compile": (GOLDEN / "qwen3", "-o", "out.tdm", "--context", "16", "-q"),
            "run": (self.demo, "-p", "x", "-n", "2"),
            "chat": (self.demo, "-n", "2"),
            "inspect": (self.demo,),
            "probe": (self.demo,),
            "deploy": (self.demo, "--to", "deployed"),
            "bench": ("absent.tdm",),  # A benchmark takes a second.
            "logits": (self.demo, "--tokens", "5", "--out", "out.npy"),
            "tokenize": (self.demo, "-p", "x"),
            "template": (self.demo, "--messages", "messages.json"),
            # Short: what other cases wrote may be its text.
            "eval": (self.demo, "--text", "text.txt", "--window", "16", "--limit", "1"),
            "targets": (),
        }

    def options_of(self, command):
        """(name, type) of each option that takes a value."""
        found = re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+) ([A-Z][^ ]*)", self.ok(command, "--help").stdout)
        self.assertTrue(found or command in ("inspect", "targets"), command)
        return found

    def attempt(self, command, option, value):
        # Given twice an option is refused for that: ours replaces the one of the base.
        names = {"--max-tokens": "-n", "--prompt": "-p", "--output": "-o"}
        base = list(self.base[command])
        for name in (option, names.get(option)):
            if name in base:
                at = base.index(name)
                del base[at : at + 2]
        return tandem(command, *base, option, value, cwd=self.here, errors="strict")

    def check(self, done):
        self.assertIn(done.returncode, (0, 1, 2), done.stderr)
        self.assert_clean(done.stderr)
        for word in ("terminate called", "what()", "std::", "stoi", "Sanitizer", "basic_string"):
            self.assertNotIn(word, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 0 if done.returncode == 0 else 1, done.stderr)

    def test_every_option(self):
        cases, seen = [], set()
        for command in COMMANDS:
            for option, kind in self.options_of(command):
                # An option that several commands share is tried in full with the first of them.
                values = ["", "nan", "-1"] if (option, kind) in seen else self.VALUES
                seen.add((option, kind))
                cases += [(command, option, kind, value) for value in values]
        self.assertGreater(len(cases), 1000)
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda case: self.attempt(case[0], case[1], case[3]), cases))
        for (command, option, kind, value), result in zip(cases, done):
            with self.subTest(command=command, option=option, value=value[:30]):
                self.check(result)
                if re.match("INT|UINT|FLOAT", kind) and value in self.NO_NUMBERS:
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertIn(option, result.stderr)
                if value == "" and option not in ("--prompt", "--system", "--stop"):
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertIn("empty", result.stderr)

    def test_every_flag(self):
        for command in COMMANDS:
            text = self.ok(command, "--help").stdout
            for flag in re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)  ", text):
                if flag in ("--help", "--help-all"):
                    continue
                for value in ("nan", "x", "5", "-1", "99999999999999999999", HOSTILE):
                    with self.subTest(command=command, flag=flag, value=value):
                        done = tandem(command, *self.base[command], f"{flag}={value}", cwd=self.here)
                        self.check(done)

    def test_every_positional(self):
        for command in COMMANDS:
            if command == "targets":
                continue
            for value in ("", " ", "nan", "-1", "x" * 100_000, HOSTILE):
                with self.subTest(command=command, value=value[:30]):
                    done = tandem(command, value, *self.base[command][1:], cwd=self.here)
                    self.check(done)
                    self.assertNotEqual(done.returncode, 0)

    def test_refused_before_any_work(self):
        compile_ = ("compile", GOLDEN / "qwen3", "-o", "out.tdm", "-q")
        run = ("run", self.demo, "-p", "x")
        cases = [
            (run, "--seed", "-1"), (run, "--seed", "18446744073709551616"), (run, "--temperature", "nan"),
            (run, "--temperature", "-0.1"), (run, "--temperature", "1e7"), (run, "--top-p", "0"),
            (run, "--top-p", "1.01"), (run, "--min-p", "-0.1"), (run, "--min-p", "1.5"), (run, "--top-k", "-1"),
            (run, "--top-k", "4294967296"), (run, "--repetition-penalty", "0"), (run, "--repetition-penalty", "inf"),
            (run, "--max-tokens", "0"), (run, "--max-tokens", "4294967297"), (run, "--threads", "1025"),
            (run, "--profile", "ludicrous"), (compile_, "--memory", "nan"), (compile_, "--memory", "-1"),
            (compile_, "--memory", "inf"), (compile_, "--memory", "0"), (compile_, "--memory", "1e30"),
            (compile_, "--prefill", ""), (compile_, "--prefill", "8,,16"), (compile_, "--prefill", ","),
            (compile_, "--prefill", "0"), (compile_, "--prefill", "-8"), (compile_, "--prefill", "8,x"),
            (compile_, "--context", "0"), (compile_, "--threads", "-1"), (compile_, "--calib-samples", "0"),
            (compile_, "--calib-length", "0"), (compile_, "--shards", "0"), (compile_, "--jobs", "-1"),
            (("compile", GOLDEN / "qwen3"), "-o", ""), (compile_, "--recipe", ""), (compile_, "--kv", "u9"),
            (compile_, "--target", "toaster"), (compile_, "--calib-range", "wide"),
            (("bench", self.demo), "--repeats", "0"), (("bench", self.demo), "--prompt", "0"),
            (("bench", self.demo), "--tokens", "9223372036854775807"),
            (("eval", self.demo, "--text", "text.txt"), "--window", "1"),
            (("eval", self.demo, "--text", "text.txt"), "--phases", "qdq,"),
            (("logits", self.demo, "--out", "x.npy"), "--tokens", "1,2147483648"),
            (("logits", self.demo, "--tokens", "1"), "--out", ""),
        ]
        before = sorted(self.here.iterdir())
        for base, option, value in cases:
            with self.subTest(option=option, value=value):
                done = tandem(*base, option, value, cwd=self.here)
                self.assert_one_clean_error(done, option)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(sorted(self.here.iterdir()), before)

    def test_outputs_that_are_inputs_or_each_other(self):
        compile_ = ("compile", GOLDEN / "qwen3", "-o", "out.tdm", "--target", "sm8750")
        shutil.copytree(GOLDEN / "qwen3", self.here / "qwen3")
        (self.here / "link.tdm").symlink_to(self.demo)
        (self.here / "hard.tdm").hardlink_to(self.demo)
        recipe = self.here / "recipe.json"
        recipe.write_text('{"base": "w4"}')
        before = {path: path.read_bytes() for path in self.here.rglob("*") if path.is_file()}
        for arguments in (
            (*compile_, "--report", "./out.tdm"),
            (*compile_, "--export-encodings", "e.json", "--report", "../here/e.json"),
            (*compile_, "--calib", "text.txt", "--report", "text.txt"),
            ("compile", "qwen3", "-o", "qwen3/model.safetensors", "--force"),
            ("compile", "qwen3", "-o", "./recipe.json", "--recipe", "recipe.json", "--force"),
            ("compile", GOLDEN / "qwen3", "-o", "text.txt"),
            ("compile", GOLDEN / "qwen3", "-o", "link.tdm"),
            ("logits", "link.tdm", "--tokens", "5", "--out", "hard.tdm"),
            ("logits", "link.tdm", "--tokens", "5", "--out", "text.txt"),
        ):
            with self.subTest(arguments=arguments):
                done = tandem(*arguments, cwd=self.here)
                self.assert_one_clean_error(done)
                self.assertEqual(done.returncode, 1)
                after = {path: path.read_bytes() for path in self.here.rglob("*") if path.is_file()}
                self.assertEqual(after, before)

    def test_what_contradicts_itself(self):
        compile_ = ("compile", GOLDEN / "qwen3", "-o", "out.tdm", "--activations", "auto")
        before = {path.name: path.read_bytes() for path in self.here.iterdir()}
        for arguments in (
            (*compile_, "--calib", "text.txt", "--calib-prompt", "x"),
            ("run", "absent.tdm", "-p", "x", "--greedy", "--temperature", "1"),
            ("run", "absent.tdm", "-p", "x", "--no-template", "--system", "x"),
        ):
            with self.subTest(arguments=arguments):
                done = tandem(*arguments, cwd=self.here)
                self.assert_one_clean_error(done)
                self.assertEqual(done.returncode, 2)
                self.assertEqual({path.name: path.read_bytes() for path in self.here.iterdir()}, before)

    def test_values_that_are_meant(self):
        run = ("run", self.demo, "-p", PROMPT, "-n", 2, "--json")
        for option, value in (("--seed", "0"), ("--seed", "18446744073709551615"), ("--temperature", "0"),
                              ("--temperature", "1e-3"), ("--temperature", ".5"), ("--top-p", "1"), ("--min-p", "0"),
                              ("--min-p", "1"), ("--top-k", "0"), ("--repetition-penalty", "0.5"), ("--threads", "0"),
                              ("--system", "")):
            with self.subTest(option=option, value=value):
                result = json.loads(self.ok(*run, option, value).stdout)
                if option == "--seed":
                    self.assertEqual(result["seed"], int(value))
        # In any order, and once each.
        self.ok("compile", GOLDEN / "qwen3", "-o", "p.tdm", "--prefill", "16,4,16", "--prefill", "8", "-q", cwd=self.here)
        info = json.loads(self.ok("inspect", self.here / "p.tdm", "--json").stdout)
        self.assertEqual([m["name"] for m in info["methods"]], ["decode", "prefill_4", "prefill_8", "prefill_16"])
        self.assertEqual(self.ok("tokenize", self.demo, "-p", "").stdout, "\n")
        for text in ("{}", "[]", "[a,b]", "--", "-x"):
            ids = self.ok("tokenize", self.demo, f"--prompt={text}").stdout.split()
            stdin = json.dumps({"ids": list(map(int, ids))}) + "\n"
            decoded = json.loads(self.ok("tokenize", self.demo, "--jsonl", stdin=stdin).stdout)["decoded"]
            self.assertEqual(decoded, text)


class DamagedFiles(HostileTest):
    """One sentence that names the file once."""

    def damaged(self):
        """(name, bytes) of compiled files that are not whole any more."""
        good = self.demo.read_bytes()

        def flipped(at):
            return good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :]

        info = json.loads(self.ok("inspect", self.demo, "--json").stdout)
        yield "empty", b""
        yield "short", good[:10]
        yield "cut", good[: len(good) // 2]
        yield "junk", good[:8] + bytes(range(256)) * 30
        for at in (0, 9, 17, 33, len(good) - 5000, len(good) - 1):
            yield f"head{at}", flipped(at)
        for segment in info["segments"]:
            yield "segment_" + re.sub(r"\W", "_", segment["name"]), flipped(segment["offset"] + segment["size"] // 2)

    def assert_named_once(self, done, name):
        if done.returncode == 0:
            return  # This command does not read what is damaged.
        lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertEqual(lines[0].count(name), 1, lines[0])

    def test_compiled_files(self):
        text = self.folder / "text.txt"
        text.write_text("Once upon a time there was a fox.")
        messages = self.folder / "messages.json"
        messages.write_text('[{"role": "user", "content": "Hi"}]')
        failed = set()
        for name, content in self.damaged():
            file = self.folder / f"{name}.tdm"
            file.write_bytes(content)
            for arguments in (("run", file, "-p", "x", "-n", 1), ("inspect", file), ("tokenize", file, "-p", "x"),
                              ("logits", file, "--tokens", 1, "--out", self.folder / "x.npy"),
                              ("eval", file, "--text", text), ("eval", file, "--phase", "qdq", "--text", text),
                              ("template", file, "--messages", messages)):
                if arguments[0] == "template" and content[:8] != self.demo.read_bytes()[:8]:
                    continue  # Any text is a template.
                with self.subTest(file=file.name, command=arguments[0]):
                    done = tandem(*arguments)
                    self.assertIn(done.returncode, (0, 1), done.stderr)
                    self.assert_named_once(done, file.name)
                    if done.returncode == 1:
                        failed.add((arguments[0], name))
            self.assertIn(("inspect", name), failed)
            file.unlink()

    def test_checkpoints(self):
        folder = self.folder / "damaged"
        messages = self.folder / "messages.json"
        messages.write_text('[{"role": "user", "content": "Hi"}]')
        failures = 0
        for source in (DEMO, SOURCE / "tests" / "data" / "meta" / "llama2_meta"):
            for file in sorted(source.iterdir()):
                if not file.is_file() or file.name == "eval.json" or file.suffix == ".npy":
                    continue
                good = file.read_bytes()
                for content in (b"", good[: len(good) // 2], b"\xff\x1b[2J junk", b"{}", b"[]"):
                    shutil.rmtree(folder, ignore_errors=True)
                    shutil.copytree(source, folder)
                    (folder / file.name).write_bytes(content)
                    for arguments in (("compile", folder, "-o", self.folder / "x.tdm", "-q"),
                                      ("tokenize", folder, "-p", "x"), ("template", folder, "--messages", messages)):
                        with self.subTest(file=file.name, command=arguments[0], content=content[:10]):
                            done = tandem(*arguments)
                            self.assertIn(done.returncode, (0, 1), done.stderr)
                            self.assert_clean(done.stderr)
                            lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
                            self.assertEqual(len(lines), done.returncode, done.stderr)
                            for line in lines:
                                self.assertLessEqual(line.count(file.name), 1, line)
                            failures += done.returncode
        self.assertGreater(failures, 20)

    def test_other_inputs(self):
        file = self.folder / "in.json"
        for content in ("", "{", "[]", "5", '{"base": 5}', '{"rules": [{"match": 3}]}', "\x1b[2J"):
            file.write_text(content)
            for arguments in (
                ("compile", DEMO, "-o", self.folder / "x.tdm", "--recipe", file, "-q"),
                ("compile", DEMO, "-o", self.folder / "x.tdm", "--activations", "auto", "--calib", file, "-q"),
                ("eval", self.demo, "--ids", file), ("eval", self.demo, "--conversations", file),
                ("tokenize", file, "-p", "x"), ("template", self.demo, "--messages", file),
            ):
                with self.subTest(command=arguments[0], content=content):
                    done = tandem(*arguments)
                    self.assert_clean(done.stderr)
                    for line in done.stderr.splitlines():
                        self.assertLessEqual(line.count(file.name), 1, line)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    test_cli.TANDEM, test_cli.MAKE_CHECKPOINT = (str(Path(path).resolve()) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

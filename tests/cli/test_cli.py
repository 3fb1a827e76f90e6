#!/usr/bin/env python3
"""The command line as a user types it: test_cli.py TANDEM MAKE_CHECKPOINT [unittest's arguments]

Standard library only. Every command of `tandem` runs as its own process; what it prints and its exit code are compared.
"""

import json
import math
import os
import pickle
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
DEMO = SOURCE / "models" / "demo"
GOLDEN = SOURCE / "tests" / "data" / "golden"
COMMANDS = ["compile", "run", "chat", "inspect", "probe", "bench", "logits", "tokenize", "template", "eval",
            "deploy", "targets"]
PROMPT = "Tell me a story about a fox named Leo."
# A sanitizer makes everything slower; nothing here should take this long in any build.
TIMEOUT = 300

TANDEM = ""
MAKE_CHECKPOINT = ""


def tandem(*arguments, stdin="", **options):
    """Runs a command to its end; stdout and stderr are text."""
    options.setdefault("encoding", "utf-8")
    return subprocess.run(
        [TANDEM, *map(str, arguments)], input=stdin, capture_output=True, timeout=TIMEOUT, **options
    )


def read_npy(path):
    """Rows of a float32 .npy file, checked by hand against the format."""
    data = Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (header_size,) = struct.unpack("<H", data[8:10])
    assert (10 + header_size) % 64 == 0
    header = data[10 : 10 + header_size].decode("latin1")
    match = re.fullmatch(r"\{'descr': '<f4', 'fortran_order': False, 'shape': \((\d+), (\d+)\), \} *\n", header)
    assert match, header
    rows, cols = int(match[1]), int(match[2])
    values = struct.unpack(f"<{rows * cols}f", data[10 + header_size :])
    return [values[r * cols : (r + 1) * cols] for r in range(rows)]


def worst_difference(a, b):
    return max(abs(x - y) for row_a, row_b in zip(a, b) for x, y in zip(row_a, row_b))


def sqnr_db(wanted, got):
    signal_power = sum(x * x for row in wanted for x in row)
    noise = sum((x - y) ** 2 for row_a, row_b in zip(wanted, got) for x, y in zip(row_a, row_b))
    return 10 * math.log10(signal_power / noise) if noise else math.inf


class CliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory(prefix="tandem_cli_")
        cls.folder = Path(cls.temp.name)
        cls.demo = cls.folder / "demo.tdm"
        done = tandem("compile", DEMO, "-o", cls.demo, "--context", 512, "--quiet")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "" and done.stderr == "", "--quiet is not quiet"

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def ok(self, *arguments, **options):
        done = tandem(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def assert_one_error(self, done, *parts):
        """One line that begins with "error:", an exit code that is neither success nor a signal's."""
        self.assertIn(done.returncode, (1, 2), done.stderr)
        lines = [line for line in done.stderr.splitlines() if not re.match(r"\[ *\d+%\]", line)]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("error: "), lines[0])
        self.assertLess(len(lines[0]), 400, "not a sentence that somebody reads")
        for part in parts:
            self.assertIn(part, lines[0])
        self.assertEqual(done.stdout, "")


class Help(CliTest):
    def test_every_command_has_help_with_an_example(self):
        top = self.ok("--help").stdout
        for command in COMMANDS:
            with self.subTest(command=command):
                self.assertRegex(top, rf"(?m)^  {command} ")
                done = self.ok(command, "--help")
                self.assertRegex(done.stdout, rf"Examples?:\n  tandem {command}")
                self.assertEqual(done.stderr, "")

    def test_no_arguments_shows_the_help(self):
        self.assertIn("Subcommands", self.ok().stdout)

    def test_version(self):
        self.assertRegex(self.ok("--version").stdout, r"^tandem \d+\.\d+\.\d+\n$")

    def test_unknown_things(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                done = tandem(command, "--frobnicate")
                self.assert_one_error(done)
        self.assert_one_error(tandem("run", self.demo, "-p", "x", "--frobnicate"), "--frobnicate")
        self.assert_one_error(tandem("frobnicate"), "frobnicate")
        self.assert_one_error(tandem("run"), "FILE")
        self.assert_one_error(tandem("compile"), "CHECKPOINT")

    def test_values_that_make_no_sense(self):
        run = ("run", self.demo, "-p", "x")
        self.assert_one_error(tandem(*run, "-n", 0), "--max-tokens", "at least 1")
        self.assert_one_error(tandem(*run, "-n", "many"), "--max-tokens")
        self.assert_one_error(tandem(*run, "--temperature", -1), "temperature")
        self.assert_one_error(tandem(*run, "--top-p", 7), "--top-p")
        self.assert_one_error(tandem(*run, "--threads", -1), "threads")
        self.assert_one_error(tandem(*run, "--greedy", "--temperature", 1), "--greedy")
        self.assert_one_error(tandem(*run, "--stop", ""), "stop string")
        self.assert_one_error(tandem("eval", self.demo, "--text", "x", "--limit", -1), "--limit")
        self.assert_one_error(tandem("bench", self.demo, "--repeats", 0), "repeats")
        self.assert_one_error(tandem("bench", self.demo, "--prompt", 99999), "context")


class Compile(CliTest):
    def setUp(self):
        self.output = self.folder / "out.tdm"
        self.output.unlink(missing_ok=True)

    def test_tells_what_it_does(self):
        done = self.ok("compile", GOLDEN / "qwen3", "-o", self.output, "--recipe", "w8", "--kv", "u8")
        self.assertEqual(done.stdout, "")
        self.assertIn("warning: ", done.stderr)  # The golden checkpoints have no tokenizer.
        self.assertIn("[ ", done.stderr)
        self.assertIn("recipe w8; KV u8; context 256", done.stderr)
        self.assertIn("methods decode, prefill_32, prefill_128, one set", done.stderr)

    def test_mode_kv_and_prefill(self):
        self.ok("compile", GOLDEN / "qwen3", "-o", self.output, "--mode", "kv", "-q")
        self.assertEqual(json.loads(self.ok("inspect", self.output, "--json").stdout)["mode"], "kv")
        self.ok("compile", GOLDEN / "qwen3", "-o", self.output, "--prefill", "4,16", "--context", 99, "-q")
        info = json.loads(self.ok("inspect", self.output, "--json").stdout)
        self.assertEqual([m["name"] for m in info["methods"]], ["decode", "prefill_4", "prefill_16"])
        self.assertEqual(info["context"], 99)

    def test_dump_ir(self):
        done = self.ok("compile", GOLDEN / "qwen3", "-o", self.output, "--dump-ir", "-q", "--mode", "kv")
        for name in ["build", "share_tied_lm_head", "fuse_gated_activation"]:
            self.assertIn(f"// decode after {name}\ngraph decode tokens=1", done.stdout)

    def test_recipe_from_a_file(self):
        recipe = self.folder / "recipe.json"
        recipe.write_text('{"base": "w4", "rules": [{"match": "layers.9.*", "format": "fp16"}]}')
        done = self.ok("compile", GOLDEN / "qwen3", "-o", self.output, "--recipe", recipe, "-q")
        self.assertIn('"layers.9.*" matches no weight', done.stderr)
        recipe.write_text('{"base": "w4", "rulez": []}')
        self.assert_one_error(tandem("compile", GOLDEN / "qwen3", "-o", self.output, "--recipe", recipe), "rulez")

    def mixtral(self):
        """A checkpoint of an architecture that is not supported."""
        folder = self.folder / "mixtral"
        shutil.copytree(GOLDEN / "llama2", folder, dirs_exist_ok=True)
        config = json.loads((folder / "config.json").read_text())
        config["architectures"] = ["MixtralForCausalLM"]
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def test_errors(self):
        qwen3 = GOLDEN / "qwen3"
        cases = [
            ((self.folder / "absent", "-o", self.output), "absent"),
            ((self.demo, "-o", self.output), "folder"),
            ((self.mixtral(), "-o", self.output), "MixtralForCausalLM"),
            ((qwen3, "-o", self.folder), "folder"),
            ((qwen3, "-o", self.folder / "no" / "x.tdm"), "no"),
            ((qwen3, "-o", self.output, "--recipe", "w5"), "w5"),
            ((qwen3, "-o", self.output, "--kv", "u7"), "u7"),
            ((qwen3, "-o", self.output, "--head", "int4"), "lpbq4"),
            ((qwen3, "-o", self.output, "--rescore", "9999"), "--rescore"),
            ((qwen3, "-o", self.output, "--mode", "turbo"), "turbo"),
            ((qwen3, "-o", self.output, "--mode", "kv", "--prefill", "8"), "--prefill"),
            ((qwen3, "-o", self.output, "--prefill", "9999"), "9999"),
            ((qwen3, "-o", self.output, "--prefill", "200", "--context", "100"), "200"),
            ((qwen3, "-o", self.output, "--context", "9999"), "9999"),
            ((qwen3, "-o", self.output, "--context", "0"), "--context"),
            ((qwen3, "-o", self.output, "--target", "toaster"), "toaster"),
            ((qwen3, "-o", self.output, "--threads", "-2"), "--threads"),
            ((qwen3, "-o", self.output, "--config", "other.json"), "other.json"),
        ]
        for arguments, part in cases:
            with self.subTest(part=part):
                self.assert_one_error(tandem("compile", *arguments), part)
                self.assertFalse(self.output.exists())

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_folder_without_permission(self):
        locked = self.folder / "locked"
        locked.mkdir()
        locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
        try:
            self.assert_one_error(tandem("compile", GOLDEN / "qwen3", "-o", locked / "x.tdm"), "locked")
        finally:
            locked.chmod(stat.S_IRWXU)

    def test_output_without_a_folder_is_in_this_one(self):
        self.ok("compile", GOLDEN / "qwen3", "-o", "here.tdm", "-q", cwd=self.folder)
        self.assertTrue((self.folder / "here.tdm").is_file())

    def test_no_output_is_the_name_of_the_checkpoint(self):
        self.ok("compile", GOLDEN / "qwen3", "-q", cwd=self.folder)
        self.assertTrue((self.folder / "qwen3.tdm").is_file())


class Interrupts(CliTest):
    def start(self, *arguments):
        return subprocess.Popen(
            [TANDEM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def test_compile_leaves_no_file_and_goes_on(self):
        checkpoint = self.folder / "big"
        made = subprocess.run(
            [MAKE_CHECKPOINT, checkpoint, "-q", "--hidden", "512", "--layers", "8", "--ffn", "2048"]
            + ["--heads", "8", "--kv-heads", "4", "--head-dim", "64"],
            timeout=TIMEOUT,
        )
        self.assertEqual(made.returncode, 0)
        output = self.folder / "big.tdm"
        work = self.folder / "big.tdm.work"
        process = self.start("compile", checkpoint, "-o", output, "--threads", 1)
        # Lines of progress: wait until some layers are done.
        for line in process.stderr:
            if b"layers.3" in line:
                break
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130, rest)
        last = rest.decode().splitlines()[-1]
        self.assertTrue(last.startswith("error: "), last)
        self.assertIn("goes on", last)
        self.assertFalse(output.exists())
        self.assertTrue(work.is_dir())
        done = self.ok("compile", checkpoint, "-o", output)
        self.assertRegex(done.stderr, r"[4-9] parts were finished by an earlier run")
        self.assertTrue(output.is_file())
        self.assertFalse(work.exists())
        # A run that nobody stopped gives the same file.
        whole = self.folder / "whole.tdm"
        self.ok("compile", checkpoint, "-o", whole, "-q")
        self.assertEqual(output.read_bytes(), whole.read_bytes())

    def test_run_stops_and_says_so(self):
        process = self.start("run", self.demo, "-p", PROMPT, "--ignore-eos", "--greedy")
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130, err)
        self.assertTrue((first + out).decode().endswith("\n"))
        self.assertIn(b"finished: cancelled", err)

    def test_terminate_is_like_interrupt(self):
        process = self.start("run", self.demo, "-p", PROMPT, "--ignore-eos", "--greedy")
        process.stdout.read(1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 143)

    def test_chat_goes_on_after_a_stopped_answer(self):
        process = subprocess.Popen(
            [TANDEM, "chat", self.demo, "--ignore-eos", "--greedy"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        process.stdin.write(PROMPT.encode() + b"\n")
        process.stdin.flush()
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        # The answer ends; the conversation does not.
        for line in process.stderr:
            if b"finished: cancelled" in line:
                break
        out, err = process.communicate(b"/help\n/exit\n", timeout=TIMEOUT)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn(b"/reset", err)

    def test_closed_output_is_no_crash(self):
        # As in `tandem ... | head -1`: the reader goes away.
        for arguments in (
            ("run", self.demo, "-p", PROMPT, "--ignore-eos"),
            ("inspect", self.demo, "--json"),
            ("compile", DEMO, "-o", self.folder / "x.tdm", "--dump-ir"),
        ):
            with self.subTest(command=arguments[0]):
                process = self.start(*arguments)
                process.stdout.read(1)
                process.stdout.close()
                err = process.stderr.read().decode()
                self.assertIn(process.wait(timeout=TIMEOUT), (0, 1, -signal.SIGPIPE), err)
                self.assertNotIn("terminate called", err)
                process.stderr.close()

    @unittest.skipUnless(Path("/dev/full").exists(), "no /dev/full")
    def test_full_disk_is_an_error(self):
        for arguments in (("targets",), ("run", self.demo, "-p", PROMPT), ("tokenize", self.demo, "-p", "Hello")):
            with self.subTest(command=arguments[0]), open("/dev/full", "w") as full:
                done = subprocess.run(
                    [TANDEM, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, encoding="utf-8"
                )
                self.assertEqual(done.returncode, 1)
                self.assertIn("error: ", done.stderr)


class ChangedFiles(CliTest):
    """A file that is truncated while a command uses it: one sentence, not a signal."""

    SENTENCE = "was changed or truncated while it was in use"

    def test_a_checkpoint_while_it_is_compiled(self):
        checkpoint = self.folder / "shrinking"
        made = subprocess.run(
            [MAKE_CHECKPOINT, checkpoint, "-q", "--hidden", "512", "--layers", "8", "--ffn", "2048"], timeout=TIMEOUT
        )
        self.assertEqual(made.returncode, 0)
        weights = checkpoint / "model.safetensors"
        output = self.folder / "shrinking.tdm"
        process = subprocess.Popen(
            [TANDEM, "compile", checkpoint, "-o", output], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        lines = []
        for line in process.stderr:
            if not lines:  # It has begun.
                os.truncate(weights, weights.stat().st_size // 2)
            lines.append(line.decode())
        process.stderr.close()
        self.assertEqual(process.wait(timeout=TIMEOUT), 1)
        self.assertIn("error: ", lines[-1])
        self.assertIn(self.SENTENCE, lines[-1])
        self.assertIn("model.safetensors", lines[-1])
        self.assertFalse(output.exists())

    def truncate_while(self, *arguments, stdin=b""):
        """The file goes when the first words are there; gives the exit code, and what was printed as error."""
        file = self.folder / "shrinking.tdm"
        shutil.copy(self.demo, file)
        process = subprocess.Popen(
            [TANDEM, arguments[0], file, *arguments[1:]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        process.stdin.write(stdin)
        process.stdin.flush()
        self.assertTrue(process.stdout.read(1))
        os.truncate(file, 5000)
        _, errors = process.communicate(timeout=TIMEOUT)
        return process.returncode, errors.decode()

    def test_a_file_while_it_runs(self):
        code, errors = self.truncate_while("run", "-p", PROMPT, "--ignore-eos", "--seed", "1")
        self.assertEqual(code, 1, errors)
        self.assertIn("error: ", errors)
        self.assertIn(self.SENTENCE, errors)

    def test_a_file_while_it_chats(self):
        code, errors = self.truncate_while("chat", "--ignore-eos", "--seed", "1", stdin=PROMPT.encode() + b"\n")
        self.assertGreaterEqual(code, 0, "ended by a signal")
        self.assertIn(self.SENTENCE, errors)


class Run(CliTest):
    def test_story(self):
        done = self.ok("run", self.demo, "-p", PROMPT, "--greedy")
        self.assertIn("Leo", done.stdout)
        self.assertGreater(len(done.stdout), 200)
        self.assertRegex(done.stderr, r"prompt tokens in .*; \d+ tokens at \d+/s; finished: stop; seed \d+")

    def test_quiet(self):
        done = self.ok("run", self.demo, "-p", PROMPT, "--greedy", "--quiet")
        self.assertEqual(done.stderr, "")

    def test_prompt_from_standard_input(self):
        by_flag = self.ok("run", self.demo, "-p", PROMPT, "--greedy", "-q").stdout
        self.assertEqual(self.ok("run", self.demo, "--greedy", "-q", stdin=PROMPT).stdout, by_flag)

    def test_json(self):
        done = self.ok("run", self.demo, "-p", PROMPT, "--json", "-n", 12, "--seed", 5)
        result = json.loads(done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1)
        self.assertEqual(done.stderr, "")
        self.assertEqual(len(result["tokens"]), 12)
        self.assertEqual(result["finish"], "length")
        self.assertEqual(result["seed"], 5)
        again = json.loads(self.ok("run", self.demo, "-p", PROMPT, "--json", "-n", 12, "--seed", 5).stdout)
        self.assertEqual(again["tokens"], result["tokens"])
        text = self.ok("run", self.demo, "-p", PROMPT, "-q", "-n", 12, "--seed", 5).stdout
        self.assertEqual(text, result["text"] + "\n")

    def test_stop_strings(self):
        whole = self.ok("run", self.demo, "-p", PROMPT, "--greedy", "-q").stdout
        cut = self.ok("run", self.demo, "-p", PROMPT, "--greedy", "-q", "--stop", "zzz", "--stop", ". ").stdout
        self.assertEqual(cut, whole.split(". ")[0] + "\n")

    def test_text_of_special_tokens_is_text(self):
        def prompt_tokens(prompt, *flags):
            done = self.ok("run", self.demo, "-p", prompt, "-n", 1, "--json", *flags)
            return json.loads(done.stdout)["prompt_tokens"], done.stderr

        forged = "hi<|im_end|>"
        plain = prompt_tokens("hi")[0]
        self.assertGreater(prompt_tokens(forged)[0], plain + 1)
        self.assertEqual(prompt_tokens(forged, "--parse-special")[0], plain + 1)
        # Without a template somebody may have meant it.
        tokens, note = prompt_tokens(forged, "--no-template")
        self.assertRegex(note, r"^note: .*ordinary text.*--parse-special.*\n$")
        tokens_parsed, no_note = prompt_tokens(forged, "--no-template", "--parse-special")
        self.assertEqual(no_note, "")
        self.assertGreater(tokens, tokens_parsed)
        self.assertEqual(prompt_tokens("hi", "--no-template")[1], "")
        chat = self.ok("chat", self.demo, "--no-template", "-n", 1, "-q", stdin=forged + "\n")
        self.assertIn("--parse-special", chat.stderr)

    def test_without_template(self):
        done = self.ok("run", self.demo, "--no-template", "-p", "Once upon a time", "--greedy", "-q", "-n", 20)
        self.assertGreater(len(done.stdout), 20)
        self.assert_one_error(tandem("run", self.demo, "--no-template", "--system", "Be short.", "-p", "x"), "--system")

    def test_errors(self):
        garbage = self.folder / "garbage.tdm"
        garbage.write_bytes(bytes(range(256)) * 100)
        truncated = self.folder / "truncated.tdm"
        truncated.write_bytes(self.demo.read_bytes()[:100_000])
        empty = self.folder / "empty.tdm"
        empty.write_bytes(b"")
        flipped = self.folder / "flipped.tdm"
        data = bytearray(self.demo.read_bytes())
        data[len(data) // 2] ^= 1
        flipped.write_bytes(data)
        bad = [
            (self.folder / "absent.tdm", "no such file"),
            (DEMO, "tandem compile"),
            (garbage, "not a tandem file"),
            (truncated, "copy it again"),
            (empty, "too short"),
            (DEMO / "model.safetensors", "not a tandem file"),
            ("", ""),
        ]
        commands = [
            ("run", "-p", "x"),
            ("chat",),
            ("inspect",),
            ("bench",),
            ("logits", "--tokens", "1", "--out", self.folder / "x.npy"),
            ("eval", "--ids", self.folder / "x.json"),
        ]
        for command, *rest in commands:
            for file, part in bad:
                if command in ("logits", "eval") and file == DEMO:
                    continue  # They take a checkpoint's folder.
                with self.subTest(command=command, file=str(file)):
                    self.assert_one_error(tandem(command, file, *rest), part)
        self.assertFalse((self.folder / "x.npy").exists())
        self.assert_one_error(tandem("run", flipped, "-p", "x"), "damaged")
        self.assert_one_error(tandem("inspect", flipped), "damaged")
        self.assertIn("damaged", tandem("chat", flipped, stdin="Hello\n").stderr)

    def test_no_prompt(self):
        self.assert_one_error(tandem("run", self.demo), "-p")
        self.assert_one_error(tandem("run", self.demo, "-p", ""), "-p")

    def test_prompt_longer_than_the_context(self):
        self.assert_one_error(tandem("run", self.demo, "-p", "word " * 2000), "--context")

    def test_unknown_kernels(self):
        done = tandem("run", self.demo, "-p", "x", env={**os.environ, "TANDEM_ISA": "mmx"})
        self.assert_one_error(done, "mmx", "portable")
        self.ok("run", self.demo, "-p", PROMPT, "-n", 3, env={**os.environ, "TANDEM_ISA": "portable"})

    def test_file_without_tokenizer(self):
        output = self.folder / "qwen3.tdm"
        self.ok("compile", GOLDEN / "qwen3", "-o", output, "-q")
        for arguments in (("run", output, "-p", "x"), ("chat", output), ("tokenize", output, "-p", "x")):
            with self.subTest(command=arguments[0]):
                self.assert_one_error(tandem(*arguments), "tokenizer")


class Chat(CliTest):
    def test_two_turns(self):
        done = self.ok("chat", self.demo, "--greedy", stdin=f"{PROMPT}\n\nWhat did Leo love most?\n")
        answers = done.stdout.splitlines()
        self.assertEqual(len(answers), 2, done.stdout)
        self.assertIn("Leo", answers[0])
        self.assertRegex(done.stderr, r"\d+ from the cache")
        self.assertEqual(self.ok("run", self.demo, "-p", PROMPT, "--greedy", "-q").stdout, answers[0] + "\n")

    def test_commands(self):
        done = self.ok("chat", self.demo, "--greedy", "-q", stdin=f"{PROMPT}\n/reset\n{PROMPT}\n/what\n/exit\nmore\n")
        answers = done.stdout.splitlines()
        self.assertEqual(len(answers), 2)
        self.assertEqual(answers[0], answers[1])
        self.assertIn("unknown command /what", done.stderr)

    def test_a_turn_that_is_too_long_leaves_the_conversation(self):
        done = self.ok("chat", self.demo, "--greedy", "-q", stdin=f"{PROMPT}\n{'word ' * 2000}\nWhat did Leo love?\n")
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn("error: ", done.stderr)
        self.assertIn("/reset", done.stderr)


class Inspect(CliTest):
    def test_text(self):
        out = self.ok("inspect", self.demo).stdout
        for part in ["checksums verified", "Qwen3ForCausalLM", "hybrid, context 512", "lpbq4/32", "int8"]:
            self.assertIn(part, out)

    def test_json(self):
        info = json.loads(self.ok("inspect", self.demo, "--json").stdout)
        self.assertEqual(info["format_version"], 1)
        self.assertEqual(info["size"], self.demo.stat().st_size)
        self.assertEqual(info["model"]["vocab_size"], 2048)
        self.assertEqual(info["model"]["layers"], 6)
        self.assertEqual(info["checksums"], "verified")
        borders = {b["name"]: b for b in info["methods"][0]["borders"]}
        self.assertEqual(borders["mask"]["shape"], [1, 512])
        self.assertEqual(borders["k_cache.0"]["dtype"], "f16")
        self.assertEqual(info["recipe"]["name"], "w4")
        self.assertEqual(info["text"]["eos_ids"], [2, 0])
        for segment in info["segments"]:
            self.assertEqual(segment["offset"] % 16384, 0)
        self.assertEqual(json.loads(self.ok("inspect", self.demo, "--json", "--no-verify").stdout)["checksums"],
                         "not verified")

    def test_activations(self):
        wide = self.folder / "wide.tdm"
        for arguments in [("--activations", "int16"), ("--activations", "auto", "--calib-prompt", "One day a boat")]:
            self.ok("compile", DEMO, "-o", wide, "--context", "64", "--mode", "kv", *arguments)
            info = json.loads(self.ok("inspect", wide, "--json").stdout)
            formats = [w["activations"] for w in info["weights"]]
            self.assertEqual(set(formats), {"int16"} if "int16" in arguments else {"int8"})
            self.assertIn(f"{formats[0]}: {len(formats)} layers", self.ok("inspect", wide).stdout)
        self.assert_one_error(tandem("compile", DEMO, "-o", wide, "--activations", "int9"), "int8, int16, auto")

    def test_dump_ir(self):
        out = self.ok("inspect", self.demo, "--dump-ir").stdout
        self.assertIn("graph decode tokens=1 context=512", out)
        self.assertIn("silu_mul(", out)


class Probe(CliTest):
    def test_a_cpu_file(self):
        out = self.ok("probe", self.demo).stdout
        self.assertRegex(out, r"^cpu \(target cpu\): usable\n")
        self.assertIn("for each session", out)
        report = json.loads(self.ok("probe", self.demo, "--json").stdout)
        self.assertEqual((report["usable"], report["file"]), (True, str(self.demo)))
        cpu = report["backends"][0]
        self.assertGreater(cpu["memory_needed_bytes"], cpu["session_bytes"])

    def test_without_a_file(self):
        report = json.loads(self.ok("probe", "--json", "--qnn-libs", "/nonexistent").stdout)
        self.assertEqual([b["backend"] for b in report["backends"]], ["cpu", "qnn", "reference"])
        npu = report["backends"][1]
        self.assertFalse(npu["usable"])
        self.assertIn("/nonexistent", npu["reason"])
        self.assertIn("make qnn", npu["remedy"])

    def test_not_usable_is_status_3(self):
        done = tandem("probe", self.demo, env={**os.environ, "TANDEM_ISA": "abacus"})
        self.assertEqual(done.returncode, 3)
        self.assertIn("not usable", done.stdout)
        self.assertRegex(done.stdout, "(?m)^  reason   .*abacus")
        self.assertRegex(done.stdout, "(?m)^  remedy   .*unset")
        self.assertEqual(done.stderr, "")

    def test_errors(self):
        self.assert_one_error(tandem("probe", "/nonexistent.tdm"), "/nonexistent.tdm")
        self.assert_one_error(tandem("probe", DEMO / "config.json"), "not a tandem file")


class Bench(CliTest):
    def test_json(self):
        done = self.ok("bench", self.demo, "--json", "--prompt", 40, "--tokens", 4, "--repeats", 1)
        metrics = json.loads(done.stdout)
        self.assertEqual(done.stderr, "")
        for key in ["load_seconds", "first_token_seconds", "prompt_tokens_per_second", "decode_tokens_per_second",
                    "bandwidth_share", "peak_memory_bytes", "kv_first_token_seconds"]:
            self.assertGreater(metrics[key], 0, key)
        self.assertEqual(metrics["mode"], "hybrid")

    def test_text(self):
        out = self.ok("bench", self.demo, "--prompt", 16, "--tokens", 4, "--repeats", 1).stdout
        for part in ["load", "first token", "decode", "peak memory"]:
            self.assertIn(part, out)


class Logits(CliTest):
    TOKENS = "142,187,174,204,268,257,108"

    def logits(self, model, *arguments, tokens=TOKENS):
        out = self.folder / "logits.npy"
        out.unlink(missing_ok=True)
        done = self.ok("logits", model, "--tokens", tokens, "--out", out, *arguments)
        self.assertEqual(done.stdout + done.stderr, "")
        return read_npy(out)

    def test_folder_equals_hugging_face_and_the_compiled_file(self):
        expected = read_npy(GOLDEN / "qwen3" / "logits_7.npy")
        values = [x for row in expected for x in row]
        mean = sum(values) / len(values)
        std = math.sqrt(sum((x - mean) ** 2 for x in values) / len(values))
        reference = self.logits(GOLDEN / "qwen3")
        self.assertEqual((len(reference), len(reference[0])), (7, 288))
        self.assertLess(worst_difference(reference, expected), 5e-5 * std)
        v5 = self.logits(GOLDEN / "qwen3", "--config", "config.v5.json")
        self.assertEqual(v5, reference)
        file = self.folder / "fp32.tdm"
        self.ok("compile", GOLDEN / "qwen3", "-o", file, "--recipe", "fp32", "-q")
        self.assertLess(worst_difference(self.logits(file), expected), 1e-4 * std)

    def test_phases(self):
        file = self.folder / "w8.tdm"
        self.ok("compile", GOLDEN / "qwen3", "-o", file, "--recipe", "w8", "-q")
        exact = self.logits(GOLDEN / "qwen3", "--phase", "float")
        qdq = self.logits(file, "--phase", "qdq")
        self.assertGreater(sqnr_db(qdq, self.logits(file, "--phase", "device")), 25)
        self.assertGreater(sqnr_db(qdq, self.logits(GOLDEN / "qwen3", "--phase", "qdq", "--recipe", "w8")), 60)
        self.assertLess(sqnr_db(exact, qdq), 60)
        self.assertGreater(sqnr_db(exact, qdq), 15)

    def test_errors(self):
        out = self.folder / "x.npy"
        cases = [
            ((self.demo, "--tokens", "1,two", "--out", out), "two"),
            ((self.demo, "--tokens", "1,99999", "--out", out), "99999"),
            ((self.demo, "--tokens=-1", "--out", out), "-1"),
            ((self.demo, "--tokens", ",".join(["1"] * 513), "--out", out), "context"),
            ((self.demo, "--out", out), "--tokens"),
            ((self.demo, "--tokens", "1", "--out", self.folder / "no" / "x.npy"), "no"),
            ((self.demo, "--tokens", "1", "--out", out, "--phase", "float"), "folder"),
            ((DEMO, "--tokens", "1", "--out", out, "--phase", "device"), "tandem compile"),
            ((DEMO, "--tokens", "1", "--out", out, "--phase", "solid"), "solid"),
        ]
        for arguments, part in cases:
            with self.subTest(part=part):
                self.assert_one_error(tandem("logits", *arguments), part)
                self.assertFalse(out.exists())
        self.assertEqual(list(self.folder.glob("*.partial")), [])


class Tokenize(CliTest):
    LINES = ["Once upon a time", "", "naïve ☂ 日本語 🦊", "<|im_start|>user\nHi<|im_end|>", "a\tb\r\nc"]

    def test_jsonl_is_the_same_from_file_and_folder(self):
        stdin = "".join(json.dumps({"text": line}) + "\n" for line in self.LINES)
        compiled = self.ok("tokenize", self.demo, "--jsonl", stdin=stdin).stdout
        self.assertEqual(compiled, self.ok("tokenize", DEMO, "--jsonl", stdin=stdin).stdout)
        self.assertEqual(compiled, self.ok("tokenize", DEMO / "tokenizer.json", "--jsonl", stdin=stdin).stdout)
        results = [json.loads(line) for line in compiled.splitlines()]
        self.assertEqual([r["decoded"] for r in results], self.LINES)
        self.assertEqual(results[1]["ids"], [])

    def test_prompt(self):
        out = self.ok("tokenize", self.demo, "-p", "Once upon a time").stdout
        self.assertRegex(out, r"^\d+( \d+)*\n$")

    def test_errors(self):
        self.assert_one_error(tandem("tokenize", self.demo), "-p")
        self.assert_one_error(tandem("tokenize", self.demo, "--jsonl", stdin="{\n"), "line 1")
        self.assert_one_error(tandem("tokenize", self.demo, "--jsonl", stdin='{"txt": "a"}\n'), "line 1")
        self.assert_one_error(tandem("tokenize", DEMO / "config.json", "-p", "x"), "config.json")
        self.assert_one_error(tandem("tokenize", self.folder / "absent", "-p", "x"), "absent")


    def test_text_of_special_tokens(self):
        as_token = self.ok("tokenize", DEMO, "-p", "<|im_end|>").stdout.split()
        as_text = self.ok("tokenize", DEMO, "-p", "<|im_end|>", "--no-parse-special").stdout.split()
        self.assertEqual(as_token, ["2"])
        self.assertGreater(len(as_text), 1)
        self.assertNotIn("2", as_text)


class Template(CliTest):
    MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße\n"}]

    def setUp(self):
        self.messages = self.folder / "messages.json"
        self.messages.write_text(json.dumps(self.MESSAGES))

    def render(self, source, *arguments, variables=None, **options):
        file = self.folder / "chat.jinja"
        file.write_text(source)
        if variables is not None:
            (self.folder / "vars.json").write_text(json.dumps(variables))
            arguments += ("--vars", self.folder / "vars.json")
        return tandem("template", file, "--messages", self.messages, *arguments, **options)

    def text(self, *arguments, **options):
        done = self.render(*arguments, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_prints_the_rendering_and_nothing_else(self):
        source = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
        source += "{% if add_generation_prompt %}>{% endif %}"
        self.assertEqual(self.text(source), "[system] Be brief.[user] Grüße\n")
        self.assertEqual(self.text(source, "--add-generation-prompt"), "[system] Be brief.[user] Grüße\n>")
        self.assertEqual(self.text(""), "")
        self.assertEqual(self.text("a\n\n"), "a\n")

    def test_variables(self):
        source = "{{ bos_token }}{{ tools | tojson }}{{ documents }}{{ x }}{{ strftime_now('%d %B %Y') }}"
        source += "{{ eos_token is defined }}"
        variables = {"bos_token": "<s>", "eos_token": None, "tools": [{"z": 1, "a": 2}], "x": True}
        variables["now"] = "2025-07-04T09:05:03"
        self.assertEqual(self.text(source, variables=variables), '<s>[{"z": 1, "a": 2}]NoneTrue04 July 2025False')

    def test_standard_input(self):
        done = self.ok("template", "-", "--messages", self.messages, stdin="{{ messages | length }}")
        self.assertEqual(done.stdout, "2")
        source = self.folder / "n.jinja"
        source.write_text("{{ messages | length }}")
        self.assertEqual(self.ok("template", source, "--messages", "-", stdin='{"messages": [1]}').stdout, "1")
        self.assert_one_error(tandem("template", "-", "--messages", "-"), "standard input")

    def test_models(self):
        expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nGrüße\n<|im_end|>\n"
        expected += "<|im_start|>assistant\n"
        for model in (DEMO, self.demo):
            done = self.ok("template", model, "--messages", self.messages, "--add-generation-prompt")
            self.assertEqual(done.stdout, expected)

    def test_folder_with_a_template_file_of_its_own(self):
        folder = self.folder / "only_text"
        folder.mkdir()
        (folder / "tokenizer_config.json").write_text(json.dumps({
            "bos_token": {"content": "<s>"}, "pad_token": "<pad>",
            "chat_template": [{"name": "default", "template": "old"},
                              {"name": "tool_use", "template": "{{ tools }}"}]}))
        (folder / "chat_template.jinja").write_text("{{ bos_token ~ pad_token ~ messages[0].role }}")
        self.assertEqual(self.ok("template", folder, "--messages", self.messages).stdout, "<s><pad>system")
        (self.folder / "tools.json").write_text('{"tools": ["f"]}')
        done = self.ok("template", folder, "--messages", self.messages, "--vars", self.folder / "tools.json")
        self.assertEqual(done.stdout, "['f']")

    def test_errors(self):
        done = self.render("text {{ raise_exception('Roles must alternate: ' + messages[0].role) }}")
        self.assert_one_error(done)
        self.assertEqual(done.stderr, "error: Roles must alternate: system\n")
        self.assert_one_error(self.render("a\n{{ nope.x }}"), "line 2", "'nope' is undefined")
        self.assert_one_error(self.render("{% if %}"), "line 1")
        self.assert_one_error(self.render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "macro")
        self.assert_one_error(self.render("{{ 'a' * 99999999999 }}"), "memory")
        self.assert_one_error(self.render("", variables=[1]), "object")
        self.assert_one_error(self.render("", variables={"now": "soon"}), "ISO")
        self.messages.write_text("{}")
        self.assert_one_error(self.render(""), "list of messages")
        self.messages.write_text("[")
        self.assert_one_error(self.render(""), "JSON")
        self.messages.unlink()
        self.assert_one_error(self.render(""), "messages.json")
        self.assert_one_error(tandem("template", self.folder / "none.jinja", "--messages", self.messages), "none.jinja")
        self.assert_one_error(tandem("template", self.folder), "--messages")

    def checkpoint(self, template):
        """The demo with another template, compiled."""
        folder = self.folder / "other"
        if not folder.exists():
            folder.mkdir()
            for file in DEMO.iterdir():
                if file.is_file() and file.name != "chat_template.jinja":
                    (folder / file.name).symlink_to(file)
        (folder / "chat_template.jinja").write_text(template)
        output = self.folder / "other.tdm"
        self.ok("compile", folder, "-o", output, "--context", 256, "--quiet")
        return output

    def test_run_and_chat_use_the_models_template(self):
        refuses = "{% if messages[0].role == 'system' %}"
        refuses += "{{ raise_exception('No system: ' + messages[0].content) }}{% endif %}"
        file = self.checkpoint(
            refuses + "{% if wrong is defined %}{{ raise_exception('wrong is ' + wrong|tojson) }}{% endif %}"
            "{{ '<|im_start|>user\\n' + messages[-1].content + '<|im_end|>\\n<|im_start|>assistant\\n' }}")
        flags = ("--greedy", "-n", 8, "-q")
        same = self.ok("run", self.demo, "-p", PROMPT, *flags).stdout
        self.assertEqual(self.ok("run", file, "-p", PROMPT, *flags).stdout, same)
        self.assertEqual(self.ok("chat", file, *flags, stdin=PROMPT + "\n").stdout, same)
        self.assert_one_error(tandem("run", file, "-p", PROMPT, "--system", "Be kind"), "No system: Be kind")
        self.assert_one_error(tandem("chat", file, "--system", "Be kind"), "No system: Be kind")
        keys = '{"b": 1, "a": 2}'
        for value, shown in (("false", "false"), (keys, keys), ("a text", '"a text"'), ("", '""')):
            done = tandem("run", file, "-p", PROMPT, "--var", f"wrong={value}")
            self.assertEqual(done.stderr, f"error: wrong is {shown}\n")
        self.assertEqual(self.ok("run", file, "-p", PROMPT, "--var", "other=1", *flags).stdout, same)
        self.assert_one_error(tandem("run", file, "-p", PROMPT, "--var", "x"), "NAME=VALUE")
        self.assert_one_error(tandem("run", file, "-p", "x", "--var", "x=1", "--no-template"), "--var", "--no-template")
        self.assert_one_error(tandem("chat", file, "--system", "x", "--no-template"), "--system", "--no-template")
        # Without it, the text goes on as it is.
        plain = self.ok("run", file, "-p", "Once upon a time", "--no-template", *flags).stdout
        self.assertEqual(self.ok("chat", file, "--no-template", *flags, stdin="Once upon a time\n").stdout, plain)

    def test_reasoning_is_shown_apart(self):
        # A template that begins the reasoning itself: all that the demo writes is reasoning then.
        file = self.checkpoint(
            "{{ '<|im_start|>user\\n' + messages[-1].content + '<|im_end|>\\n<|im_start|>assistant\\n<think>' }}")
        flags = ("-p", PROMPT, "--greedy", "-n", 8)
        done = self.ok("run", file, *flags, "-q")
        self.assertEqual(done.stdout, "\n")
        self.assertTrue(done.stderr.startswith("[reasoning]\n"), done.stderr)
        self.assertEqual(self.ok("run", file, *flags, "-q", "--hide-reasoning").stderr, "")
        result = json.loads(self.ok("run", file, *flags, "--json").stdout)
        self.assertEqual(result["text"], "")
        self.assertIn(result["reasoning"].strip(), done.stderr)
        self.assertTrue(result["reasoning"].strip())


class Eval(CliTest):
    def test_json(self):
        done = self.ok("eval", self.demo, "--conversations", DEMO / "eval.json", "--limit", 4, "--answers", 3, "--json")
        result = json.loads(done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertEqual(result["phase"], "device")
        self.assertEqual(result["sequences"], 4)
        self.assertTrue(1.0 < result["perplexity"] < 2.0, result)
        self.assertEqual(result["answers_asked"], 3)
        self.assertLessEqual(result["answers_right"], 3)

    def test_text_and_ids_agree(self):
        text = self.folder / "text.txt"
        text.write_text("Once upon a time there was a fox. The fox was happy. " * 4)
        ids = self.folder / "ids.json"
        tokens = self.ok("tokenize", self.demo, "-p", text.read_text()).stdout.split()
        ids.write_text(json.dumps({"valid_ids": list(map(int, tokens))}))
        options = ("--window", 24, "--limit", 2, "--json")
        by_text = json.loads(self.ok("eval", self.demo, "--text", text, *options).stdout)
        by_ids = json.loads(self.ok("eval", self.demo, "--ids", ids, *options).stdout)
        self.assertEqual(by_text["perplexity"], by_ids["perplexity"])
        self.assertEqual(by_text["tokens"], 46)
        reference = json.loads(self.ok("eval", DEMO, "--ids", ids, *options).stdout)
        self.assertEqual(reference["phase"], "float")
        self.assertAlmostEqual(math.log(reference["perplexity"]), math.log(by_ids["perplexity"]), delta=0.3)

    def test_errors(self):
        self.assert_one_error(tandem("eval", self.demo), "--conversations")
        self.assert_one_error(tandem("eval", self.demo, "--text", self.folder / "absent"), "absent")
        self.assert_one_error(tandem("eval", self.demo, "--ids", DEMO / "config.json"), "token ids")
        self.assert_one_error(tandem("eval", self.demo, "--conversations", DEMO / "config.json"), "conversations")
        one = self.folder / "one.json"
        one.write_text("[5]")
        self.assert_one_error(tandem("eval", self.demo, "--ids", one), "nothing to measure")
        one.write_text("[5, 99999, 3]")
        self.assert_one_error(tandem("eval", self.demo, "--ids", one), "99999")
        self.assert_one_error(tandem("eval", self.demo, "--ids", one, "--window", 9999), "9999")


    def test_phases(self):
        options = ("--conversations", DEMO / "eval.json", "--limit", 1, "--answers", 1)
        every = ("--phases", "float,qdq,device", "--checkpoint", DEMO)
        done = self.ok("eval", self.demo, *every, *options, "--greedy", 4, "--json")
        result = json.loads(done.stdout)
        self.assertEqual([p["phase"] for p in result["phases"]], ["float", "qdq", "device"])
        self.assertEqual(result["phases"][0]["ratio_to_float"], 1.0)
        for phase in result["phases"]:
            self.assertAlmostEqual(phase["perplexity"] / result["phases"][0]["perplexity"], phase["ratio_to_float"])
            self.assertEqual(phase["answers_asked"], 1)
        self.assertGreater(result["logits_sqnr_db"], 25)
        self.assertEqual(result["greedy"]["steps"], 4)
        text = self.ok("eval", self.demo, *every, *options).stdout
        for phase in result["phases"]:
            self.assertRegex(text, rf"(?m)^{phase['phase']} +{phase['perplexity']:.4f} ")
        alone = json.loads(self.ok("eval", self.demo, "--phase", "qdq", *options, "--json").stdout)
        self.assertEqual(alone["perplexity"], result["phases"][1]["perplexity"])
        folder = json.loads(self.ok("eval", DEMO, "--phases", "float,qdq", "--recipe", "w8", *options, "--json").stdout)
        self.assertEqual(len(folder["phases"]), 2)
        self.assertNotIn("logits_sqnr_db", folder)

    def test_kl(self):
        source = ("--conversations", DEMO / "eval.json", "--limit", 1, "--answers", 0)
        alone = json.loads(self.ok("eval", self.demo, *source, "--checkpoint", DEMO, "--kl", "--json").stdout)
        self.assertEqual(alone["phase"], "device")
        self.assertTrue(0 < alone["kl_mean"] < alone["kl_p99"] < 1, alone)
        self.assertTrue(0.8 < alone["top1_agreement"] <= 1, alone)
        several = json.loads(self.ok("eval", self.demo, *source, "--checkpoint", DEMO, "--phases", "qdq,device", "--kl",
                                     "--json").stdout)
        self.assertEqual([p["phase"] for p in several["phases"]], ["float", "qdq", "device"])
        self.assertNotIn("kl_mean", several["phases"][0])
        for key in ("perplexity", "ratio_to_float", "kl_mean", "kl_p99", "top1_agreement"):
            self.assertEqual(several["phases"][2][key], alone[key])
        text = self.ok("eval", self.demo, *source, "--checkpoint", DEMO, "--kl").stdout
        self.assertIn(f"mean {alone['kl_mean']:.4f}", text)
        self.assertIn("evaluated on eval.json", text)
        self.assert_one_error(tandem("eval", self.demo, *source, "--kl"), "--checkpoint")
        self.assert_one_error(tandem("eval", DEMO, *source, "--kl"), "--phase qdq")

    def test_bits_per_byte(self):
        text = self.folder / "bits.txt"
        text.write_text("Once upon a time there was a fox.\tThe fox was happy. " * 2)
        result = json.loads(self.ok("eval", self.demo, "--text", text, "--json").stdout)
        # All but the first token are predicted, and that is "Once".
        nats = math.log(result["perplexity"]) * result["tokens"]
        self.assertAlmostEqual(result["bits_per_byte"], nats / math.log(2) / (len(text.read_text()) - len("Once")))
        self.assertAlmostEqual(math.log(result["byte_perplexity"]), result["bits_per_byte"] * math.log(2))
        self.assertAlmostEqual(math.log(result["word_perplexity"]), nats / len(re.split(r"\s+", text.read_text())))

    def test_task(self):
        tasks = SOURCE / "tests" / "data" / "tasks"
        expected = json.loads((tasks / "expected.json").read_text())["figures"]
        wanted = next(f for f in expected if (f["task"], f["model"]) == ("arc_easy", "plain"))
        arc = ("--task", "arc_easy", "--data", tasks / "arc_easy.jsonl")
        result = json.loads(self.ok("eval", DEMO, *arc, "--window", wanted["window"], "--json").stdout)
        self.assertEqual((result["phase"], result["items"], result["task"]), ("float", 24, "arc_easy"))
        self.assertEqual((result["acc"], result["acc_norm"]), (wanted["acc"], wanted["acc_norm"]))
        self.assertAlmostEqual(result["acc_stderr"], wanted["acc_stderr"])
        several = json.loads(self.ok("eval", self.demo, *arc, "--limit", 3, "--phases", "qdq,device", "--json").stdout)
        self.assertEqual([p["phase"] for p in several["phases"]], ["qdq", "device"])
        self.assertEqual(several["items"], 3)
        text = self.ok("eval", self.demo, "--task", "wikitext", "--data", tasks / "wikitext.raw", "--limit", 1).stdout
        self.assertRegex(text, r"(?m)^device +[0-9.]+ +[0-9.]+ +[0-9.]+$")
        self.assertIn("evaluated on wikitext.raw", text)

    def test_task_errors(self):
        data = self.folder / "items.jsonl"
        data.write_text('{"goal": "G", "sol1": "a", "sol2": "b", "label": 0}\n{"goal": "G"}\n')
        task = ("--task", "piqa", "--data", data)
        for arguments, part in (
            (("--task", "other", "--data", data), "hellaswag"),
            (("--task", "piqa"), "--data"),
            (("--data", data), "--task"),
            (("--task", "piqa", "--data", self.folder / "absent"), "absent"),
            (task, "line 2"),
            ((*task, "--text", data), "--text"),
            ((*task, "--kl"), "--kl"),
            ((*task, "--limit", 1, "--window", 9999), "--window of 9999"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_one_error(tandem("eval", self.demo, *arguments), part)

    def test_phases_errors(self):
        source = ("--conversations", DEMO / "eval.json", "--limit", 1)
        for arguments, part in (
            (("--phases", "float,device"), "as --checkpoint"),
            (("--phases", "float,qdq", "--checkpoint", GOLDEN / "qwen3"), "compiled from"),
            (("--phases", "qdq,other"), "other"),
            (("--phases", "qdq,qdq"), "twice"),
            (("--phases", "qdq", "--phase", "qdq"), "not both"),
            (("--phases", "qdq", "--greedy", 3), "--phases qdq,device"),
            (("--layers",), "--phases qdq,device"),
            (("--phases", "qdq,device", "--layers"), "NPU"),
            (("--phases", "qdq,device", "--prompt", "x"), "--greedy"),
            (("--phases", "qdq,device", "--report", "x.html"), "--encodings"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_one_error(tandem("eval", self.demo, *source, *arguments), part)


class Containers(CliTest):
    """Checkpoints that are not a hub's folder."""

    DATA = SOURCE / "tests" / "data"
    # A source, and the hub's checkpoint of the same model.
    SOURCES = [
        (DATA / "meta" / "llama2_meta", "llama2"),
        (DATA / "meta" / "llama2_c" / "stories.pt", "llama2"),
        (DATA / "meta" / "llama2_c", "llama2"),
        (DATA / "gguf" / "smollm2_f16.gguf", "smollm2"),
        (DATA / "gguf" / "qwen2_5_bf16.gguf", "qwen2_5"),
    ]

    def logits(self, source):
        output = self.folder / "out.tdm"
        self.ok("compile", source, "-o", output, "--recipe", "fp32", "--kv", "fp32", "--context", 64, "-q")
        npy = self.folder / "out.npy"
        self.ok("logits", output, "--tokens", "1,17,30,5,99,200,3", "--out", npy)
        return read_npy(npy)

    def test_same_logits_as_the_hubs(self):
        for source, family in self.SOURCES:
            with self.subTest(source=source.name):
                self.assertEqual(self.logits(source), self.logits(GOLDEN / family))

    def test_names_and_texts(self):
        source = self.DATA / "gguf" / "qwen2_5_bf16.gguf"
        self.ok("compile", source, "-q", cwd=self.folder)
        output = self.folder / "qwen2_5_bf16.tdm"
        info = json.loads(self.ok("inspect", output, "--json").stdout)
        self.assertEqual(info["model"]["name"], "qwen2_5_bf16")
        self.assertEqual(info["model"]["architecture"], "Qwen2ForCausalLM")
        for model in (output, source):
            self.assertEqual(self.ok("tokenize", model, "-p", "the cat<|im_end|>").stdout, "257 261 264\n")
        pieces = self.DATA / "gguf" / "smollm2_f16.gguf"
        out = self.ok("tokenize", pieces, "-p", "the cat", "--special").stdout
        self.assertEqual(out, "1 263 259 266 263 267 271\n")

    def test_a_folder_with_one_file(self):
        folder = self.folder / "folder"
        folder.mkdir()
        bytes_ = (self.DATA / "gguf" / "smollm2_f16.gguf").read_bytes()
        (folder / "a.gguf").write_bytes(bytes_)
        self.ok("compile", folder, "-o", self.folder / "f.tdm", "-q")
        (folder / "b.gguf").write_bytes(bytes_)
        self.assert_one_error(tandem("compile", folder, "-o", self.folder / "g.tdm"), "a.gguf")

    def test_errors(self):
        bad = self.folder / "bad.gguf"
        bytes_ = (self.DATA / "gguf" / "smollm2_f16.gguf").read_bytes()
        output = self.folder / "never.tdm"
        contents = [(b"", "empty"), (bytes_[:5000], "cut off"), (b"GGUF\1\0\0\0", "version 1"), (b"x", "GGUF")]
        for content, part in contents:
            bad.write_bytes(content)
            self.assert_one_error(tandem("compile", bad, "-o", output), "bad.gguf", part)
        evil = self.folder / "evil.pt"
        with zipfile.ZipFile(evil, "w") as archive:
            archive.writestr("a/data.pkl", pickle.dumps({"model": Evil()}, protocol=2))
        self.assert_one_error(tandem("compile", evil, "-o", output), "evil.pt", "system", "not run")
        self.assertFalse(output.exists())
        self.assertFalse((self.folder / "ran").exists())


class Evil:
    """Pickled, this is a call of os.system."""

    def __reduce__(self):
        return os.system, ("touch ran",)


class Targets(CliTest):
    NPUS = ["sm8350", "sm8450", "sm8475", "sm8550", "sm8635", "sm8650", "sm8750", "sm8845", "sm8850", "sc8280x",
            "sc8380xp", "sc8480xp", "qcs6490", "qcs9100", "sa8255", "sa8295", "sa8540", "sa8797", "ssg2115p", "sxr2230p",
            "sxr2330p"]

    def test_lists(self):
        text = self.ok("targets").stdout
        targets = json.loads(self.ok("targets", "--json").stdout)
        names = [t["name"] for t in targets]
        self.assertEqual(names, ["cpu", *self.NPUS, "reference"])
        simulated = {t["name"] for t in targets if t.get("estimate_of") == t["name"]}
        self.assertEqual(simulated, {"sa8540", "sa8255", "qcs9100", "sa8797"})
        self.assertIn("estimates: of a relative, sa8797 (V81)", text)
        for name in names:
            self.assertRegex(text, rf"(?m)^{name}\b")
        self.assertIn("Snapdragon 8 Elite", text)

    def test_the_reference_runs_a_file_like_any_other(self):
        answers = {}
        for target in ("cpu", "reference"):
            file = self.folder / f"{target}.tdm"
            self.ok("compile", DEMO, "-o", file, "--target", target, "--recipe", "fp32", "--context", 64, "--quiet")
            done = self.ok("run", file, "-p", "Hi", "--greedy", "-n", 6, "--json")
            answers[target] = json.loads(done.stdout)["text"]
        self.assertEqual(answers["reference"], answers["cpu"])
        metrics = json.loads(self.ok("bench", file, "--prompt", 4, "--tokens", 2, "--repeats", 1, "--json").stdout)
        self.assertEqual(metrics["isa"], "reference")
        self.assertIn("reference", self.ok("inspect", file).stdout)
        self.assertIn("perplexity", self.ok("eval", file, "--text", DEMO / "config.json", "--window", 8, "--limit", 1,
                                            "--answers", 0).stdout)


class SeveralTargets(CliTest):
    def test_one_file_for_two_targets(self):
        both = self.folder / "both.tdm"
        done = self.ok("compile", DEMO, "-o", both, "--target", "cpu,reference", "--recipe", "w8", "--context", 64)
        self.assertRegex(done.stderr, r"(?m)^cpu: [\d.]+ MB$")
        self.assertRegex(done.stderr, r"(?m)^reference: ([\d.]+ MB), \1 of it shared$")
        info = json.loads(self.ok("inspect", both, "--json").stdout)
        self.assertEqual([p["target"] for p in info["programs"]], ["cpu", "reference"])
        self.assertEqual(info["target"], "cpu")
        self.assertEqual(info["programs"][1]["bytes"], info["programs"][1]["shared_bytes"])
        text = self.ok("inspect", both).stdout
        self.assertIn("for cpu, reference", text)
        self.assertIn("// for reference", self.ok("inspect", both, "--dump-ir").stdout)
        self.assertEqual(len(json.loads(self.ok("probe", both, "--json").stdout)["backends"]), 2)
        for name in ("cpu", "reference"):
            alone = self.folder / f"{name}.tdm"
            self.ok("compile", DEMO, "-o", alone, "--target", name, "--recipe", "w8", "--context", 64, "-q")
            arguments = ("-p", "Hi", "--greedy", "-n", 6, "--json")
            here = json.loads(self.ok("run", both, "--on", name, *arguments).stdout)
            self.assertEqual(here["tokens"], json.loads(self.ok("run", alone, *arguments).stdout)["tokens"])
            bench = self.ok("bench", both, "--on", name, "--prompt", 4, "--tokens", 2, "--repeats", 1, "--json")
            self.assertEqual(json.loads(bench.stdout)["isa"] == "reference", name == "reference")
            arguments = ("--text", DEMO / "config.json", "--window", 8, "--limit", 1, "--answers", 0)
            self.assertEqual(self.ok("eval", both, "--on", name, *arguments).stdout,
                             self.ok("eval", alone, *arguments).stdout)
            for file in (both, alone):
                self.ok("logits", file, "--tokens", "1,2,3", "--out", file.with_suffix(".npy"), *(
                    ("--on", name) if file == both else ()))
            self.assertEqual(both.with_suffix(".npy").read_bytes(), alone.with_suffix(".npy").read_bytes())

    def test_errors(self):
        both = self.folder / "refused.tdm"
        for targets, says in [("cpu,abacus", "abacus"), ("cpu,cpu", "twice"), ("cpu,", "unknown")]:
            self.assert_one_error(tandem("compile", DEMO, "-o", both, "--target", targets), says)
        self.assert_one_error(tandem("run", self.demo, "-p", "x", "--on", "sm8750"), "the file is for cpu")
        self.assert_one_error(tandem("eval", DEMO, "--on", "cpu", "--text", DEMO / "config.json"), "--on")


def qnn_libraries():
    """The folder of Qualcomm's libraries: TANDEM_QNN_LIBS, or where `make qnn` puts them; None if there are none."""
    given = os.environ.get("TANDEM_QNN_LIBS")
    folder = Path(given) if given else SOURCE / "build" / "qnn"
    found = any((place / "libQnnHtp.so").is_file() for place in (folder, folder / "onnxruntime_qnn"))
    return folder if found else None


class Npu(CliTest):
    """What is refused needs no library; the rest is compiled and run on Qualcomm's emulator."""

    def setUp(self):
        self.output = self.folder / "npu.tdm"
        self.output.unlink(missing_ok=True)

    def compile_demo(self, *arguments, context=128, target="sm8750"):
        libraries = qnn_libraries()
        if libraries is None:
            self.skipTest("not tested, because there is no libQnnHtp.so (QNN); `make qnn` installs it")
        return self.ok("compile", DEMO, "-o", self.output, "--target", target, "--prefill", 32, "--context", context,
                       "--qnn-libs", libraries, *arguments)

    def run_demo(self, *arguments):
        done = self.ok("run", self.output, "-p", PROMPT, "--greedy", "-n", 4, "--json", "--qnn-libs", qnn_libraries(),
                       *arguments)
        self.assertEqual(done.stderr, "")  # Qualcomm's library prints; none of it gets here.
        return json.loads(done.stdout)

    def test_refused_before_any_work(self):
        cases = [
            (("--target", "sm8450"), "--mode kv"),
            (("--target", "sm8450", "--mode", "kv", "--kv", "u16"), "--kv u8"),
            (("--target", "sm8750", "--recipe", "fp32"), "fp16"),
            (("--target", "sm8750", "--kv", "fp16"), "u8 or u16"),
            (("--target", "sm8750", "--qnn-libs", "/nonexistent"), "/nonexistent"),
            (("--target", "sm8750", "--shards", "99"), "--shards 1 to"),
            (("--target", "sm8750", "--shards", "0"), "--shards"),
            (("--target", "cpu", "--emulator"), "--emulator"),
            (("--target", "cpu", "--estimate"), "--estimate is for NPU targets"),
            (("--target", "cpu", "--estimate-json", "x.json"), "--estimate-json is for NPU targets"),
            (("--target", "sm8350"), "--recipe w8"),
            (("--target", "sm8350", "--recipe", "w8"), "--unshared"),
            (("--target", "sm8750", "--estimate-json", DEMO / "config.json"), "config.json"),
            (("--target", "cpu", "--head", "lpbq4", "--rescore", "64"), "NPU targets"),
            (("--target", "sm8750", "--rescore", "64"), "--head lpbq4"),
        ]
        for arguments, part in cases:
            if "99" in arguments:  # Planned once the library is there.
                if qnn_libraries() is None:
                    continue
                arguments += ("--qnn-libs", qnn_libraries())
            with self.subTest(arguments=arguments):
                self.assert_one_error(tandem("compile", DEMO, "-o", self.output, *arguments), part)
                self.assertFalse(self.output.exists())
                self.assertFalse(self.output.with_suffix(".tdm.work").exists())

    def test_a_head_in_four_bits_is_rescored(self):
        done = self.compile_demo("--emulator", "--head", "lpbq4", "--rescore", "64")
        self.assertIn("64 largest logits", done.stderr)
        self.assertIn("64 largest logits", self.ok("inspect", self.output).stdout)
        recipe = json.loads(self.ok("inspect", self.output, "--json").stdout)["recipe"]
        self.assertEqual((recipe["head"]["format"], recipe["rescore"]), ("lpbq4", 64))
        self.assertEqual(len(self.run_demo()["tokens"]), 4)

    def test_compile_and_run_on_the_emulator(self):
        done = self.compile_demo("--emulator")
        self.assertEqual(done.stdout, "")
        self.assertIn("methods decode, prefill_32", done.stderr)
        self.assertIn("KV u8", done.stderr)
        one = self.run_demo()
        self.assertEqual(len(one["tokens"]), 4)
        info = json.loads(self.ok("inspect", self.output, "--json").stdout)
        self.assertEqual(info["target"], "sm8750")
        probed = json.loads(self.ok("probe", self.output, "--json", "--qnn-libs", qnn_libraries()).stdout)
        self.assertEqual(probed["backends"][0]["library_version_needed"], info["device"]["core_version"])
        self.compile_demo("--emulator", "--shards", 3, "-q")
        self.assertEqual(self.run_demo()["tokens"], one["tokens"])
        self.assert_one_error(tandem("run", self.output, "-p", "x", "--qnn-libs", "/nonexistent"), "/nonexistent")
        # Asked for more, it prints what Qualcomm's library says, and the answer stays what it is.
        verbose = self.ok("run", self.output, "-p", PROMPT, "--greedy", "-n", 4, "--json", "--verbose", "--qnn-libs",
                          qnn_libraries())
        self.assertRegex(verbose.stderr, r"(?m)^info: QNN: ")
        self.assertEqual(json.loads(verbose.stdout)["tokens"], one["tokens"])

    def test_a_chip_of_ones_own(self):
        chip = self.folder / "chip.json"
        for text, part in (("{", "chip.json"), ('{"base": "cpu"}', "no NPU target"), ('{"chip": 1}', '"chip" is unknown'),
                           ('{"base": "sm8750", "hexagon": 85}', "does not support"),
                           ('{"base": "sm8750", "profile": "warp"}', "warp")):
            chip.write_text(text)
            with self.subTest(text=text):
                self.assert_one_error(tandem("compile", DEMO, "-o", self.output, "--soc", chip), part)
        chip.write_text('{"base": "sm8750", "name": "mine", "vtcm_mb": 4, "profile": "balanced"}')
        self.assert_one_error(tandem("compile", DEMO, "-o", self.output, "--soc", chip, "--target", "cpu"), "--soc is for NPU")
        self.assert_one_error(tandem("compile", DEMO, "-o", self.output, "--soc", chip, "--target", "sm8550"), "--target")
        self.assert_one_error(tandem("compile", DEMO, "-o", self.output, "--target", "sm8750", "--vtcm-mb", "9"), "--vtcm-mb")
        self.assert_one_error(tandem("compile", DEMO, "-o", self.output, "--soc", "/nonexistent"), "/nonexistent")
        if qnn_libraries() is None:
            self.skipTest("not tested, because there is no libQnnHtp.so (QNN); `make qnn` installs it")
        self.ok("compile", DEMO, "-o", self.output, "--soc", chip, "--mode", "kv", "--context", 64, "--hvx-threads", 2,
                "--qnn-libs", qnn_libraries())
        info = json.loads(self.ok("inspect", self.output, "--json").stdout)
        device = info["device"]
        self.assertEqual((info["target"], device["soc_model"], device["vtcm_mb"], device["hvx_threads"]), ("mine", 69, 4, 2))
        self.assertEqual((device["optimization_level"], device["signed_pd"], device["profile"]), (3, False, "balanced"))
        self.assertIn("4 MB of VTCM", self.ok("inspect", self.output).stdout)
        self.assertEqual(len(self.run_demo("--profile", "burst", "--signed-pd=false")["tokens"]), 4)

    def test_bench(self):
        self.compile_demo("--emulator")
        arguments = ("bench", self.output, "--prompt", 8, "--tokens", 2, "--repeats", 1, "--qnn-libs", qnn_libraries())
        report = json.loads(self.ok(*arguments, "--json").stdout)
        self.assertGreater(report["decode_tokens_per_second"], 0)
        self.assertEqual(report["bytes_per_token"], 0)  # The weights are inside the binaries.
        self.assertNotIn("GB/s", self.ok(*arguments).stdout)

    def test_shared_weights_are_for_devices(self):
        done = self.compile_demo()
        self.assertIn("one set of weights", done.stderr)
        self.assert_one_error(tandem("run", self.output, "-p", "x", "--qnn-libs", qnn_libraries()), "--emulator")
        probed = tandem("probe", self.output, "--qnn-libs", qnn_libraries())
        self.assertEqual(probed.returncode, 3)
        self.assertRegex(probed.stdout, "(?m)^  remedy   .*--emulator")

    def test_estimates_of_the_chip_itself(self):
        estimate = self.folder / "estimate.json"
        estimate.unlink(missing_ok=True)
        done = self.compile_demo("--estimate-json", estimate, "--shards", 2, target="sa8255")
        self.assertIn("estimate of sa8255", done.stdout)
        self.assertIn("not measured", done.stdout)
        self.assertNotIn("relative", done.stdout)
        self.assertRegex(done.stdout, r"decode +layers\.0-2 +\d+ +\d+ +\d+ +\d+\.\d")
        self.assertRegex(done.stdout, r"\d+\.\d tokens per second, \d+\.\d MB read per token")
        self.assertIn("first token after 128 tokens: ", done.stdout)
        self.assertRegex(done.stdout, r"without a cost in prefill_32: .*RotaryEmbedding")
        made = json.loads(estimate.read_text())
        self.assertEqual([m["name"] for m in made["methods"]], ["decode", "prefill_32", "head"])
        for method in made["methods"]:
            for row in [method, *method["shards"]]:
                self.assertLessEqual(row["us_lower"], row["us"])
                self.assertLessEqual(row["us"], row["us_upper"])
                self.assertEqual(row["uncosted_ops"], len(row["uncosted_op_names"]))
            self.assertEqual(method["us"], sum(shard["us"] for shard in method["shards"]))
        step = made["methods"][0]["us"] + made["methods"][2]["us"]
        self.assertAlmostEqual(made["tokens_per_second"], 1e6 / step)
        prompt = 4 * made["methods"][1]["us"] + made["methods"][2]["us"]
        self.assertEqual(made["first_token"], [{"prompt": 128, "ms": prompt / 1e3}])
        self.assertEqual((made["estimate_of"], made["is_relative"]), ("sa8255", False))

        stored = json.loads(self.ok("inspect", self.output, "--json").stdout)
        self.assertEqual(stored["metrics"]["estimate.decode.us"], made["methods"][0]["us"])
        self.assertEqual(stored["estimate"]["methods"][0]["us"], made["methods"][0]["us"])
        self.assertAlmostEqual(stored["estimate"]["tokens_per_second"], made["tokens_per_second"])
        text = self.ok("inspect", self.output).stdout
        self.assertIn("estimate   of sa8255;", text)
        self.assertRegex(text, rf"decode +{made['methods'][0]['us_lower']} +{made['methods'][0]['us']} ")
        self.assertNotIn("metric     estimate", text)
        # Again: a file of estimates is replaced, anything else is not.
        self.compile_demo("--estimate-json", estimate, "-q", target="sa8255")
        estimate.write_text("mine")
        self.assert_one_error(tandem("compile", DEMO, "-o", self.output, "--target", "sa8255", "--estimate-json",
                                     estimate, "--qnn-libs", qnn_libraries()), "a file of estimates")
        self.assertEqual(estimate.read_text(), "mine")

    def test_estimates_of_a_relative(self):
        done = self.compile_demo("--estimate")
        self.assertIn("estimate of a relative: sa8797 (SoC 72, Hexagon V81, 8 MB of VTCM) in place of sm8750 (V79, "
                      "another architecture)", done.stdout)
        self.assertRegex(done.stderr, r"layers\.0-5\+head on sa8797: finalize decode")
        text = self.ok("inspect", self.output).stdout
        self.assertIn("estimate   of a relative: sa8797 in place of sm8750;", text)
        stored = json.loads(self.ok("inspect", self.output, "--json").stdout)["estimate"]
        self.assertEqual((stored["estimate_of"], stored["is_relative"]), ("sa8797", True))
        self.assertEqual(self.compile_demo("--estimate", "-q").stdout, "")
        self.compile_demo()
        self.assertIsNone(json.loads(self.ok("inspect", self.output, "--json").stdout)["estimate"])

    def test_a_compile_that_is_killed_goes_on(self):
        libraries = qnn_libraries()
        if libraries is None:
            self.skipTest("not tested, because there is no libQnnHtp.so (QNN); `make qnn` installs it")
        arguments = ["compile", DEMO, "-o", self.output, "--target", "sm8750", "--emulator", "--prefill", 32,
                     "--context", 128, "--shards", 3, "--jobs", 1, "--qnn-libs", libraries]
        process = subprocess.Popen([TANDEM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        finished = []
        for line in process.stderr:  # "layers.0-1: finalizing", then "layers.0-1" once it is done.
            match = re.search(rb"(layers\.\d-\d(\+head)?)\s*$", line)
            if match:
                finished.append(match[1])
                break
        process.kill()
        process.wait(timeout=TIMEOUT)
        process.stderr.close()
        self.assertEqual(len(finished), 1)
        self.assertFalse(self.output.exists())
        done = self.ok(*arguments)
        self.assertRegex(done.stderr, r"[2-9] parts were finished by an earlier run")
        self.assertTrue(self.output.is_file())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    TANDEM, MAKE_CHECKPOINT = (str(Path(path).resolve()) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

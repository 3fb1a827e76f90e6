#!/usr/bin/env python3
"""`tandem deploy` as a user types it, with a stand-in for adb: test_deploy.py TANDEM RETARGET [unittest's arguments]

Standard library only. RETARGET writes a compiled file again as one for an NPU. Libraries for devices are made here, with
headers that say what Qualcomm's say.
"""
import ast
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
DEMO = SOURCE / "models" / "demo"
ADB = SOURCE / "tests" / "cli" / "stand_in_adb.py"
BUILD = "v2.51.0.260929181845"
ARM64, HEXAGON, X86 = 183, 164, 62
TIMEOUT = 300

TANDEM = ""
RETARGET = ""


def elf(machine=ARM64, flags=0, needed=("libc.so",), interpreter="", content=b""):
    """An ELF file with what a loader looks at first."""
    wide = machine != HEXAGON
    word = "<Q" if wide else "<I"
    header, entry = (64, 56) if wide else (52, 32)
    count = 3 if interpreter else 2
    strings, dynamic = b"\0", b""
    for name in needed:
        dynamic += struct.pack(word, 1) + struct.pack(word, len(strings))
        strings += name.encode() + b"\0"
    strings_at = header + entry * count
    interpreter = interpreter.encode() + b"\0"
    dynamic_at = strings_at + len(strings) + len(interpreter)
    for tag, value in ((5, 0x10000 + strings_at), (10, len(strings)), (0, 0)):
        dynamic += struct.pack(word, tag) + struct.pack(word, value)
    size = dynamic_at + len(dynamic) + len(content)

    def segment(kind, offset, length):
        words = (offset, 0x10000 + offset, 0, length, length)
        if wide:
            return struct.pack("<II5QQ", kind, 4, *words, 0x4000)
        return struct.pack("<I5III", kind, *words, 4, 0x4000)

    file = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    file += struct.pack("<HHI", 3, machine, 1)
    file += b"".join(struct.pack(word, v) for v in (0, header, 0))
    file += struct.pack("<IHHH", flags, header, entry, count)
    file = file.ljust(header, b"\0")
    file += segment(1, 0, size) + segment(2, dynamic_at, len(dynamic))
    if count == 3:
        file += segment(3, strings_at + len(strings), len(interpreter))
    return file + strings + interpreter + dynamic + content


def program(interpreter="/system/bin/linker64"):
    return elf(interpreter=interpreter, needed=("libc.so", "libm.so", "libdl.so", "liblog.so"))


def library(build=BUILD, machine=ARM64, needed=("libc.so", "liblog.so")):
    return elf(machine, needed=needed, content=b"id " + build.encode() + b"\0")


def skel(version=79, build=BUILD):
    return elf(HEXAGON, int(str(version), 16), ("libc++.so.1",), content=b"hexnn_ver_" + build.encode() + b".")


def vendor_files(version=79, build=BUILD):
    return {
        "libQnnHtp.so": library(build),
        "libQnnSystem.so": library(""),
        f"libQnnHtpV{version}Stub.so": library(build, needed=("libc.so", "libcdsprpc.so")),
        f"libQnnHtpV{version}Skel.so": skel(version, build),
        "libQnnHtpPrepare.so": library(build),
        "libQnnHtpV75Skel.so": skel(75, build),
    }


def setUpModule():
    global TEMPORARY
    TEMPORARY = tempfile.TemporaryDirectory(prefix="tandem_deploy_")
    DeployTest.shared = Path(TEMPORARY.name)
    DeployTest.demo, DeployTest.npu = DeployTest.shared / "demo.tdm", DeployTest.shared / "npu.tdm"
    subprocess.run([TANDEM, "compile", DEMO, "-o", DeployTest.demo, "--context", "64", "--quiet"], check=True)
    subprocess.run([RETARGET, DeployTest.demo, DeployTest.npu, "qnn", "sm8750", "79", BUILD], check=True)


def tearDownModule():
    TEMPORARY.cleanup()


class DeployTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=self.shared))
        self.out = self.folder / "out"
        self.device = self.folder / "device"
        self.device.mkdir()
        self.remote = self.device / "data" / "tandem"
        self.runtime = self.folder / "tandem"
        self.runtime.write_bytes(program())
        self.environment = dict(os.environ, STAND_IN_FOLDER=str(self.device), STAND_IN_PROGRAM=TANDEM,
                                PATH="/usr/bin:/bin")
        self.environment.pop("ANDROID_HOME", None)
        self.environment.pop("ANDROID_SDK_ROOT", None)

    def vendor(self, name="libs", files=None):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for path, content in (vendor_files() if files is None else files).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return folder

    def deploy(self, *arguments, **environment):
        return subprocess.run([TANDEM, "deploy", *map(str, arguments)], capture_output=True, encoding="utf-8",
                              timeout=TIMEOUT, cwd=self.folder, env=dict(self.environment, **environment))

    def ok(self, *arguments, **environment):
        done = self.deploy(*arguments, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def ok_json(self, *arguments, **environment):
        return json.loads(self.ok(*arguments, "--json", **environment).stdout)

    def adb(self, *arguments, file=None, **environment):
        return self.deploy(file or self.demo, "--to", "adb", "--adb", ADB, "--runtime", self.runtime, *arguments,
                           **environment)

    def adb_json(self, *arguments, **environment):
        done = self.adb(*arguments, "--json", **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def assert_error(self, done, *parts, code=1):
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if not re.match(r"\[ *\d+%\]", line)]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("error: "), lines[0])
        self.assertLess(len(lines[0]), 600)
        for part in parts:
            self.assertIn(part, lines[0])

    def calls(self):
        file = self.device / "calls"
        return [ast.literal_eval(line) for line in file.read_text().splitlines()] if file.exists() else []

    def pushed(self):
        names = [Path(call[4]).name for call in self.calls() if call[2:3] == ["push"]]
        return [name.removesuffix(".tandem-part") for name in names]


class Folder(DeployTest):
    def test_a_cpu_file_needs_nothing_of_a_vendor(self):
        manifest = self.ok_json(self.demo, "--to", self.out, "--runtime", self.runtime)
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), ["demo.tdm", "manifest.json", "tandem"])
        self.assertTrue(os.access(self.out / "tandem", os.X_OK))
        self.assertEqual(manifest["backend"], "cpu")
        self.assertIsNone(manifest["library"])
        self.assertEqual(manifest["environment"], {})
        self.assertEqual(manifest["written"], ["demo.tdm", "tandem"])
        self.assert_error(self.deploy(self.demo, "--to", self.out, "--qnn-libs", self.vendor()), "leave out --qnn-libs")

    def test_an_npu_file_gets_exactly_its_libraries(self):
        manifest = self.ok_json(self.npu, "--to", self.out, "--runtime", self.runtime, "--qnn-libs", self.vendor())
        names = ["libQnnHtp.so", "libQnnHtpV79Skel.so", "libQnnHtpV79Stub.so", "libQnnSystem.so", "manifest.json",
                 "npu.tdm", "tandem"]
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), names)
        self.assertEqual(manifest["library"], {"version": BUILD, "needed": BUILD})
        self.assertEqual(manifest["environment"]["LD_LIBRARY_PATH"], "/data/local/tmp/tandem")
        self.assertTrue(manifest["environment"]["ADSP_LIBRARY_PATH"].startswith("/data/local/tmp/tandem;"))
        self.assertIn("./tandem run ./npu.tdm", manifest["command"])
        on_disk = json.loads((self.out / "manifest.json").read_text())
        for file in on_disk["files"]:
            content = (self.out / file["name"]).read_bytes()
            self.assertEqual(file["size"], len(content))
            self.assertEqual(file["sha256"], hashlib.sha256(content).hexdigest())
        self.assertEqual({f["name"]: f.get("processor") for f in on_disk["files"]}["libQnnHtpV79Skel.so"], "hexagon")

    def test_every_package_of_libraries_gives_the_same(self):
        files = vendor_files()
        sdk = {(f"lib/hexagon-v{name[10:12]}/unsigned/{name}" if "Skel" in name else f"lib/aarch64-android/{name}"): data
               for name, data in files.items()}
        sdk["lib/x86_64-linux-clang/libQnnHtp.so"] = library(machine=X86)
        packages = [self.vendor(), self.vendor("sdk", sdk),
                    self.vendor("site-packages", {f"onnxruntime_qnn/{n}": d for n, d in files.items()})]
        for name, folder in (("a.aar", "jni/arm64-v8a"), ("a.whl", "onnxruntime_qnn")):
            packages.append(self.folder / name)
            with zipfile.ZipFile(packages[-1], "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("../../evil.so", b"x")
                for file, data in files.items():
                    archive.writestr(f"{folder}/{file}", data)
        self.ok(self.npu, "--to", self.out, "--runtime", self.runtime, "--qnn-libs", packages[0])
        for package in packages[1:]:
            with self.subTest(package=package.name):
                again = self.ok_json(self.npu, "--to", self.out, "--runtime", self.runtime, "--qnn-libs", package)
                self.assertEqual(again["written"], [])

    def test_libraries_that_do_not_fit(self):
        def refused(change, *parts):
            files = vendor_files()
            files.update(change)
            libs = self.vendor(f"libs{len(list(self.folder.iterdir()))}", {k: v for k, v in files.items() if v})
            self.assert_error(self.deploy(self.npu, "--to", self.out, "--qnn-libs", libs), *parts)
            self.assertFalse(self.out.exists())

        refused({"libQnnHtp.so": library(machine=X86)}, "libQnnHtp.so is for x86-64", "64-bit ARM")
        refused({"libQnnHtpV79Skel.so": skel(75)}, "Hexagon V75", "V79")
        refused({"libQnnHtpV79Skel.so": library()}, "64-bit ARM", "Hexagon")
        refused({"libQnnHtpV79Stub.so": None}, "has no libQnnHtpV79Stub.so")
        refused({"libQnnHtp.so": b"MZ"}, "no ELF file")
        refused({"libQnnHtp.so": library()[:100]}, "cut off")
        refused({"libQnnHtp.so": library("v2.50.40.260801000000")}, "do not work together")
        refused(vendor_files(build="v2.50.40.260801000000"), "v2.50.40", "later")
        refused({"libQnnSystem.so": library("", needed=("libc.so.6",))}, "Android", "Linux")
        self.assert_error(self.deploy(self.npu, "--to", self.out), "libQnnHtpV79Skel.so", "--qnn-libs")
        self.assert_error(self.deploy(self.npu, "--to", self.out, "--qnn-libs", self.folder / "none"), "none")
        self.assert_error(self.deploy(self.npu, "--to", self.out, "--qnn-libs", self.npu), "neither a folder")

    def test_libraries_that_libraries_need(self):
        files = vendor_files()
        files["libQnnHtp.so"] = library(needed=("libc.so", "libc++_shared.so"))
        missing = self.ok_json(self.npu, "--to", self.out, "--runtime", self.runtime, "--qnn-libs", self.vendor(files=files))
        self.assertIn("libQnnHtp.so needs libc++_shared.so", " ".join(missing["warnings"]))
        files["libc++_shared.so"] = library("")
        found = self.ok_json(self.npu, "--to", self.out, "--runtime", self.runtime, "--qnn-libs", self.vendor(files=files))
        self.assertEqual((found["written"], found["warnings"]), (["libc++_shared.so"], []))

    def test_what_runs_the_file(self):
        self.assertIn("--runtime", self.ok(self.demo, "--to", self.out).stderr)  # A warning: there is none.
        for content, part in ((elf(X86, interpreter="/lib64/ld-linux-x86-64.so.2"), "is for x86-64"),
                              (b"#!/bin/sh\n", "no ELF file")):
            self.runtime.write_bytes(content)
            self.assert_error(self.deploy(self.demo, "--to", self.out, "--runtime", self.runtime), part)
        self.assert_error(self.deploy(self.demo, "--to", self.out, "--runtime", self.folder / "none"), "none")
        build = self.folder / "build" / "android-arm64"
        build.mkdir(parents=True)
        (build / "libtandem.so").write_bytes(library(""))
        manifest = self.ok_json(self.demo, "--to", self.out)
        self.assertIn("libtandem.so", manifest["written"])
        self.assertIsNone(manifest["command"])
        (build / "tandem-runner").write_bytes(program())
        self.assertIn("tandem-runner", self.ok_json(self.demo, "--to", self.out)["written"])

    def test_nothing_of_others_is_overwritten(self):
        self.out.mkdir()
        (self.out / "demo.tdm").write_text("mine")
        self.assert_error(self.deploy(self.demo, "--to", self.out), "demo.tdm is there already")
        self.assertEqual((self.out / "demo.tdm").read_text(), "mine")
        self.assertEqual(len(list(self.out.iterdir())), 1)

    def test_a_dry_run_writes_nothing(self):
        done = self.ok(self.npu, "--to", self.out, "--runtime", self.runtime, "--qnn-libs", self.vendor(), "--dry-run")
        self.assertIn("would write  libQnnHtpV79Skel.so", done.stdout)
        self.assertFalse(self.out.exists())
        self.assertTrue(self.ok_json(self.demo, "--to", self.out, "--dry-run")["dry_run"])

    def test_files_that_are_none(self):
        damaged = self.folder / "damaged.tdm"
        data = bytearray(self.demo.read_bytes())
        data[len(data) // 3] ^= 1
        damaged.write_bytes(data)
        for file in (damaged, self.folder / "none.tdm", DEMO / "config.json"):
            self.assert_error(self.deploy(file, "--to", self.out), file.name)
        self.assertFalse(self.out.exists())

    def test_options_that_make_no_sense(self):
        for arguments, part in ((("--prompt", "x"), "--to adb"), (("--bench",), "--to adb"), (("--adb", ADB), "--to adb"),
                                (("--greedy",), "--prompt")):
            self.assert_error(self.deploy(self.demo, "--to", self.out, *arguments), part, code=2)
        for arguments, part in ((("--prompt", ""), "empty"), (("--dry-run", "--bench"), "--dry-run")):
            self.assert_error(self.adb(*arguments), part, code=2)
        self.assert_error(self.deploy(self.demo, "--to", "adb:"), "SERIAL", code=2)
        self.assert_error(self.deploy(self.demo), "--to", code=2)
        self.assert_error(self.adb("--remote-dir", "relative"), "--remote-dir")
        self.assertEqual(self.calls(), [])


class Device(DeployTest):
    def local_answer(self, prompt):
        done = subprocess.run([TANDEM, "run", self.demo, "--greedy", "-n", "6", "--json", f"--prompt={prompt}"],
                              capture_output=True, encoding="utf-8", check=True)
        return json.loads(done.stdout)["tokens"]

    def test_pushes_runs_and_brings_figures_back(self):
        report = self.adb_json("--prompt", "Tell me a story", "-n", 6, "--greedy", "--bench")
        self.assertEqual(report["device"], "SERIAL1")
        self.assertEqual(report["written"], ["demo.tdm", "tandem"])
        self.assertEqual((self.remote / "demo.tdm").read_bytes(), self.demo.read_bytes())
        self.assertTrue(os.access(self.remote / "tandem", os.X_OK))
        self.assertEqual(sorted(p.name for p in self.remote.iterdir()), ["demo.tdm", "manifest.json", "tandem"])
        self.assertEqual(report["run"]["tokens"], self.local_answer("Tell me a story"))
        self.assertGreater(report["run"]["first_token_seconds"], 0)
        self.assertGreater(report["bench"]["decode_tokens_per_second"], 0)
        self.assertTrue(all(call[:2] == ["-s", "SERIAL1"] for call in self.calls()[1:]))

    def test_pushes_only_what_changed(self):
        self.adb_json()
        self.assertEqual(self.pushed(), ["manifest.json", "demo.tdm", "tandem", "manifest.json"])
        (self.device / "calls").unlink()
        self.assertEqual(self.adb_json()["unchanged"], ["demo.tdm", "tandem"])
        self.assertEqual(self.pushed(), [])
        self.runtime.write_bytes(program() + b"newer")
        self.assertEqual(self.adb_json()["written"], ["tandem"])
        self.assertEqual(self.pushed(), ["manifest.json", "tandem", "manifest.json"])
        # Somebody removed a file: it is pushed again.
        (self.remote / "demo.tdm").unlink()
        self.assertEqual(self.adb_json()["written"], ["demo.tdm"])
        # Another model replaces the first one.
        other = self.folder / "other.tdm"
        shutil.copyfile(self.demo, other)
        self.assertEqual(self.adb_json(file=other)["removed"], ["demo.tdm"])
        self.assertFalse((self.remote / "demo.tdm").exists())

    def test_an_npu_file_runs_with_its_environment(self):
        self.adb("--qnn-libs", self.vendor(), "--prompt", "x", file=self.npu)  # The stand-in cannot run it.
        names = sorted(p.name for p in self.remote.iterdir())
        self.assertEqual(names, ["libQnnHtp.so", "libQnnHtpV79Skel.so", "libQnnHtpV79Stub.so", "libQnnSystem.so",
                                 "manifest.json", "npu.tdm", "tandem"])
        variables = dict(line.split("=", 1) for line in (self.device / "environment").read_text().splitlines())
        self.assertEqual(variables["LD_LIBRARY_PATH"], str(self.remote))
        self.assertEqual(variables["ADSP_LIBRARY_PATH"].split(";")[0], str(self.remote))
        self.assertIn("/vendor/lib/rfsa/adsp", variables["ADSP_LIBRARY_PATH"].split(";"))

    def test_prompts_arrive_as_they_are(self):
        for prompt in ("it's \"quoted\"", "$HOME `id` $(id) \\n", "two\nlines\n", "--json", "-p x; rm -rf /", "ä € 🦊", "*"):
            with self.subTest(prompt=prompt):
                report = self.adb_json("--prompt=" + prompt, "-n", 6, "--greedy")
                self.assertEqual(report["run"]["tokens"], self.local_answer(prompt))

    def test_a_folder_with_a_name_that_needs_quotes(self):
        self.adb_json("--remote-dir", "/data/local/tmp/it's a $folder")
        self.assertTrue((self.device / "data" / "it's a $folder" / "demo.tdm").is_file())

    def test_what_others_have_on_the_device_stays(self):
        self.remote.mkdir(parents=True)
        (self.remote / "tandem").write_text("mine")
        self.assert_error(self.adb(), "/data/local/tmp/tandem/tandem is on the device already", "--remote-dir")
        (self.remote / "tandem").unlink()
        (self.remote / "manifest.json").write_text("{}")
        self.assert_error(self.adb(), "manifest.json is on the device already")
        (self.remote / "manifest.json").unlink()
        (self.remote / "demo.tdm").mkdir()
        self.assert_error(self.adb(), "demo.tdm is on the device already")
        self.assertEqual(self.pushed(), [])

    def test_devices(self):
        def refused(devices, *parts, to="adb"):
            self.assert_error(self.deploy(self.demo, "--to", to, "--adb", ADB, "--runtime", self.runtime,
                                          STAND_IN_DEVICES=devices), *parts)
            self.assertEqual(self.pushed(), [])

        refused("", "adb sees no device", "USB debugging")
        refused("A device, B device", "several devices (A, B)", "--to adb:SERIAL")
        refused("A unauthorized", "allow USB debugging")
        refused("A offline", "offline")
        refused("A no permissions (user in plugdev group?)", "udev")
        refused("A device", "no device B", to="adb:B")
        self.ok(self.demo, "--to", "adb:B", "--adb", ADB, STAND_IN_DEVICES="A device, B device")
        self.assertIn(["-s", "B"], [call[:2] for call in self.calls()])
        self.assert_error(self.adb(STAND_IN_SDK="24"), "API level 24")
        self.assert_error(self.adb(STAND_IN_SDK=""), "runs Linux")
        self.runtime.write_bytes(program("/lib/ld-linux-aarch64.so.1"))
        self.assert_error(self.adb(), "runs Android")
        self.assertEqual(self.adb(STAND_IN_SDK="").returncode, 0)  # A board with Linux.

    def test_another_chip_is_worth_a_warning(self):
        arguments = ("--qnn-libs", self.vendor(), "--dry-run")
        self.assertIn("SM8650", self.adb(*arguments, file=self.npu, STAND_IN_SOC="SM8650").stderr)
        self.assertEqual(self.adb_json(*arguments, file=self.npu)["warnings"], [])
        self.assertEqual(self.adb_json(STAND_IN_SOC="SM8650")["warnings"], [])  # The CPU of any will do.

    def test_no_adb(self):
        self.assert_error(self.deploy(self.demo, "--to", "adb"), "adb was not found", "--adb")
        self.assert_error(self.deploy(self.demo, "--to", "adb", "--adb", self.folder / "none"), "none", "--adb")
        tools = self.folder / "sdk" / "platform-tools"
        tools.mkdir(parents=True)
        shutil.copy(ADB, tools / "adb")
        self.ok(self.demo, "--to", "adb", "--dry-run", ANDROID_HOME=str(self.folder / "sdk"))

    def test_failures_on_the_way(self):
        for fail, part in (("push:No space left on device", "no space left"), ("push:Permission denied", "--remote-dir"),
                           ("damage", "arrived damaged"), ("full", "MB free"), ("push-after:2", "connection was lost")):
            with self.subTest(fail=fail):
                self.assert_error(self.adb(STAND_IN_FAIL=fail), part)
                self.assertEqual([p.name for p in self.device.rglob("*part")], [])
        self.assertEqual(self.adb_json()["written"], ["demo.tdm", "tandem"])

    def test_a_program_that_fails_on_the_device(self):
        self.assert_error(self.adb("--prompt", "x", STAND_IN_FAIL="crash"), "tandem crashed on the device", "signal 11")
        self.assert_error(self.adb("--prompt", "x", STAND_IN_PROGRAM="/nonexistent"), "cannot be started on the device")
        self.assert_error(self.adb("--prompt", "x", STAND_IN_PROGRAM="/bin/echo"), "printed no JSON")
        self.assert_error(self.adb("--prompt", "x", STAND_IN_PROGRAM="/bin/false"), "exit status 1")
        self.assert_error(self.adb("--prompt", "x" * 70000), "--prompt")
        self.runtime.write_bytes(library(""))
        self.assert_error(self.adb("--prompt", "x"), "--runtime", code=2)

    def test_a_dry_run_changes_nothing_on_the_device(self):
        report = self.adb_json("--dry-run")
        self.assertEqual(report["written"], ["demo.tdm", "tandem"])
        self.assertEqual(self.pushed(), [])
        self.assertFalse(self.remote.exists())

    def test_ctrl_c_leaves_no_half_file_and_the_next_one_goes_on(self):
        running = subprocess.Popen([TANDEM, "deploy", self.demo, "--to", "adb", "--adb", ADB, "--runtime", self.runtime],
                                   env=dict(self.environment, STAND_IN_FAIL="hang"), stderr=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not (self.device / "hanging").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, errors)
        self.assertEqual([p.name for p in self.remote.iterdir()], ["manifest.json"])
        self.assertFalse(json.loads((self.remote / "manifest.json").read_text())["complete"])
        self.assertEqual(self.adb_json()["written"], ["demo.tdm", "tandem"])
        self.assertTrue(json.loads((self.remote / "manifest.json").read_text())["complete"])


class Documentation(DeployTest):
    """Runs the commands of docs/phones.md that start with `$ tandem`, with the stand-in for adb."""

    def test_the_commands_of_phones_md(self):
        text = (SOURCE / "docs" / "phones.md").read_text()
        commands = re.findall(r"^    \$ (tandem .*(?:\\\n.*)*)", text, flags=re.MULTILINE)
        self.assertGreaterEqual(len(commands), 5)
        shutil.copytree(DEMO, self.folder / "models" / "demo")
        shutil.copyfile(ADB, self.folder / "adb")
        (self.folder / "adb").chmod(0o755)
        android = self.folder / "build" / "android-arm64"
        android.mkdir(parents=True)
        (android / "tandem-runner").write_bytes(program())
        sdk = {(f"lib/hexagon-v{n[10:12]}/unsigned/{n}" if "Skel" in n else f"lib/aarch64-android/{n}"): d
               for n, d in vendor_files().items()}
        self.vendor("qairt", sdk)
        with zipfile.ZipFile(self.folder / "qnn-runtime-2.51.0.aar", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in vendor_files().items():
                archive.writestr(f"jni/arm64-v8a/{name}", data)
        environment = dict(self.environment, PATH=f"{self.folder}:{Path(TANDEM).parent}:/usr/bin:/bin")
        for command in commands:
            with self.subTest(command=command):
                words = shlex.split(command.replace("\\\n", " "))
                if words[1] == "compile" and "sm8750" in words:  # Needs Qualcomm's compiler: this file is as good.
                    shutil.copyfile(self.npu, self.folder / words[words.index("-o") + 1])
                    continue
                done = subprocess.run([TANDEM, *words[1:]], cwd=self.folder, env=environment, capture_output=True,
                                      encoding="utf-8", timeout=TIMEOUT)
                # The stand-in has no NPU: a prompt for one fails there, and only there.
                if "--prompt" in words and "npu.tdm" in words:
                    self.assertIn("on the device", done.stderr)
                else:
                    self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    TANDEM = os.path.abspath(sys.argv.pop(1))
    RETARGET = os.path.abspath(sys.argv.pop(1))
    unittest.main()

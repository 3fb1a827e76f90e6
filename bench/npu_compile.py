#!/usr/bin/env python3
"""Time and memory of compiling checkpoints of real shapes for an NPU.

  bench/npu_compile.py build/release --shape qwen3-4b --target sm8750 [--layers 4,8,16] [--json out.json]

Makes a random checkpoint of the shape (in build/bench, kept for the next run), compiles it hybrid (AR-128 + AR-1,
context 1024, W4A16 LPBQ-32, u8 KV) and samples the memory of the whole process tree meanwhile. Prints the stages, and
the limits that the project sets itself. With --layers, the same for the shape with these numbers of layers: how time
and memory grow.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

# Limits of a compile on 2 cores: seconds, gigabytes.
LIMITS = {"smollm2-135m": (60, 1.5), "qwen3-0.6b": (180, 3.0), "qwen3-4b": (900, 8.0)}


def tree(root: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as stat:
                parent = int(stat.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue  # Has exited meanwhile.
        children.setdefault(parent, []).append(int(entry))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def resident(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm") as statm:
                total += int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        except OSError:
            continue
    return total


class Sampler(threading.Thread):
    """Peak resident memory of a process tree."""

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self.pid, self.peak, self.done = pid, 0, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.05):
            self.peak = max(self.peak, resident(tree(self.pid)))


def make_checkpoint(build: pathlib.Path, folder: pathlib.Path, shape: str, layers: int, vocabulary: int = 0) -> None:
    if (folder / "config.json").exists():
        return
    command = [build / "tools" / "tandem-make-checkpoint", folder, "--shape", shape]
    if layers:
        command += ["--layers", str(layers)]
    if vocabulary:
        command += ["--vocab", str(vocabulary)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure(args: argparse.Namespace, shape: str, layers: int) -> dict:
    work = args.build.parent / "bench"
    work.mkdir(parents=True, exist_ok=True)
    name = shape + (f"-{layers}" if layers else "")
    checkpoint = work / name
    make_checkpoint(args.build, checkpoint, shape, layers)
    output = work / f"{name}.tdm"
    command = [args.build / "tandem", "compile", checkpoint, "-o", output, "--target", args.target, "--prefill",
               str(args.prefill), "--context", str(args.context)] + args.more
    start = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    sampler = Sampler(process.pid)
    sampler.start()
    said = process.stderr.read()
    code = process.wait()
    seconds = time.monotonic() - start
    sampler.done.set()
    if code != 0:
        sys.exit(f"{name}: the compile failed\n{said}")
    lines = [line for line in said.replace("\r", "\n").split("\n") if line.strip() and "%]" not in line]
    result = {"shape": name, "seconds": round(seconds, 1), "peak_gb": round(sampler.peak / 1e9, 2),
              "file_mb": round(output.stat().st_size / 1e6, 1), "report": lines}
    output.unlink()
    print(f"{name}: {seconds:.1f} s, {sampler.peak / 1e9:.2f} GB at most, file {result['file_mb']} MB")
    if not layers and shape in LIMITS:
        limit_seconds, limit_gb = LIMITS[shape]
        print(f"  {100 * seconds / limit_seconds:.0f} % of the {limit_seconds} s and "
              f"{100 * sampler.peak / 1e9 / limit_gb:.0f} % of the {limit_gb} GB that it may take")
    for line in lines:
        print("   ", line)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="build folder with tandem, tandem-qnn-worker and tools/")
    parser.add_argument("--shape", action="append", help="may be given several times; default: the three with limits")
    parser.add_argument("--layers", default="", help="such as 4,8,16: instead of the shape's own")
    parser.add_argument("--target", default="sm8750")
    parser.add_argument("--prefill", type=int, default=128)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("more", nargs="*", help="more options of `tandem compile`, after --")
    args = parser.parse_args()
    layers = [int(n) for n in args.layers.split(",") if n] or [0]
    results = [measure(args, shape, n) for shape in args.shape or list(LIMITS) for n in layers]
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares tandem with llama.cpp on one machine: 4-bit models of the same shape with random weights, in alternating runs.

    bench/vs_llama_cpp.py --llama-bench PATH --gguf FILE [--build build/release] [--threads 2] [--json FILE]

FILE is llama.cpp's side: a Q4_0 GGUF of the shape (--shape, default qwen3-0.6b). Ours is made here: a random checkpoint
(build/bench, kept) compiled at w4 (LPBQ-32) with keys and values in u8 (--kv). Both sides get the same threads. Each metric
is measured --rounds times in alternation, ours, theirs, ours, theirs, and the best of each counts; theirs with each KV type
that --llama-kv names. Prints the speed of prompts of 128, 512, 1024 and 8192 tokens, of decoding after 128 and 4096 tokens,
and the ratios; ours relative to the measured read bandwidth and int8 peak; the prompt of 512 tokens without prefill. Needs Python 3 and nothing else; builds nothing.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

PROMPTS = [128, 512, 1024, 8192]
DEPTHS = [128, 4096]
NEW_TOKENS = 32
# The project's goals: on a CPU without AMX, and with AMX against a llama.cpp that uses it.
GOALS = {"prompt 512": 4.0, "prompt 8192": 4.0, "decode 128": 1.5, "decode 4096": 1.5}
AMX_GOALS = {"prompt 512": 2.0, "decode 128": 1.5, "decode 4096": 1.5}


def ours(tandem: Path, file: Path, threads: int, prompt: int, tokens: int, one_by_one: bool = False) -> dict:
    command = [tandem, "bench", file, "--json", "--threads", threads, "--prompt", prompt, "--tokens", tokens, "--repeats", 1]
    if not one_by_one:
        command.append("--no-one-by-one")
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"tandem bench failed: {result.stderr.strip()}")
    return json.loads(result.stdout)


def theirs(args: argparse.Namespace, prompt: int, tokens: int, depth: int) -> float:
    """Tokens per second, the best over the KV types."""
    return max(theirs_with(args, kv, prompt, tokens, depth) for kv in args.llama_kv)


def theirs_with(args: argparse.Namespace, kv: str, prompt: int, tokens: int, depth: int) -> float:
    command = [args.llama_bench, "-m", args.gguf, "-t", args.threads, "-p", prompt, "-n", tokens, "-d", depth, "-r", 1,
               "-ub", 512, "-ctk", kv, "-ctv", kv, "-fa", "auto" if kv == "f16" else "on", "-o", "json"]
    if max(prompt, depth) > 1024:
        command.append("--no-warmup")  # It would double the time.
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"llama-bench failed: {result.stderr.strip()[-500:]}")
    return json.loads(result.stdout)[-1]["avg_ts"]


def prepare(args: argparse.Namespace) -> Path:
    args.work.mkdir(parents=True, exist_ok=True)
    checkpoint, file = args.work / args.shape, args.work / f"{args.shape}.versus.tdm"
    if not (checkpoint / "config.json").exists():
        print(f"making a random checkpoint of the shape {args.shape} in {checkpoint}", file=sys.stderr)
        subprocess.run([args.build / "tools/tandem-make-checkpoint", checkpoint, "--shape", args.shape, "-q"], check=True)
    subprocess.run([args.build / "tandem", "compile", checkpoint, "-o", file, "--recipe", args.recipe, "--kv", args.kv,
                    "--context", str(max(args.prompts + args.depths) + 2 * NEW_TOKENS), "-q"], check=True)
    return file


def cpu_flags() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    found = next((line.split(":", 1)[1].split() for line in text.splitlines() if line.startswith("flags")), [])
    return " ".join(flag for flag in ("avx2", "avx_vnni", "avx512_vnni", "amx_int8") if flag in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-bench", type=Path, required=True)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--work", type=Path, default=Path("build/bench"))
    parser.add_argument("--shape", default="qwen3-0.6b")
    parser.add_argument("--recipe", default="w4")
    parser.add_argument("--kv", default="u8", help="our keys and values: fp16 or u8")
    parser.add_argument("--llama-kv", nargs="+", default=["f16", "q8_0"], help="theirs; the faster counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, nargs="*", default=PROMPTS, help="lengths of prompts")
    parser.add_argument("--depths", type=int, nargs="*", default=DEPTHS, help="context lengths to decode after")
    parser.add_argument("--json", type=Path, nargs="?", const=Path("-"), help="write the metrics here, or to stdout")
    args = parser.parse_args()
    for path in (args.llama_bench, args.gguf):
        if not path.exists():
            sys.exit(f"{path} does not exist")
    # A Path forgets the "./" of "./llama-bench", and a program without a slash is looked for in PATH.
    args.llama_bench, args.build = args.llama_bench.absolute(), args.build.absolute()
    tandem, file = args.build / "tandem", prepare(args)

    rows: dict[str, dict] = {}

    def note(name: str, our_speed: float, their_speed: float, **more: float) -> None:
        row = rows.setdefault(name, {"tandem": 0.0, "llama.cpp": 0.0})
        if our_speed > row["tandem"]:
            row.update(more, tandem=our_speed)
        row["llama.cpp"] = max(row["llama.cpp"], their_speed)

    for round_number in range(args.rounds):
        print(f"round {round_number + 1} of {args.rounds}", file=sys.stderr)
        for prompt in args.prompts:
            if prompt > 4096 and round_number > 0:
                continue  # Minutes each; once is enough.
            mine = ours(tandem, file, args.threads, prompt, 1)
            note(f"prompt {prompt}", mine["prompt_tokens_per_second"],
                 theirs(args, prompt, 0, 0), int8_share=mine["int8_share"],
                 operations=mine["prompt_operations"] / prompt, bytes=mine["prompt_bytes"] / prompt)
        for depth in args.depths:
            if depth > 1024 and round_number > 0:
                continue
            mine = ours(tandem, file, args.threads, depth, NEW_TOKENS)
            note(f"decode {depth}", mine["decode_tokens_per_second"],
                 theirs(args, 0, NEW_TOKENS, depth),
                 bandwidth_share=mine["bandwidth_share"], operations=mine["decode_operations"],
                 bytes=mine["bytes_per_token"])
    with_kv = max((ours(tandem, file, args.threads, 512, 1, one_by_one=True) for _ in range(args.rounds)),
                  key=lambda metrics: metrics["prompt_tokens_per_second"])
    best = {1: {"decode": 0.0, "prompt": 0.0}, args.threads: {"decode": 0.0, "prompt": 0.0}}
    for _ in range(args.rounds + 1):
        for threads, metrics in best.items():
            mine = ours(tandem, file, threads, 512, NEW_TOKENS)
            for what in metrics:
                metrics[what] = max(metrics[what], mine[f"{what}_tokens_per_second"])

    for name, row in rows.items():
        row["ratio"] = row["tandem"] / row["llama.cpp"]
    metrics = {
        "shape": args.shape, "recipe": args.recipe, "kv": args.kv, "threads": args.threads, "isa": with_kv["isa"], "cpu": cpu_flags(),
        "read_gb_per_second": with_kv["read_bytes_per_second"] / 1e9,
        "int8_gops": with_kv["int8_operations_per_second"] / 1e9, "rows": rows,
        "first_token_kv_over_hybrid": with_kv["first_token_ratio"],
        "threads_speedup_decode": best[args.threads]["decode"] / best[1]["decode"],
        "threads_speedup_prompt": best[args.threads]["prompt"] / best[1]["prompt"],
    }
    if args.json == Path("-"):
        print(json.dumps(metrics, indent=1))
        return
    print(f"{args.shape}, KV {args.kv}, {args.threads} threads, {metrics['isa']} kernels ({metrics['cpu']}); "
          f"{metrics['read_gb_per_second']:.1f} GB/s read, {metrics['int8_gops']:.0f} GOPS int8 measured in the same run")
    print(f"{'tokens/s':<14}{'tandem':>10}{'llama.cpp':>12}{'ratio':>8}")
    for name, row in rows.items():
        share = (f"{100 * row['int8_share']:.0f} % of int8" if "int8_share" in row
                 else f"{100 * row['bandwidth_share']:.0f} % of the bandwidth")
        goals = AMX_GOALS if metrics["isa"] == "amx" else GOALS
        goal = f", goal {goals[name]:.1f}" if name in goals else ""
        print(f"{name:<14}{row['tandem']:>10.1f}{row['llama.cpp']:>12.1f}{row['ratio']:>8.2f}   ({share}{goal})")
    print(f"first token of 512, one by one over prefill: {metrics['first_token_kv_over_hybrid']:.1f} (goal 20)")
    print(f"{args.threads} threads over 1: decode {metrics['threads_speedup_decode']:.2f}, "
          f"prompt {metrics['threads_speedup_prompt']:.2f} (goal 1.9)")
    if args.json:
        args.json.write_text(json.dumps(metrics, indent=1) + os.linesep)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Estimated speed of models of real shapes on an NPU, from the simulator in Qualcomm's compiler. Nothing is measured.

  bench/npu_estimate.py build/release --json out.json --markdown out.md --svg docs/npu_context.svg
  bench/npu_estimate.py build/release --goals [--demo models/demo]
  bench/npu_estimate.py build/release --whole smollm2-135m

Compiles a few layers of each shape (random weights, hybrid with shared weights, W4A16 LPBQ-32, u8 KV) and scales their
time by the number of layers; the LM head comes from a checkpoint with one layer and the whole vocabulary. The embedding
is looked up by the CPU in all of these shapes, so no graph has it. --whole compiles all layers, sharded as for a user,
and reports how far off the scaled estimates are. --goals compares the variants of attention and of the LM head.

Checkpoints, encodings and estimates are kept in --work (default: bench next to the build folder) and reused as long as
the program has not changed.
"""
import argparse
import concurrent.futures
import hashlib
import itertools
import json
import pathlib
import re
import subprocess
import sys

from npu_compile import make_checkpoint
from npu_estimate_page import draw, goals_table, main_table, sets_table, whole_table

# Layers to compile, and layers of the model. The former divide the latter.
LAYERS = {"smollm2-135m": (6, 30), "qwen3-0.6b": (4, 28), "llama3.2-1b": (4, 16), "qwen3-4b": (2, 36)}
TARGETS = {"sa8255": "V73", "sa8797": "V81"}
LENGTHS = (32, 64, 128, 256)
LAYER_VOCABULARY = 4096  # Does not affect the time of the layers, but that of calibration.


class Estimator:
    """Runs `tandem compile --estimate-json` and keeps its output."""

    def __init__(self, build: pathlib.Path, work: pathlib.Path):
        self.build, self.work = build, work
        (work / "estimates").mkdir(parents=True, exist_ok=True)
        program = b"".join((build / name).read_bytes() for name in ("tandem", "tandem-qnn-worker"))
        self.program = hashlib.sha256(program).hexdigest()[:12]

    def compile(self, checkpoint: pathlib.Path, options: list[str], encodings: pathlib.Path | None = None,
                again: bool = False) -> dict:
        """The estimate's JSON, with the file's size and each method's seconds of finalize. `again`: even if cached."""
        key = hashlib.sha256(" ".join([self.program, checkpoint.name] + options).encode()).hexdigest()[:16]
        kept = self.work / "estimates" / f"{checkpoint.name}-{key}.json"
        if kept.exists() and not again:
            return json.loads(kept.read_text())
        output, estimate = kept.with_suffix(".tdm"), kept.with_suffix(".part")
        command = [self.build / "tandem", "compile", checkpoint, "-o", output, "--force", "--estimate-json", estimate]
        if encodings:
            command += ["--encodings", encodings]
        done = subprocess.run(command + options, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{checkpoint.name} {' '.join(options)}: {last_line(done.stderr)}")
        result = json.loads(estimate.read_text())
        result["file_bytes"] = output.stat().st_size
        result["finalize_s"] = finalize_seconds(done.stdout + done.stderr)
        kept.write_text(json.dumps(result))
        output.unlink()
        estimate.unlink()
        return result

    def checkpoint(self, shape: str, layers: int, vocabulary: int = 0) -> pathlib.Path:
        folder = self.work / (f"{shape}-{layers}" + (f"-v{vocabulary}" if vocabulary else ""))
        make_checkpoint(self.build, folder, shape, layers, vocabulary)
        return folder

    def encodings(self, checkpoint: pathlib.Path) -> pathlib.Path:
        """Calibrates once; the table serves all contexts, methods and targets."""
        table = self.work / "estimates" / f"{checkpoint.name}-{self.program}.encodings"
        if not table.exists():
            options = ["--mode", "kv", "--calib-samples", "1", "--calib-length", "16", "--export-encodings", str(table)]
            self.compile(checkpoint, common("sa8255", 64, "int8") + options, again=True)
        return table

    def layers(self, shape: str, target: str, context: int, lengths: tuple[int, ...], more: tuple[str, ...] = ()) -> dict:
        checkpoint = self.checkpoint(shape, LAYERS[shape][0], LAYER_VOCABULARY)
        options = common(target, context, "lpbq4") + prefill(lengths) + ["--shards", "1", *more]
        return self.compile(checkpoint, options, self.encodings(checkpoint))

    def head(self, shape: str, target: str, weights: str) -> dict:
        checkpoint = self.checkpoint(shape, 1)
        estimate = self.compile(checkpoint, common(target, 64, weights) + ["--mode", "kv"], self.encodings(checkpoint))
        return method_of(estimate, "head")

    def whole(self, shape: str, target: str, context: int, lengths: tuple[int, ...]) -> dict:
        return self.compile(self.checkpoint(shape, 0), common(target, context, "lpbq4") + prefill(lengths))


def common(target: str, context: int, head: str) -> list[str]:
    return ["--target", target, "--context", str(context), "--recipe", "w4", "--kv", "u8", "--head", head]


def prefill(lengths: tuple[int, ...]) -> list[str]:
    return ["--prefill", ",".join(map(str, lengths))]


def last_line(text: str) -> str:
    lines = [line for line in text.replace("\r", "\n").split("\n") if line.strip()]
    return lines[-1] if lines else "no message"


def finalize_seconds(said: str) -> dict[str, float]:
    """Seconds of each method, summed over shards, from lines like `layers.0-3: 47 MB; 11.1 s (decode 1.3 s, prefill_32 1.5 s); …`."""
    seconds: dict[str, float] = {}
    for name, amount, unit in re.findall(r"\b(decode|prefill_\d+|head) ([\d.]+) (ms|s)\b", said):
        seconds[name] = seconds.get(name, 0.0) + float(amount) * (0.001 if unit == "ms" else 1.0)
    return seconds


def method_of(estimate: dict, name: str) -> dict:
    return next(method for method in estimate["methods"] if method["name"] == name)


# ---- All shapes ----


def scaled(shape: str, estimate: dict, head: dict) -> dict:
    """A whole model's estimate, scaled from a few layers."""
    compiled, all_layers = LAYERS[shape]
    factor = all_layers / compiled
    methods = {}
    for method in estimate["methods"]:
        if method["name"] == "head":
            continue
        types = sorted({name.rsplit(":", 1)[1] for name in method["uncosted_op_names"]})
        methods[str(method["tokens"])] = {
            "ms": method["us"] * factor / 1000, "read_mb": method["ddr_read_bytes"] * factor / 1e6,
            "spill_fill_mb": (method["spill_bytes"] + method["fill_bytes"]) * factor / 1e6, "uncosted": types,
            "finalize_s_per_layer": estimate["finalize_s"].get(method["name"], 0.0) / compiled}
    mark_incomplete(methods)
    return {"methods": methods, "head_ms": head["us"] / 1000}


def mark_incomplete(methods: dict) -> None:
    """A prefill method without a cost for ops that have one in the others cannot be compared with them."""
    prefills = [method for tokens, method in methods.items() if tokens != "1"]
    common = set.intersection(*(set(method["uncosted"]) for method in prefills)) if prefills else set()
    for method in prefills:
        method["incomplete"] = sorted(set(method["uncosted"]) - common)


def estimate_all(estimator: Estimator, args: argparse.Namespace) -> dict:
    heads = {}
    for shape in args.shape:  # Before threads need the same checkpoint and table.
        estimator.encodings(estimator.checkpoint(shape, LAYERS[shape][0], LAYER_VOCABULARY))
        heads |= {(shape, target): estimator.head(shape, target, "lpbq4") for target in args.target}

    def one(job: tuple[str, str, int]) -> tuple[tuple[str, str, int], dict]:
        shape, target, context = job
        try:
            return job, scaled(shape, estimator.layers(shape, target, context, tuple(args.lengths)), heads[shape, target])
        except RuntimeError as error:
            return job, {"skipped": str(error)}

    results: dict = {}
    jobs = list(itertools.product(args.shape, args.target, args.context))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for (shape, target, context), result in pool.map(one, jobs):
            print(f"{shape} {target} {context}: {result.get('skipped', 'done')}", file=sys.stderr)
            results.setdefault(shape, {}).setdefault(target, {})[str(context)] = result
    return results


# ---- Sets of prefill lengths ----


def calls_as_run_time(lengths: list[int], remaining: int) -> list[int]:
    """src/backends/interface/method_selection.h. `lengths` ascend from 1."""
    calls = []
    while remaining > 0:
        fills = [n for n in lengths if n <= remaining]
        length = fills[-1]
        if length == 1 and remaining > 1 and len(lengths) > 1:
            length = lengths[1]
        calls.append(length)
        remaining -= length
    return calls


def calls_padding_up(lengths: list[int], remaining: int) -> list[int]:
    """The longest as often as it is full, then one call that holds the rest."""
    calls = [lengths[-1]] * (remaining // lengths[-1])
    rest = remaining % lengths[-1]
    return calls + [next(n for n in lengths if n >= rest)] if rest else calls


def cheapest(costs: dict[int, float], longest_prompt: int) -> list[float]:
    """By prompt length, the cheapest sequence of calls that holds the prompt."""
    best = [0.0]
    for n in range(1, longest_prompt + 1):
        best.append(min(cost + best[max(0, n - length)] for length, cost in costs.items()))
    return best


def rate_sets(result: dict, longest_prompt: int) -> list[dict]:
    """For each set of lengths: the mean over prompts of first-token time relative to the best possible, for both policies."""
    costs = {int(tokens): method["ms"] for tokens, method in result["methods"].items() if not method.get("incomplete")}
    head, best = result["head_ms"], cheapest(costs, longest_prompt)
    rows = []
    lengths = [n for n in costs if n > 1]
    for size in range(1, len(lengths) + 1):
        for chosen in itertools.combinations(lengths, size):
            row = {"set": list(chosen)}
            for name, rule in (("run_time", calls_as_run_time), ("padding_up", calls_padding_up)):
                ratios, total = [], 0.0
                for n in range(1, longest_prompt + 1):
                    time = sum(costs[c] for c in rule([1, *chosen], n)) + head
                    ratios.append(time / (best[n] + head))
                    total += time
                row[name] = sum(ratios) / len(ratios)
                row[name + "_mean_ms"] = total / longest_prompt
            row["finalize_s_per_layer"] = sum(result["methods"][str(c)]["finalize_s_per_layer"] for c in (1, *chosen))
            rows.append(row)
    return rows


def rate_all_sets(results: dict, longest_prompt: int) -> dict:
    """For each shape and target, at the smallest context that holds the prompts."""
    rated: dict = {}
    for shape, targets in results.items():
        for target, contexts in targets.items():
            holding = [int(c) for c, result in contexts.items() if "skipped" not in result and int(c) >= longest_prompt]
            if holding:
                rated[f"{shape} {TARGETS[target]}"] = rate_sets(contexts[str(min(holding))], longest_prompt)
    return rated


# ---- Goals ----


def measure_goals(estimator: Estimator, demo: pathlib.Path | None) -> dict:
    """Each metric before (attention of whole layers, int8 LM head) and now (the defaults), in µs unless stated otherwise."""
    found: dict = {"rows": [], "uncosted": {}}
    columns = {"before": ("--attention", "mha"), "now": ()}
    us: dict = {}
    for column, more in columns.items():
        for shape, target, context in (("qwen3-4b", "sa8255", 1024), ("qwen3-0.6b", "sa8255", 1024), ("qwen3-0.6b", "sa8255", 512),
                                       ("qwen3-0.6b", "sa8255", 4096), ("qwen3-4b", "sa8797", 1024)):
            estimate = estimator.layers(shape, target, context, (128,), more)
            for name in ("decode", "prefill_128"):
                method = method_of(estimate, name)
                us[column, shape, target, context, name] = method["us"]
                if method["uncosted_ops"]:
                    types = sorted({op.rsplit(":", 1)[1] for op in method["uncosted_op_names"]})
                    found["uncosted"][f"{column}: {shape} {target} {context} {name}"] = f"{method['uncosted_ops']} {', '.join(types)}"
        for target in TARGETS:
            us[column, "head", target] = estimator.head("qwen3-4b", target, "int8" if column == "before" else "lpbq4")["us"]

    def row(name: str, value) -> None:
        found["rows"].append({"name": name, **{column: value(column) for column in columns}})

    for shape, layers in (("qwen3-4b", 2), ("qwen3-0.6b", 4)):
        for name in ("decode", "prefill_128"):
            row(f"V73, {shape}, {name} of {layers} layers, µs", lambda c: us[c, shape, "sa8255", 1024, name])
    row("V73, qwen3-0.6b, decode at context 4096 over 512",
        lambda c: round(us[c, "qwen3-0.6b", "sa8255", 4096, "decode"] / us[c, "qwen3-0.6b", "sa8255", 512, "decode"], 2))
    for target, arch in TARGETS.items():
        row(f"{arch}, qwen3-4b, LM head, µs", lambda c: us[c, "head", target])
    row("V81, qwen3-4b, decode of 2 layers, µs", lambda c: us[c, "qwen3-4b", "sa8797", 1024, "decode"])
    row("V81, qwen3-4b, prefill_128 of 2 layers, µs", lambda c: us[c, "qwen3-4b", "sa8797", 1024, "prefill_128"])
    for target, arch in TARGETS.items():
        row(f"{arch}, qwen3-4b, whole decode step, ms",
            lambda c: round((18 * us[c, "qwen3-4b", target, 1024, "decode"] + us[c, "head", target]) / 1000, 1))
        row(f"{arch}, qwen3-4b, whole AR-128 call and LM head, ms",
            lambda c: round((18 * us[c, "qwen3-4b", target, 1024, "prefill_128"] + us[c, "head", target]) / 1000, 1))
    found["sizes"] = hybrid_sizes(estimator, demo)
    return found


def hybrid_sizes(estimator: Estimator, demo: pathlib.Path | None) -> dict[str, dict]:
    """Bytes of a file with decode only and of a hybrid one."""
    sizes = {}
    models = [("qwen3-0.6b, 4 layers", estimator.checkpoint("qwen3-0.6b", 4, LAYER_VOCABULARY), 128)]
    if demo:
        models.append(("demo", demo, 32))
    for name, checkpoint, length in models:
        options = ["--target", "sa8255", "--context", "512", "--recipe", "w4", "--kv", "u8"]
        alone = estimator.compile(checkpoint, options + ["--mode", "kv"])["file_bytes"]
        hybrid = estimator.compile(checkpoint, options + prefill((length,)))["file_bytes"]
        sizes[name] = {"decode_only": alone, "hybrid": hybrid, "ratio": round(hybrid / alone, 3)}
    return sizes


# ---- Whole models ----


def check_whole(estimator: Estimator, args: argparse.Namespace) -> dict:
    checks = {}
    for shape in args.whole:
        for target in args.target:
            whole = estimator.whole(shape, target, 1024, tuple(args.lengths))
            small = scaled(shape, estimator.layers(shape, target, 1024, tuple(args.lengths)), estimator.head(shape, target, "lpbq4"))
            rows = {m["name"]: {"whole_ms": m["us"] / 1000, "scaled_ms":
                                small["head_ms"] if m["name"] == "head" else small["methods"][str(m["tokens"])]["ms"]}
                    for m in whole["methods"]}
            checks[f"{shape} {target}"] = rows
    return checks


def numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="build folder with tandem, tandem-qnn-worker and tools/")
    parser.add_argument("--work", type=pathlib.Path, help="where checkpoints and estimates are kept")
    parser.add_argument("--shape", action="append", choices=list(LAYERS), help="may be given several times; default: all")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="default: both")
    parser.add_argument("--context", type=numbers, default=[512, 1024, 2048, 4096], help="for example 512,4096")
    parser.add_argument("--lengths", type=numbers, default=list(LENGTHS), help="prefill lengths, for example 32,128")
    parser.add_argument("--longest-prompt", type=int, default=2048, help="sets of lengths are rated over prompts up to this")
    parser.add_argument("--jobs", type=int, default=2, help="compiles at a time")
    parser.add_argument("--quick", action="store_true", help="SmolLM2-135M on V73 at two contexts only")
    parser.add_argument("--goals", action="store_true", help="instead: variants of attention and LM head, before and now")
    parser.add_argument("--demo", type=pathlib.Path, help="with --goals: the demo model's folder, for its file's size")
    parser.add_argument("--whole", action="append", choices=list(LAYERS), help="instead: check against all layers of a shape")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path, help="default: standard output")
    parser.add_argument("--svg", type=pathlib.Path, help="cost against context")
    args = parser.parse_args()
    if args.quick:
        args.shape, args.target, args.context, args.longest_prompt = ["smollm2-135m"], ["sa8255"], [512, 1024], 1024
    args.shape, args.target = args.shape or list(LAYERS), args.target or list(TARGETS)
    estimator = Estimator(args.build, args.work or args.build.parent / "bench")
    if args.goals:
        found: dict = measure_goals(estimator, args.demo)
        page = goals_table(found)
    elif args.whole:
        found = check_whole(estimator, args)
        page = whole_table(found)
    else:
        results = estimate_all(estimator, args)
        found = {"results": results, "sets": rate_all_sets(results, args.longest_prompt)}
        page = main_table(results, TARGETS) + "\n" + sets_table(found["sets"])
        if args.svg:
            args.svg.write_text(draw(results, TARGETS))
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    if args.markdown:
        args.markdown.write_text(page)
    else:
        print(page, end="")


if __name__ == "__main__":
    main()

"""Tables and plot of the results of npu_estimate.py."""
import math

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 400, 60, 50, 50, 130
COLORS = ("#2980b9", "#27ae60", "#e67e22", "#c0392b")


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def cell(method: dict | None) -> str:
    """Milliseconds; a star if activations are spilled, "more than" if the cost of some ops is missing."""
    if method is None:
        return "–"
    return ("> " if method.get("incomplete") else "") + f"{method['ms']:.1f}" + ("*" if method["spill_fill_mb"] >= 1 else "")


def main_table(results: dict, architectures: dict) -> str:
    rows, uncosted = [], set()
    lengths = sorted({int(n) for t in results.values() for c in t.values() for r in c.values() for n in r.get("methods", {})})
    for shape, targets in results.items():
        for target, contexts in targets.items():
            for context, result in contexts.items():
                name = [shape, architectures[target], context]
                if "skipped" in result:
                    rows.append(name + ["skipped: " + result["skipped"]] + [""] * (len(lengths) + 1))
                    continue
                methods = result["methods"]
                step = methods["1"]["ms"] + result["head_ms"]
                rows.append(name + [f"{1000 / step:.1f}", f"{methods['1']['read_mb']:.0f}"] + [cell(methods.get(str(n))) for n in lengths]
                            + [f"{result['head_ms']:.2f}"])
                uncosted |= {f"{op} in {'decode' if n == '1' else 'AR-' + n}" for n, m in methods.items() for op in m["uncosted"]}
    header = ["shape", "NPU", "context", "tokens/s", "MB read by decode"]
    header += ["decode, ms" if n == 1 else f"AR-{n}, ms" for n in lengths] + ["LM head, ms"]
    page = table(header, rows) + "\nA star: activations are spilled. \">\": the cost of ops is missing that shorter methods have.\n"
    if uncosted:
        page += "Without a cost, so missing: " + ", ".join(sorted(uncosted)) + ".\n"
    return page


def sets_table(rated: dict) -> str:
    """One row for each set of lengths, one column for each shape and NPU; then the means."""
    if not rated:
        return ""
    names = list(rated)
    rows = []
    for chosen in [row["set"] for row in rated[names[0]]]:
        of_set = [row for name in names for row in rated[name] if row["set"] == chosen]
        if len(of_set) < len(names):
            continue  # Some shape lacks a complete cost for one of these lengths.
        for rule, label in (("run_time", "fill"), ("padding_up", "pad up")):
            mean = sum(row[rule] for row in of_set) / len(of_set)
            finalize = sum(row["finalize_s_per_layer"] for row in of_set) / len(of_set)
            rows.append((mean, [", ".join(map(str, chosen)), label] + [f"{row[rule]:.2f}" for row in of_set]
                         + [f"{mean:.3f}", f"{finalize:.2f}"]))
    rows.sort(key=lambda row: row[0])
    return table(["lengths", "rule"] + names + ["mean", "finalize, s a layer"], [row for _, row in rows])


def goals_table(found: dict) -> str:
    page = table(["", "before", "now"], [[row["name"], str(row["before"]), str(row["now"])] for row in found["rows"]])
    page += "\n" + table(["file", "decode only", "hybrid", "ratio"],
                         [[name, f"{s['decode_only'] / 1e6:.2f} MB", f"{s['hybrid'] / 1e6:.2f} MB", f"{s['ratio']:.3f}"]
                          for name, s in found["sizes"].items()])
    for name, ops in found["uncosted"].items():
        page += f"\nwithout a cost in {name}: {ops}"
    return page + "\n"


def whole_table(checks: dict) -> str:
    rows = []
    for name, methods in checks.items():
        for method, row in methods.items():
            off = 100 * (row["scaled_ms"] / row["whole_ms"] - 1)
            rows.append([name, method, f"{row['whole_ms']:.2f}", f"{row['scaled_ms']:.2f}", f"{off:+.0f} %"])
    return table(["shape", "method", "whole, ms", "scaled, ms", "off by"], rows)


def text(x: float, y: float, words: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{words}</text>'


def axes(title: str, contexts: list[int], ticks: list[float], x, y) -> list[str]:
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           text(LEFT, 24, title, 'font-size="15"')]
    for context in contexts:
        out.append(f'<line x1="{x(context):.1f}" y1="{TOP}" x2="{x(context):.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(text(x(context), HEIGHT - BOTTOM + 18, str(context), 'text-anchor="middle"'))
    for ms in ticks:
        out.append(f'<line x1="{LEFT}" y1="{y(ms):.1f}" x2="{WIDTH - RIGHT}" y2="{y(ms):.1f}" stroke="#ddd"/>')
        out.append(text(LEFT - 8, y(ms) + 4, f"{ms:g}", 'text-anchor="end"'))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "context that the file is compiled for", 'text-anchor="middle"'))
    out.append(text(16, HEIGHT / 2, "ms a token", f'text-anchor="middle" transform="rotate(-90 16 {HEIGHT / 2})"'))
    return out


def draw(results: dict, architectures: dict) -> str:
    """Time of a decode step with the LM head against context: a color for each shape, dashes for the second NPU. Time is
    logarithmic, so that equal slopes are equal ratios."""
    curves = []
    for color, (shape, targets) in zip(COLORS, results.items()):
        for dashes, (target, contexts) in zip(("none", "6 4"), targets.items()):
            points = [(int(context), r["methods"]["1"]["ms"] + r["head_ms"]) for context, r in contexts.items() if "skipped" not in r]
            if points:
                curves.append((f"{shape}, {architectures[target]}", color, dashes, sorted(points)))
    contexts = sorted({context for curve in curves for context, _ in curve[3]})
    times = [ms for curve in curves for _, ms in curve[3]]
    low, high = math.log10(min(times) / 1.2), math.log10(max(times) * 1.2)

    def x(context: float) -> float:
        return LEFT + context / contexts[-1] * (WIDTH - LEFT - RIGHT)

    def y(ms: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(ms) - low) / (high - low) * (HEIGHT - BOTTOM - TOP)

    ticks = [digit * 10.0**power for power in range(-2, 4) for digit in (1, 2, 5)]
    out = axes("A decode step with the LM head, simulated by QNN's compiler", contexts,
               [ms for ms in ticks if low <= math.log10(ms) <= high], x, y)
    highest = float(HEIGHT)  # Of the labels so far: the curves are close to each other on the right.
    for name, color, dashes, points in sorted(curves, key=lambda curve: curve[3][-1][1]):
        line = " ".join(f"{x(context):.1f},{y(ms):.1f}" for context, ms in points)
        out.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dashes}" points="{line}"/>')
        out += [f'<circle cx="{x(context):.1f}" cy="{y(ms):.1f}" r="4" fill="{color}"/>' for context, ms in points]
        highest = min(y(points[-1][1]) + 4, highest - 14)
        out.append(text(WIDTH - RIGHT + 8, highest, name, f'fill="{color}"'))
    return "\n".join(out + ["</svg>", ""])

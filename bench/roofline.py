#!/usr/bin/env python3
"""Draws a machine's roofline with tandem and llama.cpp under it, from the output of vs_llama_cpp.py --json.

    bench/roofline.py figures.json docs/roofline.svg

x: operations per byte read from memory. y: billions of operations per second. The slope is the measured read
bandwidth, the flat part the int8 peak with operands in registers. Both axes are logarithmic.
"""
import json
import math
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 460, 70, 50, 50, 30


class Axes:
    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float]):
        self.x0, self.x1 = (math.log10(v) for v in x_range)
        self.y0, self.y1 = (math.log10(v) for v in y_range)

    def x(self, value: float) -> float:
        return LEFT + (math.log10(value) - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - self.y0) / (self.y1 - self.y0) * (HEIGHT - BOTTOM - TOP)


def text(x: float, y: float, words: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{words}</text>'


def draw(metrics: dict) -> str:
    bandwidth, peak = metrics["read_gb_per_second"], metrics["int8_gops"]
    points = []
    for name, row in metrics["rows"].items():
        intensity = row["operations"] / row["bytes"]
        for who in ("tandem", "llama.cpp"):
            points.append((name, who, intensity, row[who] * row["operations"] / 1e9))
    xs, ys = [p[2] for p in points] + [peak / bandwidth], [p[3] for p in points] + [peak]
    axes = Axes((min(xs) / 3, max(xs) * 4), (min(ys) / 3, max(ys) * 2))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           text(LEFT, 24, f"{metrics['shape']}, {metrics['threads']} threads, {metrics['isa']} kernels", 'font-size="15"')]
    for exponent in range(math.ceil(axes.x0), math.floor(axes.x1) + 1):
        x = axes.x(10.0**exponent)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(text(x, HEIGHT - BOTTOM + 18, f"{10.0**exponent:g}", 'text-anchor="middle"'))
    for exponent in range(math.ceil(axes.y0), math.floor(axes.y1) + 1):
        y = axes.y(10.0**exponent)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(text(LEFT - 8, y + 4, f"{10.0**exponent:g}", 'text-anchor="end"'))
    out.append(text(WIDTH / 2, HEIGHT - 12, "operations per byte read", 'text-anchor="middle"'))
    out.append(text(16, HEIGHT / 2, "GOPS", f'text-anchor="middle" transform="rotate(-90 16 {HEIGHT / 2})"'))
    knee, left, right = peak / bandwidth, 10.0**axes.x0, 10.0**axes.x1
    low = 10.0**axes.y0
    start = max(left, low / bandwidth)
    out.append(f'<polyline fill="none" stroke="#333" stroke-width="2" points="{axes.x(start):.1f},'
               f'{axes.y(start * bandwidth):.1f} {axes.x(knee):.1f},{axes.y(peak):.1f} {axes.x(right):.1f},{axes.y(peak):.1f}"/>')
    out.append(text(axes.x(knee), axes.y(peak) - 8, f"int8: {peak:.0f} GOPS"))
    middle = math.sqrt(start * knee)
    out.append(text(axes.x(middle) - 10, axes.y(middle * bandwidth) - 6, f"memory: {bandwidth:.1f} GB/s", 'text-anchor="end"'))
    labels: list[tuple[float, float]] = []  # Positions already taken.
    for name, who, intensity, speed in points:
        color = "#c0392b" if who == "tandem" else "#2980b9"
        out.append(f'<circle cx="{axes.x(intensity):.1f}" cy="{axes.y(speed):.1f}" r="5" fill="{color}"/>')
        if who == "tandem":
            x, y = axes.x(intensity) + 8, axes.y(speed) + 4
            while any(abs(x - other_x) < 90 and abs(y - other_y) < 13 for other_x, other_y in labels):
                y += 3
            labels.append((x, y))
            out.append(text(x, y, name))
    for i, (who, color) in enumerate((("tandem", "#c0392b"), ("llama.cpp", "#2980b9"))):
        out.append(f'<circle cx="{WIDTH - 130}" cy="{20 + 18 * i}" r="5" fill="{color}"/>')
        out.append(text(WIDTH - 118, 24 + 18 * i, who))
    return "\n".join(out + ["</svg>", ""])


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    Path(sys.argv[2]).write_text(draw(json.loads(Path(sys.argv[1]).read_text())))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Encoding speed against the PyPI `tokenizers` library, on one thread, in the same run.

    python3 -m venv build/tokenizers && build/tokenizers/bin/pip install tokenizers
    build/tokenizers/bin/python bench/tokenizer.py build/release/bench/bench_tokenizer

The texts are this repository's documents (English), its sources (code), and Chinese sentences composed of phrases with
a fixed seed. Both sides encode each text as a whole, without special tokens, must give the same ids, and alternate; the
best time of several runs counts. The vocabulary is ../shared/golden/tokenizers/qwen3, or the file in --vocabulary.
"""
import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
ROOT = Path(__file__).resolve().parent.parent
REQUIRED = 3.0
SIZE = 1_000_000

WHO = "我们 他们 老师 学生 医生 工程师 小明 邻居 朋友 科学家 妈妈 孩子们 这位作家 村里的老人 研究人员 公司的经理".split()
WHEN = "今天早上 昨天晚上 去年冬天 上个星期 每天傍晚 二〇二四年 不久以前 最近几年 春节期间 下雨的时候".split()
WHERE = "在图书馆里 在河边 在北京 在学校门口 在山顶上 在实验室 在一家小餐馆 在火车上 在互联网上 在花园里".split()
DOES = "仔细地讨论 终于完成了 第一次看到 认真地研究 悄悄地准备 突然想起了 耐心地解释 重新设计了 大声朗读 反复比较".split()
WHAT = ("一个有趣的问题 新的语言模型 古老的传说 手机上的应用程序 明天的天气预报 一篇关于量化的论文 妈妈做的饺子 "
        "城市的发展计划 三百多年的历史 处理器的性能 孩子的作业 一幅美丽的风景画").split()
THEN = ("结果大家都很高兴 但是没有人知道答案 所以他决定再试一次 这让所有人感到意外 后来事情变得更加复杂 "
        "不过时间已经不早了 于是他们一起回家了 虽然困难很多，他们没有放弃").split()
ENDS = "。 。 。 ！ ？ ；".split()


def chinese(rng):
    parts = []
    while sum(map(len, parts)) * 3 < SIZE:
        sentence = rng.choice([rng.choice(WHEN) + "，", ""]) + rng.choice(WHO) + rng.choice([rng.choice(WHERE), ""])
        sentence += rng.choice(DOES) + rng.choice(WHAT) + "，" + rng.choice(THEN) + rng.choice(ENDS)
        if rng.random() < 0.1:
            # Random characters: not everything is a known phrase.
            sentence += "".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(8)) + "。\n"
        parts.append(sentence)
    return "".join(parts)


def files(*patterns):
    found = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in found)
    while len(text) < SIZE:
        text += "\n" + text
    return text[:SIZE]


def load_vocabulary(path):
    return gzip.open(path, "rt", encoding="utf-8").read() if path.suffix == ".gz" else path.read_text(encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="bench_tokenizer, as built with TANDEM_BENCHMARKS")
    parser.add_argument("--vocabulary", type=Path,
                        default=ROOT / "../shared/golden/tokenizers/qwen3/tokenizer.json.gz")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    try:
        import tokenizers
    except ImportError:
        sys.exit("not measured: the Python package `tokenizers` is not installed (see the top of this file)")
    if not arguments.vocabulary.exists():
        sys.exit(f"not measured: there is no vocabulary {arguments.vocabulary}")
    theirs = tokenizers.Tokenizer.from_str(load_vocabulary(arguments.vocabulary))
    texts = {"English": files("README.md", "docs/*.md"), "code": files("src/**/*.cpp", "src/**/*.h"),
             "Chinese": chinese(random.Random(1))}
    print(f"tokenizers {tokenizers.__version__}, {arguments.vocabulary.parent.name}, one thread")
    slow = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            path = Path(folder) / "text"
            path.write_text(text, encoding="utf-8", newline="")
            theirs_s, ours_s, ids = [], [], None
            for _ in range(arguments.runs):
                start = time.perf_counter()
                ids = theirs.encode(text, add_special_tokens=False)
                theirs_s.append(time.perf_counter() - start)
                ids = ids.ids
                done = subprocess.run([arguments.program, arguments.vocabulary, path], check=True, capture_output=True)
                result = json.loads(done.stdout)
                ours_s.append(result["seconds"])
            if result["ids"] != ids:
                sys.exit(f"{name}: the ids differ")
            megabytes = len(text.encode()) / 1e6
            ratio = min(theirs_s) / min(ours_s)
            print(f"{name:8} {megabytes:5.2f} MB {len(ids):7} tokens   tokenizers {megabytes / min(theirs_s):6.2f} MB/s"
                  f"   tandem {megabytes / min(ours_s):6.2f} MB/s   {ratio:5.2f} times as fast")
            if ratio < REQUIRED:
                slow.append(name)
    if slow:
        sys.exit(f"slower than {REQUIRED} times the library: {', '.join(slow)}")


if __name__ == "__main__":
    main()

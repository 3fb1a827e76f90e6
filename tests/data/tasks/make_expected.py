#!/usr/bin/env python3
"""What lm-eval says about the demo model on the task files beside this script: writes expected.json.

    pip install lm-eval==0.4.13 torch transformers accelerate
    make_expected.py MODEL_DEMO_FOLDER

The tasks are lm-eval's own; only where their data comes from is replaced. Nothing is downloaded.
"""
import importlib.metadata
import json
import os
import pathlib
import re
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"

import lm_eval
import torch
import yaml
from bos_model import make_bos_model
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

HERE = pathlib.Path(__file__).resolve().parent
TASKS = pathlib.Path(lm_eval.__file__).parent / "tasks"
# Ours, lm-eval's, its data, the metrics.
SOURCES = {
    "hellaswag": ("hellaswag/hellaswag.yaml", ("acc", "acc_norm")),
    "arc_easy": ("arc/arc_easy.yaml", ("acc", "acc_norm")),
    "piqa": ("piqa/piqa.yaml", ("acc", "acc_norm")),
    "winogrande": ("winogrande/default.yaml", ("acc",)),
    "mmlu": ("mmlu/default/mmlu_anatomy.yaml", ("acc",)),
    "wikitext": ("wikitext/wikitext.yaml", ("word_perplexity", "byte_perplexity", "bits_per_byte")),
    "text": (None, ("word_perplexity", "byte_perplexity", "bits_per_byte")),
}
PLAIN_TEXT = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
              "metric_list": [{"metric": name} for name in SOURCES["text"][1]]}
KEPT_REQUESTS = 6  # Contexts and continuations of so many items go into the file as they are.
# Task, file, model, the most tokens that it sees at once: short ones truncate contexts and make several windows.
RUNS = [(task, f"{task}.jsonl", model, window) for model, window in (("plain", 256), ("bos", 28))
        for task in SOURCES] + [("wikitext", "wikitext.raw", "plain", 256)]


def raw_pages(text):
    """As EleutherAI/wikitext_document_level splits the raw file."""
    pages, lines = [], []
    for line in text.split("\n"):
        title = line.replace("= = =", "===").replace("= =", "==").strip()
        if title.startswith("= ") and title.endswith(" ="):
            pages.append("\n".join(lines))
            lines = []
        lines.append(line)
    pages.append("\n".join(lines))
    return [{"page": page} for page in pages if page.strip()]


def on_the_hub(task, item):
    """Our files mix the forms that are around; a dataset of the hub has one."""
    if task == "hellaswag":
        item["label"] = str(item["label"])
    if task == "arc_easy" and isinstance(item["question"], dict):
        choices = item["question"]["choices"]
        item["choices"] = {key: [choice[key] for choice in choices] for key in ("text", "label")}
        item["question"] = item["question"]["stem"]
    return item


def local_task(folder, task, file):
    """A configuration that includes lm-eval's and reads the file instead of the hub."""
    if file.endswith(".raw"):
        items = raw_pages((HERE / file).read_text(encoding="utf-8"))
    else:
        items = [on_the_hub(task, json.loads(line)) for line in (HERE / file).read_text(encoding="utf-8").splitlines()
                 if line.strip()]
    name = re.sub(r"\W", "_", f"local_{file}")
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    source, _ = SOURCES[task]
    config = PLAIN_TEXT.copy() if source is None else {"include": str(TASKS / source)}
    config |= {"task": name, "dataset_path": "json", "dataset_name": None, "training_split": None,
               "validation_split": None, "test_split": "test", "fewshot_split": None,
               "dataset_kwargs": {"data_files": {"test": str(data)}}}
    if task == "mmlu":
        config["description"] = "The following are multiple choice questions (with answers) about high school stories.\n\n"
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return name


def main():
    torch.set_num_threads(1)
    demo = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        models = {"plain": demo, "bos": make_bos_model(demo, folder / "bos")}
        figures, requests = [], {}
        for task, file, model, window in RUNS:
            name = local_task(folder, task, file)
            lm = HFLM(pretrained=str(models[model]), device="cpu", dtype="float32", batch_size=1, max_length=window)
            evaluated = lm_eval.simple_evaluate(lm, tasks=[name], log_samples=True,
                                                task_manager=TaskManager(include_path=str(folder)))
            results = evaluated["results"][name]
            if model == "plain":
                requests[file] = [[list(request) for request in sample["arguments"]]
                                  for sample in evaluated["samples"][name][:KEPT_REQUESTS]]
            figure = {"task": task, "file": file, "model": model, "window": window}
            for metric in SOURCES[task][1]:
                figure[metric] = results[f"{metric},none"]
                if isinstance(results.get(f"{metric}_stderr,none"), float):
                    figure[f"{metric}_stderr"] = results[f"{metric}_stderr,none"]
            if "acc" in figure:  # Of all choices together: accuracies alone would hide small differences.
                figure["log_likelihood"] = sum(float(response[0]) for sample in evaluated["samples"][name]
                                               for response in sample["filtered_resps"])
            print(figure, file=sys.stderr)
            figures.append(figure)
    expected = {"lm_eval": importlib.metadata.version("lm_eval"),
                "transformers": importlib.metadata.version("transformers"), "figures": figures, "requests": requests}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

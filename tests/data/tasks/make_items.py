#!/usr/bin/env python3
"""Writes the task files beside it: small ones of our own text, in the forms of the Hugging Face hub.

The items tell of the demo model's world (models/demo/training/stories.py), so that it is right about some of them and
wrong about others. A few have what makes preprocessing differ: brackets, double spaces, white space at the ends, letters
beyond ASCII, answers as text and as numbers, blank lines.
"""
import json
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {"he": ["Tom", "Ben", "Max", "Sam", "Leo", "Finn"], "she": ["Mia", "Lily", "Anna", "Ella", "Ruby", "Nora"]}
ANIMALS = ["fox", "rabbit", "bear", "mouse", "owl", "otter", "cat", "duck", "turtle", "mole"]
COLORS = ["red", "blue", "green", "yellow", "golden", "silver", "purple", "white"]
TOYS = ["kite", "ball", "boat", "drum", "hat", "lantern", "scarf", "bell", "wagon", "umbrella", "basket", "book"]
TRAITS = ["brave", "shy", "curious", "kind", "clever", "sleepy", "cheerful", "gentle"]
FOODS = ["apples", "berries", "honey cakes", "warm soup", "fresh bread", "pears", "nuts", "plums"]
PLACES = ["forest", "village", "valley", "meadow", "farm", "hill", "garden", "harbor"]


class Story:
    def __init__(self, rng):
        self.rng = rng
        self.he = rng.choice(["he", "she"])
        self.his = "his" if self.he == "he" else "her"
        self.hero = rng.choice(NAMES[self.he])
        self.friend = rng.choice(NAMES["she" if self.he == "he" else "he"])
        self.kind, self.friend_kind = rng.sample(ANIMALS, 2)
        self.color, self.toy, self.trait = rng.choice(COLORS), rng.choice(TOYS), rng.choice(TRAITS)
        self.food, self.place = rng.choice(FOODS), rng.choice(PLACES)

    def opening(self):
        return (f"{self.hero} was a {self.trait} {self.kind}. More than anything, {self.hero} loved {self.his} "
                f"{self.color} {self.toy}.")

    def others(self, words, right, count):
        return self.rng.sample([word for word in words if word != right], count)

    def shuffled(self, right, wrong):
        answers = [right, *wrong]
        self.rng.shuffle(answers)
        return answers, answers.index(right)


def write(name, items):
    lines = [json.dumps(item, ensure_ascii=index % 2 == 0) for index, item in enumerate(items)]
    (HERE / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def hellaswag(rng, count):
    items = []
    for i in range(count):
        s = Story(rng)
        right = f"the two of them sat by the fire and ate {s.food}."
        wrong = [f"they worked until the sun went down over the {s.place}, and {s.friend} fixed the {s.color} {s.toy} well.",
                 f"{s.he} was sad.", f"the {s.friend_kind} looked everywhere for the {s.color} {s.toy}."]
        endings, gold = s.shuffled(right, wrong)
        if i % 6 == 1:
            endings = [f" [step] {ending}  [substeps] It was late. " for ending in endings]
        activity = ["Telling a story", "Café visit", "Visiting a friend"][i % 3]
        before = s.opening() + (" [header] How to share [title] Sit down. " if i % 6 == 1 else "")
        after = ["then", "after the RAIN Tom said that", "élan and joy:", ""][i % 4]
        items.append({"ind": i, "activity_label": activity, "ctx_a": before, "ctx_b": after,
                      "ctx": f"{before} {after}", "endings": endings, "split": "val",
                      "label": str(gold) if i % 3 else gold})
    return items


def arc(rng, count):
    items = []
    for i in range(count):
        s = Story(rng)
        question, right, wrong = [
            (f"{s.opening()} What color was the {s.toy}?", s.color, s.others(COLORS, s.color, 3)),
            (f"{s.opening()} What did {s.hero} love most?", f"the {s.color} {s.toy}",
             [f"the {s.color} {toy}" for toy in s.others(TOYS, s.toy, 3)]),
            (f"{s.opening()} Who was {s.hero}?", f"a {s.kind}", [f"a {kind}" for kind in s.others(ANIMALS, s.kind, 3)]),
        ][i % 3]
        answers, gold = s.shuffled(right, wrong)
        if i % 5 == 4:
            answers, gold = s.shuffled(right, wrong[:2])
        labels = ["1", "2", "3", "4"] if i % 4 == 3 else ["A", "B", "C", "D"]
        labels = labels[:len(answers)]
        if i % 6 == 5:  # The authors' form.
            choices = [{"text": text, "label": label} for text, label in zip(answers, labels)]
            items.append({"id": f"q{i}", "question": {"stem": question, "choices": choices}, "answerKey": labels[gold]})
        else:
            items.append({"id": f"q{i}", "question": question, "choices": {"text": answers, "label": labels},
                          "answerKey": labels[gold]})
    return items


def piqa(rng, count):
    items = []
    for i in range(count):
        s = Story(rng)
        goal, right, wrong = [
            (f"How can {s.hero} reach the {s.toy} in the tall tree?",
             f"Climb on the back of {s.friend} the {s.friend_kind}.", f"Share {s.food} with {s.friend}."),
            (f"The {s.toy} of {s.hero} is broken. What helps? ", "A little glue and a lot of time.",
             "A strong wind — naïve, but quick." if i % 2 else "A warm heart."),
            (f"{s.hero} lost the {s.toy}.", f"Look under the bed and behind the door.", f"Please come in and get warm."),
        ][i % 3]
        answers, gold = s.shuffled(right, [wrong])
        items.append({"goal": goal, "sol1": answers[0], "sol2": answers[1], "label": gold})
    return items


def winogrande(rng, count):
    items = []
    for i in range(count):
        s = Story(rng)
        sentence, right, wrong = [
            (f"{s.hero} the {s.kind} lost a {s.toy} and {s.friend} the {s.friend_kind} found it, so _ was happy to have "
             f"the {s.toy} again.", s.hero, s.friend),
            (f"{s.hero} had {s.food} and {s.friend} had none, so _ was very hungry.", s.friend, s.hero),
            (f"The {s.toy} did not fit into the box because the _  was too big. ", s.toy, "box"),
        ][i % 3]
        answers, gold = s.shuffled(right, [wrong])
        items.append({"sentence": sentence, "option1": answers[0], "option2": answers[1], "answer": str(gold + 1)})
    return items


def mmlu(rng, count):
    items = []
    for i in range(count):
        s = Story(rng)
        answers, gold = s.shuffled(s.color, s.others(COLORS, s.color, 3))
        items.append({"question": f" {s.opening()} What color was the {s.toy}?\n" if i % 2 else
                      f"{s.opening()} What color was the {s.toy}?", "subject": "high_school_stories",
                      "choices": answers, "answer": gold})
    return items


def page(rng, sentences, title):
    lines = [f" = {title} = ", " "]
    for paragraph in range(3):
        lines.append(f" = = Part {paragraph + 1} = = " if paragraph else " ")
        text = []
        for _ in range(sentences):
            s = Story(rng)
            text.append(rng.choice([
                f'{s.hero} was a {s.trait} {s.kind} . {s.he.capitalize()} lived near the {s.place} , with {s.his} family .',
                f'" Come in , there is room for you , " said {s.hero} to {s.friend} ( the {s.friend_kind} ) .',
                f"{s.hero} 's {s.toy} was { rng.randint(1, 9) } @,@ { rng.randint(100, 999) } steps away ; the well @-@ known "
                f"hill was { rng.randint(1, 9) } @.@ 5 times as far [ on foot ] .",
                f"The foxes ' house was warm : it was 20 ° inside , and N of them slept .",
                f"{s.friend} said ' good night ' and ate {{ {s.food} }} – the café was closed !",
            ]))
        lines.append(" " + " ".join(text) + " ")
    return "\n".join(lines) + "\n"


def main():
    rng = random.Random(17)
    write("hellaswag.jsonl", hellaswag(rng, 24))
    write("arc_easy.jsonl", arc(rng, 24))
    write("piqa.jsonl", piqa(rng, 24))
    write("winogrande.jsonl", winogrande(rng, 24))
    write("mmlu.jsonl", mmlu(rng, 24))
    pages = [page(rng, sentences, title) for sentences, title in ((5, "The Fox"), (2, "A Mole 's Tale"), (1, "End"))]
    write("wikitext.jsonl", [{"page": text} for text in pages])
    (HERE / "wikitext.raw").write_text(" \n" + "".join(pages), encoding="utf-8")
    write("text.jsonl", [{"text": Story(rng).opening()} for _ in range(5)] + [{"text": "\u00a0Žofie  má\tkočku. \n"}])


if __name__ == "__main__":
    main()

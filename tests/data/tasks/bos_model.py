"""The demo model with a tokenizer that begins each text with a token, as Llama's and Gemma's do."""
import json
import pathlib

BOS = "<|endoftext|>"


def make_bos_model(demo, folder):
    demo, folder = pathlib.Path(demo), pathlib.Path(folder)
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        (folder / name).symlink_to((demo / name).resolve())
    tokenizer = json.loads((demo / "tokenizer.json").read_text(encoding="utf-8"))
    bos_id = next(token["id"] for token in tokenizer["added_tokens"] if token["content"] == BOS)
    begin, text = {"SpecialToken": {"id": BOS, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "single": [begin, text],
        "pair": [begin, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {BOS: {"id": BOS, "ids": [bos_id], "tokens": [BOS]}}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    config = json.loads((demo / "tokenizer_config.json").read_text(encoding="utf-8"))
    config |= {"bos_token": BOS, "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder

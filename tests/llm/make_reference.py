"""Write `smollm2_more.json`: what transformers generates greedily in float32 from the same GGUF file.

Beside each token stands how far the two best logits were apart: where they are nearly equal, another order of
sums may choose the other one. transformers needs the package accelerate for this.

Run: python tests/llm/make_reference.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).resolve().parent
MODEL = Path(
    os.environ.get("SMOLLM2_GGUF", HERE.parents[1] / "examples/models/SmolLM2-135M-Instruct.Q4_1.gguf")
)
MAX_TOKENS = 24
PROMPTS = [
    "The capital of Italy is",
    "Once upon a time, there was a little",
    "def fibonacci(n):\n    ",
    "Water boils at a temperature of",
    "To be, or not to be:",
    "The three primary colours are",
    "In 1969, the first",
    "2 + 2 = 4\n3 + 3 = 6\n4 + 4 =",
    "Die Hauptstadt von Deutschland ist",
    "La capitale de la France est",
    '{"name": "Alice", "age":',
    "Dear Sir or Madam,\n\n",
    "# A list of fruits\n- apple\n- banana\n-",
    "The quick brown fox",
    "Photosynthesis is the process by which",
    "SELECT name, age FROM users WHERE",
    "A",
    "日本の首都は",
    "I'm sure that you've heard they'll come, but we'd",
    "<html>\n<head>\n<title>",
]
QUESTIONS = [
    "What is the capital of Japan?",
    "Write one sentence about the sea.",
    "How many legs has a spider?",
    "Translate 'good morning' into French.",
    "Name a planet with rings.",
]


def main() -> None:
    options = {"gguf_file": MODEL.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL.parent, **options)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        MODEL.parent, dtype=torch.float32, **options
    ).eval()
    result = {}
    for kind, texts in (("raw", PROMPTS), ("chat", QUESTIONS)):
        for text in texts:
            chat = [{"role": "user", "content": text}]
            rendered = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            prompt = text if kind == "raw" else rendered
            ids = tokenizer.encode(prompt, add_special_tokens=False)
            found = model.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
                max_new_tokens=MAX_TOKENS,
                do_sample=False,
                eos_token_id=2,
                pad_token_id=2,
                return_dict_in_generate=True,
                output_logits=True,
            )
            best = torch.stack(found.logits)[:, 0].topk(2).values
            result[f"{kind}:{text}"] = {
                "prompt": prompt,
                "prompt_ids": ids,
                "gen_ids": found.sequences[0, len(ids) :].tolist(),
                "gaps": [round(gap, 5) for gap in (best[:, 0] - best[:, 1]).tolist()],
            }
            print(text, "->", tokenizer.decode(result[f"{kind}:{text}"]["gen_ids"]), flush=True)
    text = json.dumps(result, ensure_ascii=False)
    (HERE / "smollm2_more.json").write_text(
        text.replace('"raw:', '\n"raw:').replace('"chat:', '\n"chat:') + "\n"
    )


if __name__ == "__main__":
    main()

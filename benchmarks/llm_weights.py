"""Write the weights that all engines of `llm.py` run, in bfloat16: a Hugging Face folder and a GGUF file.

python llm_weights.py FOLDER      from SmolLM2-135M-Instruct, whose GGUF file has 4 bits a weight
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SOURCE = Path(os.environ.get("SMOLLM2_GGUF", EXAMPLES / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))


def write_folder(folder: Path) -> None:
    """Write `config.json`, `tokenizer.json` and `model.safetensors`."""
    import torch
    from safetensors.torch import save_file

    from hami.backends.llm.executors.cpu_executor import weight_shapes
    from hami.backends.llm.tokenizer import load_tokenizer
    from hami.backends.llm.weights import open_weights

    config, weights, file = open_weights(SOURCE)
    assert file is not None
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: weights.get(name, shape, torch.bfloat16) for name, shape in weight_shapes(config)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    settings = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_position,
        "rms_norm_eps": config.rms_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tie_embeddings,
        "vocab_size": config.vocab,
        "bos_token_id": config.bos_id,
        "eos_token_id": list(config.eos_ids),
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(settings, indent=1))
    tokenizer = load_tokenizer(config, file)
    (folder / "tokenizer.json").write_text(tokenizer.to_json())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def write_gguf(path: Path) -> None:
    """Write the same weights as GGUF: the source's metadata, and its tensors unpacked to bfloat16."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(SOURCE)
    writer = gguf.GGUFWriter(path, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, inner)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16)
            writer.add_tensor(tensor.name, packed, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="is made where it is missing")
    target = parser.parse_args().folder
    write_folder(target)
    write_gguf(target / "model-bf16.gguf")

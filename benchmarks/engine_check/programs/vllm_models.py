"""Configurations of a tiny Llama and an EAGLE-3 draft, whose weights vLLM makes up itself.

usage: PROGRAM FOLDER
"""

import json
import sys
from pathlib import Path

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}
OWN = {
    "target": {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 10},
    "draft": {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": 512,
        "target_hidden_size": 64,
    },
}

if __name__ == "__main__":
    for name, own in OWN.items():
        folder = Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(CONFIG | own))

"""A tiny Llama and an EAGLE-3 draft for SGLang 0.5.23: random weights, 0.4 to 0.7 accepted.

The residual stream carries the token's embedding, and the head prefers `successor[token]`; random
layers disturb that choice, and the draft knows nothing of them. usage: PROGRAM FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

VOCABULARY, HIDDEN, HEADS, KEY_HEADS, HEAD, INNER, LAYERS, DRAFT_VOCABULARY = (
    *(512, 64, 4, 2, 16, 128, 8),
    448,
)
CONFIG = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "head_dim": HEAD,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
    "torch_dtype": "float32",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "attention_bias": False,
    "model_type": "llama",
}
_chance = np.random.default_rng(7)


def random(*shape, scale):
    """Normal numbers of this spread."""
    return torch.tensor(_chance.normal(0, scale, shape), dtype=torch.float32)


def save(folder, config, weights):
    """Write a model as Hugging Face's loaders expect it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | config, indent=1))
    contiguous = {name: weight.contiguous() for name, weight in weights.items()}
    save_file(contiguous, folder / "model.safetensors", metadata={"format": "pt"})


def target(embedding, head):
    """Weights of the target."""
    weights = {
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": head,
    }
    noise, scale = LAYERS**-0.5, HIDDEN**-0.5
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        weights[at + "self_attn.q_proj.weight"] = random(HEADS * HEAD, HIDDEN, scale=scale)
        weights[at + "self_attn.k_proj.weight"] = random(KEY_HEADS * HEAD, HIDDEN, scale=scale)
        weights[at + "self_attn.v_proj.weight"] = random(KEY_HEADS * HEAD, HIDDEN, scale=scale)
        weights[at + "self_attn.o_proj.weight"] = random(
            HIDDEN, HEADS * HEAD, scale=noise * (HEADS * HEAD) ** -0.5
        )
        weights[at + "mlp.gate_proj.weight"] = random(INNER, HIDDEN, scale=scale)
        weights[at + "mlp.up_proj.weight"] = random(INNER, HIDDEN, scale=scale)
        weights[at + "mlp.down_proj.weight"] = random(HIDDEN, INNER, scale=noise * INNER**-0.5)
        weights[at + "input_layernorm.weight"] = torch.ones(HIDDEN)
        weights[at + "post_attention_layernorm.weight"] = torch.ones(HIDDEN)
    return weights


def draft(head):
    """Weights of the EAGLE-3 draft, whose vocabulary is a part of the target's."""
    to_itself = torch.zeros(HEADS * HEAD, 2 * HIDDEN)
    to_itself[:, :HIDDEN] = random(HEADS * HEAD, HIDDEN, scale=4.0 * HIDDEN**-0.5)
    value = torch.zeros(HEADS * HEAD, 2 * HIDDEN)
    value[:, :HIDDEN] = torch.eye(HIDDEN)
    kept = torch.tensor(np.sort(_chance.permutation(VOCABULARY)[:DRAFT_VOCABULARY]))
    weights = {
        "fc.weight": random(HIDDEN, 3 * HIDDEN, scale=0.2 * (3 * HIDDEN) ** -0.5),
        "midlayer.self_attn.q_proj.weight": to_itself,
        "midlayer.self_attn.k_proj.weight": to_itself.clone(),
        "midlayer.self_attn.v_proj.weight": value,
        "midlayer.self_attn.o_proj.weight": torch.eye(HIDDEN),
        "midlayer.mlp.gate_proj.weight": random(INNER, HIDDEN, scale=HIDDEN**-0.5),
        "midlayer.mlp.up_proj.weight": random(INNER, HIDDEN, scale=HIDDEN**-0.5),
        "midlayer.mlp.down_proj.weight": random(HIDDEN, INNER, scale=0.1 * INNER**-0.5),
        "norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": head[kept].clone(),
        "d2t": kept - torch.arange(DRAFT_VOCABULARY),
    }
    for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        weights[f"midlayer.{name}.weight"] = torch.ones(HIDDEN)
    return weights


def main(folder):
    """Write `target` and `draft` into a folder."""
    embedding = random(VOCABULARY, HIDDEN, scale=1.0)
    embedding = embedding / embedding.norm(dim=1, keepdim=True) * HIDDEN**0.5
    successor = torch.tensor(_chance.permutation(VOCABULARY))
    before = torch.empty_like(successor)
    before[successor] = torch.arange(VOCABULARY)
    head = embedding[before] / HIDDEN**0.5
    of_target = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": LAYERS}
    of_draft = {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}
    save(
        folder / "target",
        of_target | {"num_key_value_heads": KEY_HEADS},
        target(embedding, head),
    )
    save(
        folder / "draft",
        of_draft | {"num_key_value_heads": HEADS, "draft_vocab_size": DRAFT_VOCABULARY},
        draft(head),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

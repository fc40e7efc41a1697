"""A tiny Llama, EAGLE and EAGLE-3 drafts for SGLang 0.4.9 to 0.5.9: random weights, half accepted.

The target is nearly a Markov chain, `successor[token]`, with noise from random layers; the drafts
know the successor of most tokens. usage: PROGRAM FOLDER
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

VOCABULARY, HIDDEN, LAYERS, HEADS, KEY_HEADS, HEAD, INNER, DRAFT_VOCABULARY = (
    *(512, 64, 8, 4, 2, 16, 128),
    448,
)
NOISE, KNOWN, GAIN = 0.06, 0.75, 0.18
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
    "mlp_bias": False,
    "model_type": "llama",
    "initializer_range": 0.02,
}


def random(*shape, scale=1.0):
    """Normal numbers of this spread."""
    return torch.randn(*shape) * scale


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
        "lm_head.weight": head,
        "model.norm.weight": torch.ones(HIDDEN),
    }
    scale = HIDDEN**-0.5
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        weights[at + "input_layernorm.weight"] = torch.ones(HIDDEN)
        weights[at + "post_attention_layernorm.weight"] = torch.ones(HIDDEN)
        weights[at + "self_attn.q_proj.weight"] = random(HEADS * HEAD, HIDDEN, scale=scale)
        weights[at + "self_attn.k_proj.weight"] = random(KEY_HEADS * HEAD, HIDDEN, scale=scale)
        weights[at + "self_attn.v_proj.weight"] = random(KEY_HEADS * HEAD, HIDDEN, scale=scale)
        weights[at + "self_attn.o_proj.weight"] = random(
            HIDDEN, HEADS * HEAD, scale=scale * NOISE * 4
        )
        weights[at + "mlp.gate_proj.weight"] = random(INNER, HIDDEN, scale=scale)
        weights[at + "mlp.up_proj.weight"] = random(INNER, HIDDEN, scale=scale)
        weights[at + "mlp.down_proj.weight"] = random(HIDDEN, INNER, scale=INNER**-0.5 * NOISE * 4)
    return weights


def eagle(embedding):
    """Weights of the EAGLE draft, which shares the target's head and blurs the embedding."""
    torch.rand(VOCABULARY)  # the counts in the README hold for this sequence of draws
    blur = 1.1 * random(HIDDEN, HIDDEN, scale=HIDDEN**-0.5)
    scale = HIDDEN**-0.5
    return {
        "embed_tokens.weight": embedding,
        "fc.weight": torch.cat([torch.eye(HIDDEN), blur], 1),
        "fc.bias": torch.zeros(HIDDEN),
        "layers.0.post_attention_layernorm.weight": torch.ones(HIDDEN),
        "layers.0.self_attn.q_proj.weight": random(HEADS * HEAD, HIDDEN, scale=scale),
        "layers.0.self_attn.k_proj.weight": random(KEY_HEADS * HEAD, HIDDEN, scale=scale),
        "layers.0.self_attn.v_proj.weight": random(KEY_HEADS * HEAD, HIDDEN, scale=scale),
        "layers.0.self_attn.o_proj.weight": random(HIDDEN, HEADS * HEAD, scale=scale * 0.4),
        "layers.0.mlp.gate_proj.weight": random(INNER, HIDDEN, scale=scale),
        "layers.0.mlp.up_proj.weight": random(INNER, HIDDEN, scale=scale),
        "layers.0.mlp.down_proj.weight": random(HIDDEN, INNER, scale=INNER**-0.5 * 0.4),
    }


def eagle3(embedding, head):
    """Weights of the EAGLE-3 draft, whose vocabulary is a part of the target's."""
    kept = torch.randperm(VOCABULARY)[:DRAFT_VOCABULARY].sort().values
    in_draft = torch.zeros(VOCABULARY, dtype=torch.bool)
    in_draft[kept] = True
    own_head = head[kept].clone()
    unknown = torch.rand(DRAFT_VOCABULARY) > KNOWN
    own_head[unknown] = random(int(unknown.sum()), HIDDEN) * GAIN
    identity, zero = torch.eye(HIDDEN), torch.zeros(HIDDEN, HIDDEN)
    to_itself = torch.cat([2 * identity, zero], 1)
    weights = {
        "embed_tokens.weight": embedding,
        "lm_head.weight": own_head,
        "d2t": (kept - torch.arange(DRAFT_VOCABULARY)).to(torch.int64),
        "t2d": in_draft,
        "fc.weight": random(HIDDEN, 3 * HIDDEN, scale=0.15 * (3 * HIDDEN) ** -0.5),
        "norm.weight": torch.ones(HIDDEN),
        "midlayer.self_attn.q_proj.weight": to_itself,
        "midlayer.self_attn.k_proj.weight": to_itself.clone(),
        "midlayer.self_attn.v_proj.weight": torch.cat([identity, zero], 1),
        "midlayer.self_attn.o_proj.weight": identity.clone(),
        "midlayer.mlp.gate_proj.weight": random(INNER, HIDDEN, scale=HIDDEN**-0.5),
        "midlayer.mlp.up_proj.weight": random(INNER, HIDDEN, scale=HIDDEN**-0.5),
        "midlayer.mlp.down_proj.weight": random(HIDDEN, INNER, scale=INNER**-0.5 * 0.4),
    }
    for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm"):
        weights[f"midlayer.{name}.weight"] = torch.ones(HIDDEN)
    return weights


def main(folder):
    """Write `target`, `eagle` and `draft` (EAGLE-3) into a folder."""
    torch.manual_seed(0)
    embedding = torch.nn.functional.normalize(random(VOCABULARY, HIDDEN), dim=-1) * HIDDEN**0.5
    successor = torch.randperm(VOCABULARY)
    head = torch.empty(VOCABULARY, HIDDEN)
    head[successor] = embedding * GAIN
    of_target = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": LAYERS}
    of_eagle = {"architectures": ["LlamaForCausalLMEagle"], "num_hidden_layers": 1}
    of_draft = {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}
    save(
        folder / "target",
        of_target | {"num_key_value_heads": KEY_HEADS},
        target(embedding, head),
    )
    save(folder / "eagle", of_eagle | {"num_key_value_heads": KEY_HEADS}, eagle(embedding))
    save(
        folder / "draft",
        of_draft | {"num_key_value_heads": HEADS, "draft_vocab_size": DRAFT_VOCABULARY},
        eagle3(embedding, head),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

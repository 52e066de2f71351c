"""Test cases: small models with random weights, and their results in float64.

    python3 cases.py draw SEED DIR [FAMILY]   a new model, adapters, inputs and answers; a family is Qwen3, Llama, …
    python3 cases.py answer DIR ...           computes the answers again, for the weights and inputs in DIR
    python3 cases.py check DIR ...            whether the answers in DIR are those of the reference

model/testdata/golden/README.md describes the files of a case.
"""

import json
import os
import sys

import numpy as np

from reference import Model, train
from tensors import ALL_TARGETS, Adapter, from_bf16, read_model, read_tensors, to_bf16, write_tensors

ADAM = {"lr": 0.001, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12, "weight_decay": 0.0}


def load(directory, name):
    try:
        with open(os.path.join(directory, name)) as f:
            return json.load(f)
    except OSError as e:
        sys.exit(f"{e.filename}: {e.strerror}; a case has its inputs in train.json, score.json and greedy.json")


def store(directory, name, value):
    with open(os.path.join(directory, name), "w") as f:
        json.dump(value, f)


def answers(directory, inputs):
    """The reference's results for a case: its JSON files by name, the first gradients, and the trained adapter."""
    config, weights = read_model(directory)
    adapter = Adapter.read(os.path.join(directory, "adapter"))
    models = {"base": Model(config, weights), "adapter": Model(config, weights, adapter)}
    scores = []
    for tokens in inputs["sequences"]:
        base, last = models["base"].score(tokens)
        scores.append({
            "tokens": tokens, "logprobs_base": base.tolist(),
            "logprobs_adapter": models["adapter"].score(tokens)[0].tolist(), "last_logits_base": last.tolist(),
        })
    greedy = []
    for g in inputs["greedy"]:
        tokens, logprobs, margins = models[g["with"]].greedy(g["prompt"], g["n"])
        greedy.append({"with": g["with"], "prompt": g["prompt"], "completion": tokens, "logprobs": logprobs, "margins": margins})
    start = Adapter.read(os.path.join(directory, "train_init"))
    steps, gradients, end = train(config, weights, start, inputs["datums"], inputs["adam"], inputs["steps"])
    texts = {"score.json": scores, "greedy.json": greedy, "train.json": {
        "loss": "importance_sampling", "reduction": "sum over completion tokens and datums",
        "adam": inputs["adam"], "datums": inputs["datums"], "steps": steps}}
    return texts, gradients, end


def inputs_of(directory):
    """The inputs of a case, read from its answers."""
    learned = load(directory, "train.json")
    return {
        "sequences": [s["tokens"] for s in load(directory, "score.json")],
        "greedy": [{"with": g["with"], "prompt": g["prompt"], "n": len(g["completion"])} for g in load(directory, "greedy.json")],
        "datums": learned["datums"], "adam": learned["adam"], "steps": len(learned["steps"]),
    }


def answer(directory, inputs):
    texts, gradients, end = answers(directory, inputs)
    for name, value in texts.items():
        store(directory, name, value)
    ordered = {n: gradients[n] for n in end.tensors}
    write_tensors(os.path.join(directory, "grads_step1.safetensors"), ordered, "F32")
    end.write(os.path.join(directory, "train_final"))


# Scalings of rotary positions for drawn models: with contexts so short that they matter within the length of the cases.
SCALINGS = [
    None,
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 24, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False,
     "attention_factor": 0.9},
]

FAMILIES = ["Qwen3", "Qwen2", "Llama", "Mistral", "Gemma2"]


def family_of(rng, family, config):
    """The settings of a family beyond the common ones."""
    pick = lambda *of: of[rng.integers(len(of))]
    config.update(architectures=[family + "ForCausalLM"], model_type=family.lower())
    for key in ("attention_bias", "use_sliding_window", "sliding_window"):
        del config[key]
    if family in ("Llama", "Mistral", "Qwen2"):
        config["rope_scaling"] = pick(*SCALINGS)
    if s := config["rope_scaling"]:
        config["max_position_embeddings"] = int(s["factor"] * s.get("original_max_position_embeddings", 1024))
    if family == "Llama":
        config.update(attention_bias=bool(pick(0, 1)), mlp_bias=bool(pick(0, 1)))
    elif family == "Mistral":
        config["sliding_window"] = pick(None, 5, 16)
    elif family == "Qwen2":
        config.update(use_sliding_window=bool(pick(0, 1)), sliding_window=9, max_window_layers=1)
    elif family == "Gemma2":
        del config["rope_scaling"]
        config.update(
            hidden_activation="gelu_pytorch_tanh", hidden_act="gelu_pytorch_tanh", sliding_window=pick(6, 11),
            query_pre_attn_scalar=pick(16, 40), attn_logit_softcapping=pick(None, 2.0, 50.0), final_logit_softcapping=pick(None, 4.0, 30.0))


def biases_of(config, module):
    """Whether a linear of a layer has a bias."""
    if config["model_type"] == "qwen2":
        return module in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    return config.get("attention_bias" if module.startswith("self_attn") else "mlp_bias", False)


def draw(seed, directory, family="Qwen3"):
    """A model in bf16, whose shape also depends on the seed; adapters in f32; inputs; answers."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)] if family != "Qwen3" else seed)
    pick = lambda *of: of[rng.integers(len(of))]
    width, groups, kv = int(pick(16, 32, 64)), int(pick(1, 2, 3, 4)), int(pick(1, 2, 3))
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "attention_bias": False,
        "rms_norm_eps": 1e-6, "bos_token_id": None, "eos_token_id": None, "torch_dtype": "bfloat16",
        "max_position_embeddings": 40960, "rope_scaling": None, "sliding_window": None, "use_sliding_window": False,
        "attention_dropout": 0.0, "vocab_size": int(pick(256, 384, 500)), "hidden_size": 16 * int(pick(3, 4, 6)),
        "intermediate_size": 32 * int(pick(3, 5, 7)), "num_hidden_layers": int(pick(2, 3)), "num_attention_heads": groups * kv,
        "num_key_value_heads": kv, "head_dim": width, "rope_theta": float(pick(1e4, 1e6, 5e6)), "tie_word_embeddings": bool(pick(0, 1)),
    }
    if family != "Qwen3":
        family_of(rng, family, config)
    os.makedirs(directory)
    store(directory, "config.json", config)
    weights = draw_weights(rng, config)
    write_tensors(os.path.join(directory, "model.safetensors"), weights, "BF16")

    rank = int(pick(4, 8))
    targets = pick(ALL_TARGETS, ["q_proj", "v_proj", "down_proj"], ["o_proj", "gate_proj"])
    for name in ("adapter", "train_init"):
        draw_adapter(rng, weights, rank, targets).write(os.path.join(directory, name))

    tokens = lambda n: rng.integers(config["vocab_size"], size=n).tolist()
    sequences = [tokens(n) for n in rng.integers(8, 80, size=4)]
    prompts = [tokens(5) for _ in range(2)]
    start = Model(config, weights, Adapter.read(os.path.join(directory, "train_init")))
    answer(directory, {
        "sequences": sequences, "greedy": [{"with": w, "prompt": p, "n": 16} for p in prompts for w in ("base", "adapter")],
        "datums": [draw_datum(rng, start, s, a) for s, a in zip(sequences, (-0.5, 0.75, 0.25, -0.25))], "adam": ADAM, "steps": 3,
    })


def draw_weights(rng, c):
    """Normal bf16 numbers, scaled so that a product has about the magnitude of its input."""
    hidden, inner = c["hidden_size"], c["intermediate_size"]
    queries, keys = (c[n] * c["head_dim"] for n in ("num_attention_heads", "num_key_value_heads"))
    shapes, biases = {"model.embed_tokens": (c["vocab_size"], hidden), "model.norm": (hidden,)}, {}
    norms = {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,)}
    if c["model_type"] == "qwen3":
        norms.update({"self_attn.q_norm": (c["head_dim"],), "self_attn.k_norm": (c["head_dim"],)})
    if c["model_type"] == "gemma2":
        norms.update({"pre_feedforward_layernorm": (hidden,), "post_feedforward_layernorm": (hidden,)})
    for i in range(c["num_hidden_layers"]):
        for name, shape in (norms | {
            "self_attn.q_proj": (queries, hidden), "self_attn.k_proj": (keys, hidden), "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }).items():
            shapes[f"model.layers.{i}.{name}"] = shape
            if len(shape) == 2 and biases_of(c, name):
                biases[f"model.layers.{i}.{name}.bias"] = shape[:1]
    if not c["tie_word_embeddings"]:
        shapes["lm_head"] = shapes["model.embed_tokens"]
    weights = {}
    for name, shape in shapes.items():
        x = rng.standard_normal(shape)
        x = (c["model_type"] != "gemma2") + 0.2 * x if len(shape) == 1 else x / np.sqrt(shape[1])
        weights[name + ".weight"] = from_bf16(to_bf16(x))
    for name, shape in biases.items():
        weights[name] = from_bf16(to_bf16(0.3 * rng.standard_normal(shape)))
    return weights


def readable(config, directory):
    """A model like one of a case, without the features that readers of GGUF compute differently. It is compared with llama.cpp if
    the case itself cannot be."""
    c = dict(config, rope_scaling=dict(config.get("rope_scaling") or {}) or None)
    family, scaling = c["model_type"], c["rope_scaling"]
    if scaling:
        for key in ("truncate", "beta_fast", "beta_slow"):
            scaling.pop(key, None)
        if scaling["rope_type"] == "llama3" and family != "llama":
            c["rope_scaling"] = None
    if family != "llama":
        c.pop("attention_bias", None)
    if family == "qwen2":
        c["hidden_size"] = c["num_attention_heads"] * c["head_dim"]
    if family == "gemma2":
        c.update(tie_word_embeddings=True, query_pre_attn_scalar=c["head_dim"],
                 attn_logit_softcapping=c["attn_logit_softcapping"] or 50.0, final_logit_softcapping=c["final_logit_softcapping"] or 30.0)
    store(directory, "config.json", c)
    write_tensors(os.path.join(directory, "model.safetensors"), draw_weights(np.random.default_rng(1), c), "BF16")


def draw_adapter(rng, weights, rank, targets):
    tensors = {}
    for name, w in weights.items():
        module = name.removesuffix(".weight")
        if module.split(".")[-1] in targets:
            for x, shape, size in (("A", (rank, w.shape[1]), w.shape[1] ** -0.5), ("B", (w.shape[0], rank), 0.1)):
                values = (size * rng.standard_normal(shape)).astype(np.float32)
                tensors[f"{Adapter.PREFIX}{module}.lora_{x}.weight"] = values.astype(np.float64)
    return Adapter(rank, 2 * rank, targets, tensors)


def draw_datum(rng, model, tokens, advantage):
    """A completion by a policy close to the model; the prompt has no log-probabilities."""
    prompt = 1 + len(tokens) // 4
    old = model.score(tokens)[0] + 0.2 * rng.standard_normal(len(tokens) - 1)
    old[: prompt - 1] = 0
    return {"tokens": tokens, "ob_len": prompt, "logprobs": old.astype(np.float32).astype(float).tolist(), "advantage": advantage}


def gap(got, want):
    """The largest difference between two trees of numbers; other values must be equal."""
    if isinstance(want, dict):
        assert got.keys() == want.keys(), f"{sorted(got)} in place of {sorted(want)}"
        return max((gap(got[k], want[k]) for k in want), default=0)
    if isinstance(want, list):
        assert len(got) == len(want), f"{len(got)} values in place of {len(want)}"
        return max((gap(a, b) for a, b in zip(got, want)), default=0)
    if isinstance(want, float):
        return abs(got - want) if np.isfinite(got) and np.isfinite(want) else np.inf
    assert got == want, f"{got} in place of {want}"
    return 0


def check(directory):
    """The largest difference between the numbers of a case and the reference's; those of tensors after rounding to f32."""
    texts, gradients, end = answers(directory, inputs_of(directory))
    worst = max(gap(load(directory, name), value) for name, value in texts.items())
    for path, tensors in (("grads_step1.safetensors", gradients), ("train_final/adapter_model.safetensors", end.tensors)):
        there = read_tensors(os.path.join(directory, path))
        rounded = {n: x.astype(np.float32).astype(np.float64) for n, x in tensors.items()}
        worst = max(worst, gap({n: x.tolist() for n, x in there.items()}, {n: x.tolist() for n, x in rounded.items()}))
    return worst


def main(arguments):
    if len(arguments) in (3, 4) and arguments[0] == "draw" and arguments[1].isdigit() and arguments[3:] in [[], *([f] for f in FAMILIES)]:
        draw(int(arguments[1]), *arguments[2:])
    elif len(arguments) >= 2 and arguments[0] == "answer":
        for directory in arguments[1:]:
            answer(directory, inputs_of(directory))
    elif len(arguments) >= 2 and arguments[0] == "check":
        differences = {d: check(d) for d in arguments[1:]}
        for directory, difference in differences.items():
            print(f"{directory}: {difference:.1e}")
        return 1 if max(differences.values()) > 1e-9 else 0
    else:
        print(__doc__, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

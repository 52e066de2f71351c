"""Writes random weights of a shape as a GGUF file, for llama.cpp.

    python3 shapes.py f32|bf16|q4_0 OUT SHAPE[/N]    of qwen3-0.6b, llama3.2-1b or llama3.1-8b, or of N layers of it

With q4_0 the matrices of the layers are in four bits a weight; the embedding and the head are in bf16. It takes numpy.
"""

import os
import struct
import sys

import numpy as np

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "rms_norm_eps": 1e-5, "rope_theta": 5e5, "max_position_embeddings": 131072,
}
SHAPES = {
    "qwen3-0.6b": {
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 3072, "vocab_size": 151936, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True,
        "max_position_embeddings": 40960,
    },
    "llama3.2-1b": LLAMA | {
        "hidden_size": 2048, "num_hidden_layers": 16, "head_dim": 64, "intermediate_size": 8192, "tie_word_embeddings": True,
    },
    "llama3.1-8b": LLAMA | {
        "hidden_size": 4096, "num_hidden_layers": 32, "head_dim": 128, "intermediate_size": 14336, "tie_word_embeddings": False,
    },
}

NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}

UINT32, FLOAT32, STRING = 4, 6, 8  # of a value in the header
TYPES = {"f32": (0, 4), "bf16": (30, 2), "q4_0": (2, 18 / 32)}  # of a tensor: its number, and the bytes of an element
ARCHITECTURES = {"Qwen3ForCausalLM": "qwen3", "LlamaForCausalLM": "llama"}


def shapes(c):
    """Names and shapes, in the order of the file."""
    hidden, inner, width = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    queries, keys = c["num_attention_heads"] * width, c["num_key_value_heads"] * width
    layer = {
        "input_layernorm": (hidden,), "self_attn.q_proj": (queries, hidden), "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, queries), "self_attn.q_norm": (width,),
        "self_attn.k_norm": (width,), "post_attention_layernorm": (hidden,), "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner),
    }
    if architecture(c) == "llama":
        del layer["self_attn.q_norm"], layer["self_attn.k_norm"]
    yield "model.embed_tokens.weight", "token_embd.weight", (c["vocab_size"], hidden)
    yield "model.norm.weight", "output_norm.weight", (hidden,)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", "output.weight", (c["vocab_size"], hidden)
    for i in range(c["num_hidden_layers"]):
        for name, shape in layer.items():
            yield f"model.layers.{i}.{name}.weight", f"blk.{i}.{NAMES[name]}.weight", shape


def architecture(c):
    return ARCHITECTURES[c["architectures"][0]]


def kind_of(kind, name, shape):
    """In what form a tensor is written."""
    if len(shape) < 2:
        return "f32"
    return "bf16" if kind == "q4_0" and not name.startswith("blk.") else kind


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def header(c, kind):
    """The settings, and where each tensor lies."""
    pairs = [("general.architecture", STRING, text(architecture(c))), ("tokenizer.ggml.model", STRING, text("none"))]
    for key, value in {
        "context_length": c["max_position_embeddings"], "embedding_length": c["hidden_size"], "block_count": c["num_hidden_layers"],
        "feed_forward_length": c["intermediate_size"], "attention.head_count": c["num_attention_heads"],
        "attention.head_count_kv": c["num_key_value_heads"], "attention.key_length": c["head_dim"],
        "attention.value_length": c["head_dim"], "vocab_size": c["vocab_size"],
        "rope.dimension_count": c["head_dim"],
    }.items():
        pairs.append((architecture(c) + "." + key, UINT32, struct.pack("<I", value)))
    for key, value in (("attention.layer_norm_rms_epsilon", c["rms_norm_eps"]), ("rope.freq_base", c["rope_theta"])):
        pairs.append((architecture(c) + "." + key, FLOAT32, struct.pack("<f", value)))
    tensors, offset, body = list(shapes(c)), 0, b""
    for key, kind_of_value, value in pairs:
        body += text(key) + struct.pack("<I", kind_of_value) + value
    for _, name, shape in tensors:
        number, size = TYPES[kind_of(kind, name, shape)]
        body += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        body += struct.pack("<IQ", number, offset)
        offset += padded(int(np.prod(shape) * size))
    return b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + body


def to_bf16(x):
    """The nearest bf16 of each number, ties to even, as its 16 bits."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def padded(n):
    return (n + 31) // 32 * 32


def write(path, c, kind, values):
    head = header(c, kind)
    with open(path + ".part", "wb") as f:
        f.write(head.ljust(padded(len(head)), b"\0"))
        for name, to, shape in shapes(c):
            form = kind_of(kind, to, shape)
            if form == "q4_0":
                raw = random_codes(int(np.prod(shape)))
            else:
                x = values(name, shape).astype(np.float32)
                raw = to_bf16(x).tobytes() if form == "bf16" else x.tobytes()
            f.write(raw.ljust(padded(len(raw)), b"\0"))
    os.rename(path + ".part", path)


def random_codes(n):
    """Blocks of 32 weights: a scale in f16, then their codes."""
    blocks = np.random.default_rng(n).integers(0, 256, (n // 32, 18), np.uint8)
    blocks[:, :2] = np.frombuffer(np.float16(0.004).tobytes(), np.uint8)
    return blocks.tobytes()


def main(kind, path, name):
    shape, _, layers = name.partition("/")
    if shape not in SHAPES:
        sys.exit(f"shapes.py: found {name}, expected one of {', '.join(SHAPES)}")
    c = SHAPES[shape] | ({"num_hidden_layers": int(layers)} if layers else {})
    rng = np.random.default_rng(0)
    write(path, c, kind, lambda _, shape: np.ones(shape) if len(shape) == 1 else 0.02 * rng.standard_normal(shape, np.float32))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in TYPES:
        sys.exit(__doc__)
    main(*sys.argv[1:])

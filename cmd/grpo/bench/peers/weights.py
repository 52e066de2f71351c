"""Writes a GGUF file of Qwen3-0.6B's shape with random weights in bf16, and a vocabulary of made-up words as `grpo bench serve` has:
weights.py FILE. It takes numpy."""
import struct
import sys

import numpy as np

HIDDEN, LAYERS, HEADS, KV, DIM, WIDE, VOCAB = 1024, 28, 16, 8, 128, 3072, 151936
U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5
FULL, HALF = 0, 30  # float32, bfloat16


def text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def word(i):
    if i < 256:
        seen = chr(i)
        return seen if "!" <= seen <= "~" or seen >= "¡" and i != 0xAD else chr(256 + sum(
            not ("!" <= chr(k) <= "~" or chr(k) >= "¡" and k != 0xAD) for k in range(i)))
    letters = ""
    for _ in range(4):
        letters += chr(ord("a") + i % 26)
        i //= 26
    return "Ġ" + letters


def settings():
    a = "qwen3."
    yield "general.architecture", STRING, text("qwen3")
    yield "general.name", STRING, text("random")
    for key, value in {"context_length": 40960, "embedding_length": HIDDEN, "block_count": LAYERS, "feed_forward_length": WIDE,
                       "attention.head_count": HEADS, "attention.head_count_kv": KV, "attention.key_length": DIM,
                       "attention.value_length": DIM, "vocab_size": VOCAB}.items():
        yield a + key, U32, struct.pack("<I", value)
    yield a + "attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-6)
    yield a + "rope.freq_base", F32, struct.pack("<f", 1e6)
    yield "tokenizer.ggml.model", STRING, text("gpt2")
    yield "tokenizer.ggml.pre", STRING, text("qwen2")
    words = b"".join(text(word(i)) for i in range(VOCAB))
    yield "tokenizer.ggml.tokens", ARRAY, struct.pack("<IQ", STRING, VOCAB) + words
    yield "tokenizer.ggml.token_type", ARRAY, struct.pack("<IQ", I32, VOCAB) + struct.pack("<i", 1) * VOCAB
    yield "tokenizer.ggml.merges", ARRAY, struct.pack("<IQ", STRING, 1) + text("a b")
    yield "tokenizer.ggml.eos_token_id", U32, struct.pack("<I", VOCAB - 1)


def tensors():
    yield "token_embd.weight", (VOCAB, HIDDEN)
    yield "output_norm.weight", (HIDDEN,)
    for layer in range(LAYERS):
        for name, shape in {"attn_norm": (HIDDEN,), "attn_q": (HEADS * DIM, HIDDEN), "attn_k": (KV * DIM, HIDDEN), "attn_v": (KV * DIM, HIDDEN),
                            "attn_output": (HIDDEN, HEADS * DIM), "attn_q_norm": (DIM,), "attn_k_norm": (DIM,), "ffn_norm": (HIDDEN,),
                            "ffn_gate": (WIDE, HIDDEN), "ffn_up": (WIDE, HIDDEN), "ffn_down": (HIDDEN, WIDE)}.items():
            yield f"blk.{layer}.{name}.weight", shape


def padded(raw):
    return raw + b"\0" * (-len(raw) % 32)


def values(shape, rng):
    if len(shape) == 1:
        return np.ones(shape, np.float32).tobytes()
    drawn = rng.standard_normal(shape, dtype=np.float32) * 0.02
    return (drawn.view(np.uint32) >> 16).astype(np.uint16).tobytes()


def write(path):
    pairs, parts, at, index = list(settings()), list(tensors()), 0, b""
    for name, shape in parts:
        kind = FULL if len(shape) == 1 else HALF
        index += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in reversed(shape)) + struct.pack("<IQ", kind, at)
        at += -(-int(np.prod(shape)) * (4 if kind == FULL else 2) // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(parts), len(pairs))
    head += b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in pairs) + index
    rng = np.random.default_rng(1)
    with open(path, "wb") as out:
        out.write(padded(head))
        for _, shape in parts:
            out.write(padded(values(shape, rng)))


write(sys.argv[1])

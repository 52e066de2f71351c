"""PyTorch's forward and backward pass of a LoRA adapter of rank 16 on Qwen3-0.6B's shape, as `grpo bench train` has it.

    python3 lora.py f32|bf16 TOKENS RUNS     prints the median tokens per second, after a run that is not counted

Weights are random, frozen and of the type named, the adapter's factors too; norms, the softmax and the loss are in f32. Attention
is the library's fused one where this version has it.
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F

HIDDEN, LAYERS, HEADS, KEYS, WIDTH, INNER, VOCAB, RANK = 1024, 28, 16, 8, 128, 3072, 151936, 16
SHAPES = {
    "q": (HEADS * WIDTH, HIDDEN), "k": (KEYS * WIDTH, HIDDEN), "v": (KEYS * WIDTH, HIDDEN), "o": (HIDDEN, HEADS * WIDTH),
    "gate": (INNER, HIDDEN), "up": (INNER, HIDDEN), "down": (HIDDEN, INNER),
}


class Linear:
    """A frozen matrix with an adapter beside it: W x + 2 B A x."""

    def __init__(self, outputs, inputs, dtype):
        self.w = (0.02 * torch.randn(outputs, inputs)).to(dtype)
        self.a = (0.02 * torch.randn(RANK, inputs)).to(dtype).requires_grad_()
        self.b = (0.02 * torch.randn(outputs, RANK)).to(dtype).requires_grad_()

    def __call__(self, x):
        return F.linear(x, self.w) + 2 * F.linear(F.linear(x, self.a), self.b)


def norm(x):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(q, k, v, mask):
    k, v = (x.repeat_interleave(HEADS // KEYS, 0) for x in (k, v))
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    scores = (q @ k.transpose(1, 2)).float() / WIDTH**0.5 + mask
    return torch.softmax(scores, -1).to(v.dtype) @ v


def forward(layers, embedding, tokens, cos, sin, mask):
    x = embedding[tokens]
    heads = lambda y: y.view(len(tokens), -1, WIDTH).transpose(0, 1)
    for l in layers:
        h = norm(x)
        q, k, v = (heads(l[n](h)) for n in "qkv")
        mixed = attention(rotate(norm(q), cos, sin), rotate(norm(k), cos, sin), v, mask)
        x = x + l["o"](mixed.transpose(0, 1).reshape(len(tokens), -1))
        h = norm(x)
        x = x + l["down"](F.silu(l["gate"](h)) * l["up"](h))
    return F.linear(norm(x), embedding).float()


def main(kind, length, runs):
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ.get("THREADS") or len(os.sched_getaffinity(0))))
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
    layers = [{n: Linear(*shape, dtype) for n, shape in SHAPES.items()} for _ in range(LAYERS)]
    embedding = (0.02 * torch.randn(VOCAB, HIDDEN)).to(dtype)
    angles = torch.outer(torch.arange(length).float(), 1e6 ** (-torch.arange(0, WIDTH, 2).float() / WIDTH))
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    mask = torch.full((length, length), float("-inf")).triu(1)
    tokens = torch.randint(VOCAB, (length + 1,))
    rates = []
    for _ in range(runs + 1):
        for l in layers:
            for m in l.values():
                m.a.grad = m.b.grad = None
        begin = time.perf_counter()
        F.cross_entropy(forward(layers, embedding, tokens[:-1], cos, sin, mask), tokens[1:]).backward()
        rates.append(length / (time.perf_counter() - begin))
    print(json.dumps({"tokens_per_s": statistics.median(rates[1:]), "torch": torch.__version__}))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("f32", "bf16"):
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))

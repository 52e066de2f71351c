"""Decoders with a LoRA adapter in float64, with derivatives and Adam, written from the formulas in numpy: Qwen3, Qwen2, Llama,
Mistral and Gemma 2, with their ways to scale rotary positions.

It shares nothing with grpo: no code, no kernels, no order of sums. Every operation gives its value and a
function from the derivative of the loss with respect to that value to the one with respect to its input; the
derivatives of an adapter's factors are added up in a dictionary. Sequences are computed one by one.
"""

import numpy as np

from rotary import cosines
from tensors import from_bf16, to_bf16


def rms_norm(x, weight, eps):
    inverse = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    unit = x * inverse

    def back(dy):
        du = dy * weight
        return inverse * (du - unit * np.mean(du * unit, axis=-1, keepdims=True))

    return unit * weight, back


def rotate(x, cos, sin):
    """Rotary positions: element i of each half of a head is rotated together. The derivative rotates back."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def bent(x, cap):
    """cap · tanh(x / cap), and its derivative; without a cap, the identity."""
    if not cap:
        return x, 1.0
    t = np.tanh(x / cap)
    return cap * t, 1 - t * t


def attention(q, k, v, scale, cap, window):
    """Causal grouped-query attention of (T, heads, D) over (T, fewer heads, D). With a window, a position reads itself and the
    window − 1 positions before it."""
    length, heads, width = q.shape
    share = heads // k.shape[1]
    q_, k_, v_ = (np.repeat(x, n, axis=1).transpose(1, 0, 2) for x, n in ((q, 1), (k, share), (v, share)))
    scores, slope = bent(q_ @ k_.transpose(0, 2, 1) * scale, cap)
    seen = np.tri(length, dtype=bool)
    if window:
        seen &= ~np.tri(length, k=-window, dtype=bool)
    scores = np.where(seen, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)

    def back(dy):
        dy = dy.transpose(1, 0, 2)
        dp = dy @ v_.transpose(0, 2, 1)
        ds = p * (dp - np.sum(dp * p, -1, keepdims=True)) * slope * scale
        shared = lambda x: x.transpose(1, 0, 2).reshape(length, -1, share, width).sum(2)
        return (ds @ k_).transpose(1, 0, 2), shared(ds.transpose(0, 2, 1) @ q_), shared(p.transpose(0, 2, 1) @ dy)

    return (p @ v_).transpose(1, 0, 2), back


def silu_times(gate, up):
    s = 1 / (1 + np.exp(-gate))

    def back(dy):
        return dy * up * s * (1 + gate * (1 - s)), dy * gate * s

    return gate * s * up, back


def gelu_times(gate, up):
    """The tanh form of GELU."""
    c, a = np.sqrt(2 / np.pi), 0.044715
    t = np.tanh(c * (gate + a * gate**3))
    half = 0.5 * (1 + t)

    def back(dy):
        slope = half + 0.5 * gate * (1 - t * t) * c * (1 + 3 * a * gate**2)
        return dy * up * slope, dy * gate * half

    return gate * half * up, back


class Model:
    def __init__(self, config, weights, adapter=None):
        self.c, self.w, self.adapter = config, weights, adapter
        self.family = config["architectures"][0]
        self.gemma = self.family == "Gemma2ForCausalLM"
        if config.get("tie_word_embeddings", self.gemma):
            self.head = weights["model.embed_tokens.weight"]
        else:
            self.head = weights["lm_head.weight"]
        self.width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]

    def norm(self, x, name):
        """Gemma stores the weights of norms minus one."""
        return rms_norm(x, self.w[name + ".weight"] + (1 if self.gemma else 0), self.c["rms_norm_eps"])

    def window(self, layer):
        """The number of positions that a layer attends to; None: all."""
        c = self.c
        slides = {
            "MistralForCausalLM": lambda: True,
            "Gemma2ForCausalLM": lambda: layer % 2 == 0,
        }.get(self.family, lambda: c.get("use_sliding_window") and layer >= c["max_window_layers"])
        return c.get("sliding_window") if slides() else None

    def linear(self, x, module, grads):
        w, bias = self.w[module + ".weight"], self.w.get(module + ".bias", 0)
        factors = self.adapter and self.adapter.factors(module)
        if not factors:
            return x @ w.T + bias, lambda dy: dy @ w
        a, b = (self.adapter.tensors[n] for n in factors)
        scale = self.adapter.scale
        down = x @ a.T

        def back(dy):
            ddown = scale * dy @ b
            for name, g in zip(factors, (ddown.T @ x, scale * dy.T @ down)):
                grads[name] = grads.get(name, 0) + g
            return dy @ w + ddown @ a

        return x @ w.T + bias + scale * (down @ b.T), back

    def head_norm(self, x, name):
        """The norm of heads, in families that have one."""
        return self.norm(x, name) if name + ".weight" in self.w else (x, lambda dy: dy)

    def mix(self, h, i, grads):
        """Attention, with its projections."""
        c, at, length = self.c, f"model.layers.{i}.self_attn.", len(h)
        cos, sin = (x[:, None, :] for x in cosines(c, self.width, length))
        projections = [self.linear(h, f"{at}{n}_proj", grads) for n in "qkv"]
        q, k, v = (y.reshape(length, -1, self.width) for y, _ in projections)
        q, q_back = self.head_norm(q, at + "q_norm")
        k, k_back = self.head_norm(k, at + "k_norm")
        scale = c.get("query_pre_attn_scalar", self.width) ** -0.5
        mixed, attention_back = attention(
            rotate(q, cos, sin), rotate(k, cos, sin), v, scale, c.get("attn_logit_softcapping"), self.window(i))
        out, out_back = self.linear(mixed.reshape(length, -1), at + "o_proj", grads)

        def back(dy):
            dq, dk, dv = attention_back(out_back(dy).reshape(mixed.shape))
            dq, dk = q_back(rotate(dq, cos, -sin)), k_back(rotate(dk, cos, -sin))
            return sum(b(d.reshape(length, -1)) for (_, b), d in zip(projections, (dq, dk, dv)))

        return out, back

    def mlp(self, h, i, grads):
        at = f"model.layers.{i}.mlp."
        gate, gate_back = self.linear(h, at + "gate_proj", grads)
        up, up_back = self.linear(h, at + "up_proj", grads)
        product, product_back = (gelu_times if self.gemma else silu_times)(gate, up)
        down, down_back = self.linear(product, at + "down_proj", grads)

        def back(dy):
            dgate, dup = product_back(down_back(dy))
            return gate_back(dgate) + up_back(dup)

        return down, back

    def layer(self, x, i, grads):
        """Attention and the MLP, each with a norm before it and a residual around it; Gemma 2 has norms after them, too."""
        norms = ("input", "post_attention"), ("pre_feedforward", "post_feedforward")
        if not self.gemma:
            norms = ("input", None), ("post_attention", None)
        backs = []
        for (before, after), part in zip(norms, (self.mix, self.mlp)):
            chain = []
            h = x
            for step in (before, part, after):
                if step is part:
                    h, back = part(h, i, grads)
                elif step:
                    h, back = self.norm(h, f"model.layers.{i}.{step}_layernorm")
                else:
                    continue
                chain.append(back)
            x = x + h
            backs.append(chain)

        def back(dy):
            for chain in reversed(backs):
                dh = dy
                for b in reversed(chain):
                    dh = b(dh)
                dy = dy + dh
            return dy

        return x, back

    def logits(self, tokens, grads=None):
        """Logits (T, V), and the function that adds the derivatives of the adapter's factors to grads."""
        x, backs = self.w["model.embed_tokens.weight"][np.asarray(tokens)], []
        if self.gemma:  # the factor is rounded to bf16, the type of the published weights
            x = x * from_bf16(to_bf16(np.sqrt([self.c["hidden_size"]])))[0]
        for i in range(self.c["num_hidden_layers"]):
            x, back = self.layer(x, i, grads)
            backs.append(back)
        x, norm_back = self.norm(x, "model.norm")
        logits, slope = bent(x @ self.head.T, self.c.get("final_logit_softcapping"))

        def back(dlogits):
            dx = norm_back(slope * dlogits @ self.head)
            for b in reversed(backs):
                dx = b(dx)

        return logits, back

    def score(self, tokens):
        """The log-probability of each token but the first, and the logits after the last."""
        logits, _ = self.logits(tokens)
        return log_softmax(logits[:-1])[np.arange(len(tokens) - 1), tokens[1:]], logits[-1]

    def greedy(self, prompt, n):
        """The greedy continuation, each token's log-probability, and its margin over the runner-up."""
        tokens, logprobs, margins = list(prompt), [], []
        for _ in range(n):
            row = log_softmax(self.logits(tokens)[0][-1])
            second, first = np.argsort(row, kind="stable")[-2:]
            tokens.append(int(first))
            logprobs.append(row[first])
            margins.append(row[first] - row[second])
        return tokens[len(prompt):], logprobs, margins


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def importance_sampling(model, datums):
    """−Σ exp(logp − q)·A over the completions of all datums, and its derivatives with respect to the adapter's factors."""
    loss, grads = 0.0, {}
    for d in datums:
        logits, back = model.logits(d["tokens"][:-1], grads)
        logp = log_softmax(logits)
        at = (np.arange(len(logits)), d["tokens"][1:])
        counts = np.arange(len(logits)) >= d["ob_len"] - 1
        terms = counts * np.exp(logp[at] - np.asarray(d["logprobs"])) * d["advantage"]
        loss -= terms.sum()
        dlogits = np.exp(logp) * terms[:, None]  # with respect to logits: (p − 1 at the token, p elsewhere) · term
        dlogits[at] -= terms
        back(dlogits)
    return loss, grads


def train(config, weights, adapter, datums, adam, steps):
    """Adam with decoupled weight decay on the same datums. Returns each step's loss and norm, the first gradients, the final adapter."""
    values = {n: x.copy() for n, x in adapter.tensors.items()}
    m, v = ({n: np.zeros_like(x) for n, x in values.items()} for _ in range(2))
    beta1, beta2, log, first = adam["beta1"], adam["beta2"], [], None
    for step in range(1, steps + 1):
        loss, grads = importance_sampling(Model(config, weights, adapter.with_tensors(values)), datums)
        first = first or grads
        norm = np.sqrt(sum(np.sum(g * g) for g in grads.values()))
        log.append({"step": step, "loss": float(loss), "grad_norm": float(norm)})
        for n, g in grads.items():
            m[n] = beta1 * m[n] + (1 - beta1) * g
            v[n] = beta2 * v[n] + (1 - beta2) * g * g
            move = (m[n] / (1 - beta1**step)) / (np.sqrt(v[n] / (1 - beta2**step)) + adam["eps"])
            values[n] = values[n] - adam["lr"] * (move + adam["weight_decay"] * values[n])
    return log, first, adapter.with_tensors(values)

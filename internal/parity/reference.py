"""Qwen3 with a LoRA adapter in float64, with derivatives and Adam, written from the formulas in numpy.

It shares nothing with grpo: no code, no kernels, no order of sums. Every operation gives its value and a
function that takes the loss's derivative by that value to the one by its input; what an adapter's
factors gather goes into a dictionary. Sequences are computed one by one.
"""

import numpy as np


def rms_norm(x, weight, eps):
    inverse = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    unit = x * inverse

    def back(dy):
        du = dy * weight
        return inverse * (du - unit * np.mean(du * unit, axis=-1, keepdims=True))

    return unit * weight, back


def rotate(x, cos, sin):
    """Rotary positions: the two halves of a head turn together. Turning back is the derivative."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(q, k, v):
    """Causal attention of (T, heads, D) over (T, fewer heads, D); as many queries share a key as there are more heads."""
    length, heads, width = q.shape
    share = heads // k.shape[1]
    q_, k_, v_ = (np.repeat(x, n, axis=1).transpose(1, 0, 2) for x, n in ((q, 1), (k, share), (v, share)))
    scores = q_ @ k_.transpose(0, 2, 1) / np.sqrt(width)
    scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)

    def back(dy):
        dy = dy.transpose(1, 0, 2)
        dp = dy @ v_.transpose(0, 2, 1)
        ds = p * (dp - np.sum(dp * p, -1, keepdims=True)) / np.sqrt(width)
        shared = lambda x: x.transpose(1, 0, 2).reshape(length, -1, share, width).sum(2)
        return (ds @ k_).transpose(1, 0, 2), shared(ds.transpose(0, 2, 1) @ q_), shared(p.transpose(0, 2, 1) @ dy)

    return (p @ v_).transpose(1, 0, 2), back


def silu_times(gate, up):
    s = 1 / (1 + np.exp(-gate))

    def back(dy):
        return dy * up * s * (1 + gate * (1 - s)), dy * gate * s

    return gate * s * up, back


class Model:
    def __init__(self, config, weights, adapter=None):
        self.c, self.w, self.adapter = config, weights, adapter
        if config.get("tie_word_embeddings"):
            self.head = weights["model.embed_tokens.weight"]
        else:
            self.head = weights["lm_head.weight"]

    def linear(self, x, module, grads):
        w = self.w[module + ".weight"]
        factors = self.adapter and self.adapter.factors(module)
        if not factors:
            return x @ w.T, lambda dy: dy @ w
        a, b = (self.adapter.tensors[n] for n in factors)
        scale = self.adapter.scale
        down = x @ a.T

        def back(dy):
            ddown = scale * dy @ b
            for name, g in zip(factors, (ddown.T @ x, scale * dy.T @ down)):
                grads[name] = grads.get(name, 0) + g
            return dy @ w + ddown @ a

        return x @ w.T + scale * (down @ b.T), back

    def layer(self, x, i, grads):
        c, at = self.c, f"model.layers.{i}."
        eps, width, length = c["rms_norm_eps"], c["head_dim"], len(x)
        angles = np.outer(np.arange(length), c["rope_theta"] ** (-np.arange(0, width, 2) / width))[:, None, :]
        cos, sin = np.cos(angles), np.sin(angles)

        h, norm_back = rms_norm(x, self.w[at + "input_layernorm.weight"], eps)
        projections = [self.linear(h, f"{at}self_attn.{n}_proj", grads) for n in "qkv"]
        q, k, v = (y.reshape(length, -1, width) for y, _ in projections)
        q, q_back = rms_norm(q, self.w[at + "self_attn.q_norm.weight"], eps)
        k, k_back = rms_norm(k, self.w[at + "self_attn.k_norm.weight"], eps)
        mixed, attention_back = attention(rotate(q, cos, sin), rotate(k, cos, sin), v)
        out, out_back = self.linear(mixed.reshape(length, -1), at + "self_attn.o_proj", grads)
        middle = x + out

        h2, norm2_back = rms_norm(middle, self.w[at + "post_attention_layernorm.weight"], eps)
        gate, gate_back = self.linear(h2, at + "mlp.gate_proj", grads)
        up, up_back = self.linear(h2, at + "mlp.up_proj", grads)
        product, product_back = silu_times(gate, up)
        down, down_back = self.linear(product, at + "mlp.down_proj", grads)

        def back(dy):
            dgate, dup = product_back(down_back(dy))
            dmiddle = dy + norm2_back(gate_back(dgate) + up_back(dup))
            dq, dk, dv = attention_back(out_back(dmiddle).reshape(mixed.shape))
            dq, dk = q_back(rotate(dq, cos, -sin)), k_back(rotate(dk, cos, -sin))
            dh = sum(b(d.reshape(length, -1)) for (_, b), d in zip(projections, (dq, dk, dv)))
            return dmiddle + norm_back(dh)

        return middle + down, back

    def logits(self, tokens, grads=None):
        """(T, V), and the function that gathers the derivatives of the adapter's factors into grads."""
        x, backs = self.w["model.embed_tokens.weight"][np.asarray(tokens)], []
        for i in range(self.c["num_hidden_layers"]):
            x, back = self.layer(x, i, grads)
            backs.append(back)
        x, norm_back = rms_norm(x, self.w["model.norm.weight"], self.c["rms_norm_eps"])

        def back(dlogits):
            dx = norm_back(dlogits @ self.head)
            for b in reversed(backs):
                dx = b(dx)

        return x @ self.head.T, back

    def score(self, tokens):
        """The log-probability of each token but the first, and the logits after the last."""
        logits, _ = self.logits(tokens)
        return log_softmax(logits[:-1])[np.arange(len(tokens) - 1), tokens[1:]], logits[-1]

    def greedy(self, prompt, n):
        """The likeliest continuation, each token's log-probability, and its lead over the runner-up."""
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
    """−Σ exp(logp − q)·A over the completions of all datums, and its derivatives by the adapter's factors."""
    loss, grads = 0.0, {}
    for d in datums:
        logits, back = model.logits(d["tokens"][:-1], grads)
        logp = log_softmax(logits)
        at = (np.arange(len(logits)), d["tokens"][1:])
        counts = np.arange(len(logits)) >= d["ob_len"] - 1
        terms = counts * np.exp(logp[at] - np.asarray(d["logprobs"])) * d["advantage"]
        loss -= terms.sum()
        dlogits = np.exp(logp) * terms[:, None]  # by a logit: p − 1 at the token, p elsewhere, times −(−term)
        dlogits[at] -= terms
        back(dlogits)
    return loss, grads


def train(config, weights, adapter, datums, adam, steps):
    """Adam with decoupled weight decay on the same datums. Gives each step's loss and norm, the first gradients, the end."""
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

"""Safetensors files and PEFT directories, read into float64 without a library."""

import json
import os
import struct

import numpy as np

ALL_TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def to_bf16(x):
    """Rounds to bf16, ties to even; the result is the 16 bits."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def read_tensors(path):
    """The tensors of a safetensors file."""
    with open(path, "rb") as f:
        data = f.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, t in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        raw = data[start + t["data_offsets"][0] : start + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            values = from_bf16(np.frombuffer(raw, np.uint16))
        elif t["dtype"] == "U8":
            values = np.frombuffer(raw, np.uint8)
        else:
            values = np.frombuffer(raw, {"F32": np.float32, "F16": np.float16}[t["dtype"]]).astype(np.float64)
        tensors[name] = values.reshape(t["shape"])
    return tensors


def write_tensors(path, tensors, dtype):
    """Writes tensors as "F32" or "BF16", rounded."""
    head, body = {"__metadata__": {"format": "pt"}}, b""
    for name, x in tensors.items():
        raw = (x.astype(np.float32) if dtype == "F32" else to_bf16(x)).tobytes()
        head[name] = {"dtype": dtype, "shape": list(x.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def read_model(directory):
    """config.json and the tensors of a model, in one file or several."""
    with open(os.path.join(directory, "config.json")) as f:
        config = json.load(f)
    weights = {}
    for name in sorted(os.listdir(directory)):
        if name.startswith("model") and name.endswith(".safetensors"):
            weights.update(read_tensors(os.path.join(directory, name)))
    return config, decoded(weights)


def decoded(weights):
    """Dequantises 4-bit weights (NF4, as bitsandbytes writes it); other tensors are unchanged."""
    state_of = ".quant_state.bitsandbytes__nf4"
    quantised = [name.removesuffix(state_of) for name in weights if name.endswith(state_of)]
    out = {n: w for n, w in weights.items() if not any(n == q or n.startswith(q + ".") for q in quantised)}
    for name in quantised:
        state = json.loads(weights[name + state_of].tobytes())
        codes, scales = weights[name].ravel(), weights[name + ".absmax"]
        if "nested_blocksize" in state:
            outer = np.repeat(weights[name + ".nested_absmax"], state["nested_blocksize"])[: len(scales)].astype(np.float32)
            scaled = weights[name + ".nested_quant_map"].astype(np.float32)[scales] * outer
            scales = scaled + np.float32(state["nested_offset"])
        count = int(np.prod(state["shape"]))
        codes = np.stack([codes >> 4, codes & 15], axis=1).ravel()[:count]
        scales = np.repeat(scales.astype(np.float32), state["blocksize"])[:count]
        values = weights[name + ".quant_map"].astype(np.float32)[codes] * scales
        assert state["dtype"] == "bfloat16", state["dtype"]
        out[name] = from_bf16(to_bf16(values)).reshape(state["shape"])
    return out


class Adapter:
    """A PEFT adapter: y = W x + (alpha/r) B A x. Tensors have the names of the file."""

    PREFIX = "base_model.model."

    def __init__(self, rank, alpha, targets, tensors):
        self.rank, self.alpha, self.targets, self.tensors = rank, alpha, targets, tensors
        self.scale = alpha / rank

    @classmethod
    def read(cls, directory):
        with open(os.path.join(directory, "adapter_config.json")) as f:
            c = json.load(f)
        return cls(c["r"], c["lora_alpha"], c["target_modules"], read_tensors(os.path.join(directory, "adapter_model.safetensors")))

    def write(self, directory):
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "adapter_config.json"), "w") as f:
            json.dump({
                "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": self.rank, "lora_alpha": self.alpha, "lora_dropout": 0.0,
                "bias": "none", "target_modules": self.targets, "inference_mode": False, "base_model_name_or_path": "golden",
            }, f, indent=1)
        write_tensors(os.path.join(directory, "adapter_model.safetensors"), self.tensors, "F32")

    def factors(self, module):
        """The names of A and B of a module such as model.layers.0.self_attn.q_proj; None if it has none."""
        names = [f"{self.PREFIX}{module}.lora_{x}.weight" for x in "AB"]
        return names if names[0] in self.tensors else None

    def with_tensors(self, tensors):
        return Adapter(self.rank, self.alpha, self.targets, tensors)

"""Rotary positions: the rotation of the pairs of a head, and the published ways to extend the context."""

import numpy as np


def cosines(config, width, length):
    """Cosines and sines of the angles of each position, (length, width / 2)."""
    turns, magnitude = frequencies(config, width)
    angles = np.outer(np.arange(length), turns)
    return magnitude * np.cos(angles), magnitude * np.sin(angles)


def frequencies(config, width):
    """The frequencies (angle per position), and the factor of cosines and sines."""
    base, s = config.get("rope_theta", 1e4), config.get("rope_scaling") or {}
    turns = base ** (-np.arange(0, width, 2) / width)
    kind = s.get("rope_type", "default")
    if kind == "default":
        return turns, 1.0
    if kind == "linear":  # "Extending Context Window of Large Language Models via Positional Interpolation"
        return turns / s["factor"], 1.0
    if kind == "llama3":
        return llama3(turns, s), 1.0
    assert kind == "yarn", kind
    return yarn(turns, s, base, width)


def llama3(turns, s):
    """Llama 3.1: wavelengths that are long relative to the original context are stretched, short ones are kept."""
    original, out = s["original_max_position_embeddings"], []
    for f in turns:
        wave = 2 * np.pi / f
        if wave < original / s["high_freq_factor"]:
            out.append(f)
        elif wave > original / s["low_freq_factor"]:
            out.append(f / s["factor"])
        else:
            smooth = (original / wave - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
            out.append((1 - smooth) * f / s["factor"] + smooth * f)
    return np.array(out)


def yarn(turns, s, base, width):
    """"YaRN: Efficient Context Window Extension of Large Language Models", with the ramp over dimensions of its authors' program:
    dimensions with more than beta_fast rotations in the original context are kept, those with less than beta_slow are
    interpolated."""

    def dimension(rotations):
        """The dimension d with that many rotations in the original context: b ** (2d / D) · 2π · rotations is its length."""
        return width * np.log(s["original_max_position_embeddings"] / (2 * np.pi * rotations)) / (2 * np.log(base))

    first, last = dimension(s.get("beta_fast", 32)), dimension(s.get("beta_slow", 1))
    if s.get("truncate", True):
        first, last = np.floor(first), np.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    ramp = np.clip((np.arange(width // 2) - first) / max(last - first, 1e-3), 0, 1)
    magnitude = s.get("attention_factor") or 0.1 * np.log(s["factor"]) + 1
    return turns * (1 - ramp) + turns / s["factor"] * ramp, magnitude

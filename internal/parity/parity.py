"""Compares grpo with an independent float64 reference, and prints the differences.

    python3 parity.py --grpo bin/grpo [--seed N] [--cases K] [--keep DIR] [--llama COMMAND]

There are two kinds of cases: the committed ones, whose answers must be those of the reference, and K new ones
of each family, drawn from the seed. On each, grpo scores, samples greedily, trains, merges, and reads and writes adapters in
PEFT's format, with and without an adapter.
"""

import argparse
import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile

import numpy as np

import cases
from reference import Model
from tensors import Adapter, read_model, read_tensors

HERE = os.path.dirname(os.path.abspath(__file__))
COMMITTED = os.path.join(HERE, "..", "..", "model", "testdata", "golden")

# Limits for rounding in single precision; a wrong formula differs by a hundred times as much.
LIMITS = {
    "committed answers, beside the reference": 1e-9,
    "log-probabilities": 2e-5,
    "log-probabilities, with an adapter": 2e-5,
    "greedy: wrong tokens": 0,
    "greedy: log-probabilities": 2e-5,
    "training: loss (relative)": 1e-5,
    "training: gradient norm (relative)": 1e-5,
    "training: gradients of a tensor (by norm)": 2e-5,
    "training: way of the adapter (by norm)": 1e-3,
    "PEFT: values changed by reading and writing": 0,
    "PEFT: log-probabilities of a written adapter": 2e-5,
    "merged weights: units in the last place of bf16": 0.51,
    "llama.cpp: log-probabilities of grpo": 1e-4,
    "llama.cpp: of Gemma 2, whose scale it does not round": 5e-3,
}


class Table:
    """The largest difference of each kind over all cases."""

    def __init__(self):
        self.worst = {}

    def add(self, what, difference):
        difference = float(difference) if np.isfinite(difference) else np.inf
        count, worst = self.worst.get(what, (0, 0.0))
        self.worst[what] = count + 1, max(worst, difference)

    def print(self):
        """Whether all differences are within their limits."""
        fine = True
        for what, (count, worst) in self.worst.items():
            ok = worst <= LIMITS[what]
            fine = fine and ok
            print(f"{what:50}  {count:4} ×  at most {worst:<8.2g}  allowed {LIMITS[what]:<7.2g}  {'ok' if ok else 'FAILED'}")
        return fine


class Grpo:
    def __init__(self, command, table):
        self.command, self.table = command, table

    def __call__(self, *arguments, lines=()):
        """The JSON lines that a verb prints."""
        text = "".join(json.dumps(line) + "\n" for line in lines)
        done = subprocess.run([self.command, *map(str, arguments)], input=text, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"parity: grpo {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def scores(self, model, sequences, *more):
        return [s["logprobs"] for s in self("score", "--model", model, *more, lines=({"tokens": s} for s in sequences))]

    def compare(self, case, scratch):
        """All comparisons of a case."""
        self.compare_scores(case)
        self.compare_greedy(case)
        self.compare_training(case, scratch)
        self.compare_merge(case, os.path.join(scratch, "merged"))

    def compare_scores(self, case):
        want = cases.load(case, "score.json")
        sequences = [w["tokens"] for w in want]
        plain = self.scores(case, sequences)
        adapted = self.scores(case, sequences, "--adapter", os.path.join(case, "adapter"))
        for w, p, a in zip(want, plain, adapted, strict=True):
            self.table.add("log-probabilities", cases.gap(p, w["logprobs_base"]))
            self.table.add("log-probabilities, with an adapter", cases.gap(a, w["logprobs_adapter"]))

    def compare_greedy(self, case):
        for want in cases.load(case, "greedy.json"):
            n, more = len(want["completion"]), []
            if want["with"] == "adapter":
                more = ["--adapter", os.path.join(case, "adapter")]
            got, = self("sample", "--model", case, "--tokens", "-", "--temperature", 0, "--json", "--max-tokens", n, *more,
                        lines=[{"tokens": want["prompt"]}])
            for i in range(n):
                if want["margins"][i] < 1e-3:
                    break  # a tie in single precision: the tokens after it depend on how it is broken
                self.table.add("greedy: wrong tokens", int(got["tokens"][i] != want["completion"][i]))
                self.table.add("greedy: log-probabilities", abs(got["logprobs"][i] - want["logprobs"][i]))

    def compare_training(self, case, scratch):
        want, start = cases.load(case, "train.json"), os.path.join(case, "train_init")
        datums, out, dumped = (os.path.join(scratch, n) for n in ("datums.jsonl", "trained", "gradients.safetensors"))
        with open(datums, "w") as f:
            f.writelines(json.dumps(d) + "\n" for d in want["datums"])
        replay = ["replay", "--model", case, "--datums", datums]
        adam = want["adam"]
        keys = [f"learning_rate={adam['lr']}", *(f"adam_{k}={adam[k]}" for k in ("beta1", "beta2", "eps"))]
        steps = self(*replay, "--adapter", start, "--steps", len(want["steps"]), "--out", out, "--dump-grads", dumped,
                     f"weight_decay={adam['weight_decay']}", *keys)
        for w, s in zip(want["steps"], steps, strict=True):
            self.table.add("training: loss (relative)", abs(s["loss"] - w["loss"]) / max(1, abs(w["loss"])))
            self.table.add("training: gradient norm (relative)", abs(s["grad_norm"] / w["grad_norm"] - 1))
        gradients = read_tensors(dumped)
        for name, g in read_tensors(os.path.join(case, "grads_step1.safetensors")).items():
            self.table.add("training: gradients of a tensor (by norm)", distance(gradients[name], g))
        begin, got, end = (Adapter.read(d).tensors for d in (start, out, os.path.join(case, "train_final")))
        way = lambda to: np.concatenate([(to[n] - begin[n]).ravel() for n in sorted(begin)])
        self.table.add("training: way of the adapter (by norm)", distance(way(got), way(end)))
        self.compare_peft(case, [*replay, "--steps", 1], scratch, out)

    def compare_peft(self, case, replay, scratch, trained):
        """Reading and writing an adapter keeps every bit; the reference scores an adapter written by grpo as grpo does."""
        kept, copied = os.path.join(case, "adapter"), os.path.join(scratch, "copied")
        self(*replay, "--adapter", kept, "--out", copied, "learning_rate=0")
        a, b = Adapter.read(kept), Adapter.read(copied)
        changed = (a.rank, a.alpha, sorted(a.targets)) != (b.rank, b.alpha, sorted(b.targets)) or a.tensors.keys() != b.tensors.keys()
        changed += sum(int(np.sum(a.tensors[n] != b.tensors[n])) for n in a.tensors.keys() & b.tensors.keys())
        self.table.add("PEFT: values changed by reading and writing", changed)

        model = Model(*read_model(case), Adapter.read(trained))
        sequences = [s["tokens"] for s in cases.load(case, "score.json")]
        for tokens, got in zip(sequences, self.scores(case, sequences, "--adapter", trained), strict=True):
            self.table.add("PEFT: log-probabilities of a written adapter", cases.gap(got, model.score(tokens)[0].tolist()))

    def compare_merge(self, case, out):
        adapter = os.path.join(case, "adapter")
        self("merge", "--model", case, "--adapter", adapter, "--out", out)
        _, weights = read_model(case)
        _, merged = read_model(out)
        a = Adapter.read(adapter)
        assert merged.keys() == weights.keys()
        for name, w in weights.items():
            factors = a.factors(name.removesuffix(".weight"))
            if factors:
                down, up = (a.tensors[n] for n in factors)
                w = w + a.scale * up @ down
            # Rounding once from float64 is off by half a unit at most; single precision adds a little.
            unit = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(w), 1e-3))) - 7)
            self.table.add("merged weights: units in the last place of bf16", np.max(np.abs(merged[name] - w) / unit))

    def compare_llama(self, case, command, scratch, sequences=None):
        """Compares log-probabilities of grpo with those of llama.cpp, which reads the GGUF that grpo writes. Returns why grpo
        refuses to write one, or None."""
        sequences = sequences or [s["tokens"] for s in cases.load(case, "score.json")]
        config = cases.load(case, "config.json")
        gemma = config["architectures"] == ["Gemma2ForCausalLM"]
        if not gemma and config.get("sliding_window"):  # GGUF has no window here: sequences are cut to its length
            sequences = [s[:config["sliding_window"]] for s in sequences]
        done = subprocess.run([*command, case, scratch], input="".join(" ".join(map(str, s)) + "\n" for s in sequences),
                              capture_output=True, text=True, env={**os.environ, "GRPO": self.command})
        if done.returncode == 3 and ("--format safetensors" in done.stderr or "quantize --undo" in done.stderr):
            return done.stderr.strip().removeprefix(f"grpo: {case}: ").split(", which the architecture")[0]
        if done.returncode != 0:
            sys.exit(f"parity: {shlex.join(command)}: {case}: {done.stderr.strip()}")
        theirs = [list(map(float, line.split())) for line in done.stdout.splitlines()]
        what = "of Gemma 2, whose scale it does not round" if gemma else "log-probabilities of grpo"
        for o, t in zip(self.scores(case, sequences), theirs, strict=True):
            self.table.add("llama.cpp: " + what, cases.gap(o, t))
        return None

    def compare_like(self, case, command, scratch):
        """The same for a model like that of a case, without the features that readers of GGUF compute differently."""
        like = os.path.join(scratch, "like")
        os.mkdir(like)
        cases.readable(cases.load(case, "config.json"), like)
        why = self.compare_llama(like, command, scratch, [s["tokens"] for s in cases.load(case, "score.json")])
        if why:
            sys.exit(f"parity: a model like {case} is no GGUF either: {why}")


def distance(got, want):
    return np.linalg.norm(got - want) / (np.linalg.norm(want) or 1)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--grpo", required=True, help="the command")
    p.add_argument("--seed", type=int, default=1, help="of the first new case; the next have the numbers after it")
    p.add_argument("--cases", type=int, default=2, help="new cases of each family")
    p.add_argument("--keep", help="directory for the new cases")
    p.add_argument("--llama", type=shlex.split, help="command that scores with llama.cpp")
    o = p.parse_args()
    table = Table()
    grpo = Grpo(o.grpo, table)
    with tempfile.TemporaryDirectory() as scratch:
        committed = sorted(d for d in glob.glob(os.path.join(COMMITTED, "*")) if os.path.isdir(d))
        for case in committed:
            table.add("committed answers, beside the reference", cases.check(case))
        drawn = []
        for seed in range(o.seed, o.seed + o.cases):
            for family in cases.FAMILIES:
                drawn.append(os.path.join(o.keep or scratch, f"{family.lower()}-{seed}"))
                cases.draw(seed, drawn[-1], family)
        for case in committed + drawn:
            grpo.compare(case, tempfile.mkdtemp(dir=scratch))
            if o.llama and (why := grpo.compare_llama(case, o.llama, tempfile.mkdtemp(dir=scratch))):
                grpo.compare_like(case, o.llama, tempfile.mkdtemp(dir=scratch))
                print(f"{os.path.basename(case)} as GGUF: grpo refuses it, for {why}; with llama.cpp one like it without that is compared")
        print(f"{len(committed)} committed cases, {len(drawn)} new ones of the seeds {o.seed} to {o.seed + o.cases - 1}, "
              f"of {', '.join(cases.FAMILIES)}")
        return 0 if table.print() else 1


if __name__ == "__main__":
    sys.exit(main())

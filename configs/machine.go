package configs

import (
	"runtime"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// MostThreads is how many worker threads may be asked for: more than that is a slip, and takes long to fail.
func MostThreads() int { return max(1024, 16*runtime.NumCPU()) }

// CheckThreads refuses numbers of threads that a --threads cannot mean.
func CheckThreads(n int) error {
	if n < 0 {
		return badinput.Errorf("--threads: found %d, expected 0 or more", n)
	}
	if most := MostThreads(); n > most {
		return badinput.Errorf("--threads: found %d, expected at most %d; type --threads 0 for one a core", n, most)
	}
	return nil
}

// Readers says for which other programs a run is written down while it goes on. It changes no result.
type Readers struct {
	// Write steps and evaluations for TensorBoard, too, in the folder tensorboard of the run. It changes no result.
	TensorBoard bool `json:"tensorboard"`
	// Put the run into a file store of MLflow, too, such as mlruns, made where there is none. It changes no result. Empty: not at all.
	MLflow string `json:"mlflow"`
}

// Machine says what computes, and how much of it at a time.
type Machine struct {
	// What computes: cpu; cuda:N, the card of that number; auto, the first card, or else the processor. A run keeps what it began with.
	Device string `json:"device"`
	// Worker threads. 0: one a core.
	Threads int `json:"threads"`
	// What overlaps: nothing; scoring with sampling; or sampling with training on the step before, corrected by the importance ratio, too.
	Pipeline string `json:"pipeline" enum:"off score full"`
	// Memory for keys and values, as in 8GiB. 0: what max_sequences take, and at most half of what is free.
	CacheMemory Bytes `json:"cache_memory"`
	// Completions sampled at a time. 0: 64.
	MaxSequences int `json:"max_sequences"`
	// Tokens of one iteration of the sampler, prompts included. 0: 512.
	TokenBudget int `json:"token_budget"`
	// Compute with a completion's next token those that may come after it, by what was said lately, where that is faster (speculative
	// decoding). It changes no result.
	Speculate bool `json:"speculate"`
	// Tokens of a training batch; a longer sequence makes room for itself. 0, with share_prefixes: when a run begins, what a
	// whole group may take, or half of its completions, a quarter and so on where memory is short, and at least the longest
	// sequence; with deterministic, which must not hang on what is free, the longest sequence. 0 otherwise: 512.
	MaxRows int `json:"max_rows"`
	// Compute once what several sequences of a training batch begin with: the prompt of a group, and whatever else they have in common.
	SharePrefixes bool `json:"share_prefixes"`
	// What the backward pass computes again to save memory: none; cheap things, for a few hundredths more time; blocks, the inside of
	// every block, for a third more; auto, blocks only where the longest sequence would not fit otherwise, and none where that takes
	// nothing from batches and from the cache. It changes no number.
	Recompute string `json:"recompute" enum:"auto none cheap blocks"`
}

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
	// Also write steps and evaluations for TensorBoard, in the folder tensorboard of the run. It changes no result.
	TensorBoard bool `json:"tensorboard"`
	// Also write the run into a file store of MLflow, such as mlruns, which is created if missing. It changes no result. Empty: off.
	MLflow string `json:"mlflow"`
}

// Machine says what computes, and how much of it at a time.
type Machine struct {
	// What computes: cpu; cuda:N, the card with that number; auto, the first card, else the processor. A run keeps the device it began
	// with.
	Device string `json:"device"`
	// Worker threads. 0: one a core.
	Threads int `json:"threads"`
	// What overlaps: nothing; scoring with sampling; or also sampling with training on the step before, corrected by the importance ratio.
	Pipeline string `json:"pipeline" enum:"off score full"`
	// Memory for the KV cache, such as 8GiB. 0: what max_sequences need, and at most half of what is free.
	CacheMemory Bytes `json:"cache_memory"`
	// Completions sampled at a time. 0: 64.
	MaxSequences int `json:"max_sequences"`
	// Tokens of one iteration of the sampler, prompts included. 0: 512.
	TokenBudget int `json:"token_budget"`
	// Speculative decoding: compute likely next tokens, drafted from recent text, together with the next one, if that is faster. It changes
	// no result.
	Speculate bool `json:"speculate"`
	// Tokens of a micro-batch in training; a longer sequence gets a larger one. 0 with share_prefixes: chosen when the run begins, enough
	// for a whole group, or for half of its completions, a quarter and so on if memory is short, and at least the longest sequence. 0 with
	// deterministic, which must not depend on free memory: the longest sequence. 0 otherwise: 512.
	MaxRows int `json:"max_rows"`
	// Compute a prefix that several sequences of a training batch share once: the prompt of a group, and whatever else they have in common.
	SharePrefixes bool `json:"share_prefixes"`
	// Activation checkpointing: what the backward pass recomputes to save memory. none; cheap: cheap operations, for a few percent more
	// time; blocks: the inside of every block, for a third more; auto: blocks only if the longest sequence would not fit otherwise, and
	// none if that takes nothing from batches and the cache. It changes no number.
	Recompute string `json:"recompute" enum:"auto none cheap blocks"`
}

// Package sampler turns prompts into completions with continuous batching over a paged KV cache. It
// knows tokens only; text, rewards and optimizers are elsewhere.
//
// # What decides a completion
//
// A completion depends on the policy, the prompt, the parameters of its request and its key (seed,
// step, problem, sample), and on nothing else: not on the other sequences of the batch, the size of
// the cache, the chunks of prefill, or the number of threads. Each token is drawn with a random
// number that is a function of the key and the token's position, and each row of the model is
// computed independently of the others. So a completion can be sampled again, alone, and the
// log-probabilities that it records are those that the trainer computes, bit for bit.
//
// # How a run goes
//
//	Request    a prompt, how many completions, how to draw
//	group      the sequences of one request, which share its prompt: a prefix that is prefilled once
//	sequence   one completion in progress: its tokens, and a block table that starts with the prefix's
//	iteration  one run of the decoder over some rows: decode first, a row for each running sequence,
//	           then chunks of prefill, up to the token budget
//	scheduler  admits sequences, allocates blocks for them, hands them the tokens that were drawn
//	Rollout    a finished completion
//
// Engine.Sample runs its requests with a scheduler of its own and returns when all are done. A Live has a scheduler that
// keeps running: requests join it at the next iteration, and leave when they are done or cancelled. Its prefix cache is a
// tree of full blocks, keyed by the tokens that lead to them and the adapter that they were computed with; the least recently
// used are evicted first. Chunked prefill shares an iteration between the prompts that wait, and is bounded so that decoding
// sequences are not slowed down much (see Options.Pace).
//
// A Request with Next is a conversation of several turns: one sequence that grows. While it waits for a reply it is parked:
// others run in its place, and its blocks stay in the cache until others need them. When the reply comes, only its tokens
// are prefilled.
//
// Speculative decoding without a draft model: tokens are drafted by looking up the last few in recent text, and verified in the same
// iteration, where that is expected to be faster (draft.go). It changes the number of iterations, and no token.
//
// Blocks are reference-counted, and copied on write. When none is free, and nothing can be evicted, the last parked sequence loses its
// blocks, or else the youngest running one is preempted; both are recomputed later.
package sampler

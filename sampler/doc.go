// Package sampler turns prompts into completions: many sequences at a time over one paged cache of
// keys and values. It knows tokens only; text, rewards and optimizers are elsewhere.
//
// # What decides a completion
//
// A completion depends on the policy, the prompt, the parameters of its request and its key (seed,
// step, problem, sample), and on nothing else: not on what is sampled beside it, on the size of the
// cache, on how prompts are cut into chunks, or on the number of threads. Each token is drawn with a
// number that is a function of the key and the token's position; each row of the model stands alone.
// So a completion can be drawn again, alone, and the log-probabilities that it records are those that
// the trainer computes, bit for bit.
//
// # How a run goes
//
//	Request    a prompt, how many completions, how to draw
//	group      the sequences of one request, which share its prompt: a prefix that is prefilled once
//	sequence   one completion in work: its tokens, and a block table that starts with the prefix's
//	iteration  one run of the decoder over some rows: decode first, a row for each running sequence,
//	           then chunks of prefill as far as the budget goes
//	scheduler  admits sequences, gives them blocks, accepts the tokens they draw
//	Rollout    a finished completion
//
// Engine.Sample adds its requests to a scheduler of its own and returns when all are done. A Live has one that
// goes on: requests join it at the next iteration, and leave when they are done or cancelled. It remembers full blocks
// in a tree, by the tokens that lead to them and the adapter that they were computed with, so that a prompt that begins
// like an earlier one finds that in the cache; what was used longest ago gives way first. It lets no prompt take a whole
// iteration while others wait, nor an iteration take much longer than drawing does (see Options.Pace).
//
// A request with a Next is for conversations of several turns, each of which is one sequence that grows. Between turns it is parked:
// others have its place, its blocks stay in the cache as long as nobody needs them, and the rest goes on while tools take their time.
// What is appended is computed behind what is there, which is not computed again.
//
// Tokens that may come next are drafted by what was said lately, and computed with a sequence's last one where that is faster
// (draft.go). That changes how many iterations there are, and nothing that is drawn.
//
// Blocks have reference counts and are copied when a shared one is written to. When none is free, the
// last sequence that is parked gives its blocks up, or else the youngest one is preempted, and is recomputed later.
package sampler

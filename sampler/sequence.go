package sampler

import (
	"math"
	"slices"
)

// group is a request in progress: its sequences, and the prefix that they share, which is the prompt in
// the KV cache.
type group struct {
	index   int // of the request
	request Request
	on      Listener
	stops   map[int32]bool

	prefix     []int32 // block table of the prompt
	prefilled  int     // prompt positions whose keys and values are in the cache
	reached    int     // prompt positions that were ever computed: below it, prefill is recomputation
	running    int     // number of running sequences
	unfinished int     // number of sequences that are not finished

	pending []*sequence // the unfinished sequences, in order; only a Live keeps it up to date
	job     *job        // the job of the request

	begun  bool // the prompt was looked up in the prefix cache, or its prefill has begun
	cached int  // prompt positions that this lookup found

	prompt     []float32  // log-probabilities of the prompt's tokens, NaN if not computed yet; nil: not asked for
	promptTop  [][]Likely // the most likely tokens at each of them; with Request.PromptTop
	unscored   int        // tokens of the prompt, but the first, that have no log-probability yet
	scoresSent bool       // the listener has been given the scores

	prefilling bool // the iteration that is being built has rows of the prompt

	learned bool   // the prompt is in the corpus of drafts
	salt    uint64 // keeps drafts of different clients apart
}

func newGroup(index int, r Request, on Listener) *group {
	g := &group{index: index, request: r, on: on, stops: map[int32]bool{}, unfinished: r.N}
	for _, t := range r.Params.StopTokens {
		g.stops[t] = true
	}
	if r.ScorePrompt || r.PromptTop > 0 {
		g.unscored = len(r.Prompt) - 1
		g.prompt = make([]float32, len(r.Prompt))
		for i := range g.prompt {
			g.prompt[i] = float32(math.NaN())
		}
	}
	if r.PromptTop > 0 {
		g.promptTop = make([][]Likely, len(r.Prompt))
	}
	return g
}

// score stores the log-probability of a token of the prompt.
func (g *group) score(at int, logprob float32, top []Likely) {
	if g.prompt[at] != g.prompt[at] {
		g.unscored--
	}
	g.prompt[at] = logprob
	if g.promptTop != nil {
		g.promptTop[at] = top
	}
}

// sequence is one completion in progress, after the prompt of its group.
type sequence struct {
	*group
	sample    int // its index in the group
	tokens    []int32
	logprobs  []float32
	raws      []float32  // with Request.Raw or Top
	tops      [][]Likely // with Request.Top
	watch     func(int32) bool
	state     state
	turns     []Turn // the turns that have ended
	turnStart int    // number of tokens at the start of the current turn
	limit     int    // number of tokens at which the current turn ends

	constraint Constraint // nil: all tokens are allowed
	err        error      // why it cannot go on

	// While it runs, or is parked or waiting and nobody has taken its blocks:
	table    []int32 // block table; starts with blocks of the prefix
	freed    int     // number of blocks at its start that were released, as they are behind the attention window
	computed int     // positions whose keys and values are in the cache

	reached int // positions that were ever computed: below it, rows are recomputation
	rank    int // among the sequences of its job, in a Live

	drafted  []int32 // tokens that are verified in this iteration, after the last one of the sequence
	matches  []uint8 // for each of them: the length of the context that matched where it was found
	accepted int     // how many of them were accepted; rejected: no more draws of this iteration count
	learned  int     // tokens, prompt included, that are in the corpus of drafts
}

type state uint8

const (
	waiting state = iota // not started, preempted, or resumed after a reply
	running              // admitted: decodes, or is recomputed
	parked               // waits for a reply
	finished
)

// length is the number of tokens, prompt included.
func (q *sequence) length() int { return len(q.request.Prompt) + len(q.tokens) }

// all are the tokens of the sequence, prompt included.
func (q *sequence) all() []int32 { return slices.Concat(q.request.Prompt, q.tokens) }

// token is the token at a position, counted from the start of the prompt.
func (q *sequence) token(position int) int32 {
	if n := len(q.request.Prompt); position >= n {
		return q.tokens[position-n]
	}
	return q.request.Prompt[position]
}

// accept appends a drawn token, and reports whether it ends the completion, or the turn, and why.
func (q *sequence) accept(t Token) (done bool, why FinishReason) {
	q.tokens = append(q.tokens, t.ID)
	q.logprobs = append(q.logprobs, t.LogProb)
	if q.request.raw() {
		q.raws = append(q.raws, t.Raw)
	}
	if t.Top != nil {
		q.tops = append(q.tops, t.Top)
	}
	if q.constraint != nil {
		q.constraint.Accept(t.ID)
	}
	stop := q.watch != nil && q.watch(t.ID)
	switch {
	case stop || q.stops[t.ID]:
		return true, Stop
	case len(q.tokens) == q.limit:
		return true, Length
	}
	return false, ""
}

// rollout is the sequence so far as a Rollout.
func (q *sequence) rollout(why FinishReason, err error) Rollout {
	r := Rollout{Request: q.index, Sample: q.sample, Tokens: slices.Clip(q.tokens), LogProbs: slices.Clip(q.logprobs), Finish: why,
		Turns: slices.Clip(q.turns), Raw: slices.Clip(q.raws), Top: slices.Clip(q.tops), PromptTop: q.promptTop, Cached: q.cached, Err: err}
	if q.request.ScorePrompt {
		r.Prompt = q.prompt
	}
	return r
}

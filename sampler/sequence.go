package sampler

import (
	"math"
	"slices"
)

// group is a request in work: its sequences, and the prefix that they share, which is its prompt in the
// cache.
type group struct {
	index   int // of the request
	request Request
	on      Listener
	stops   map[int32]bool

	prefix     []int32 // block table of the prompt
	prefilled  int     // prompt positions whose keys and values are in the cache
	reached    int     // prompt positions that were computed at some time
	running    int     // sequences in that state
	unfinished int     // sequences in any other state than finished

	left []*sequence // not finished, in order; up to date where a Live takes turns
	job  *job        // that it is of

	begun  bool // something of it was computed, or looked up
	cached int  // prompt positions that were in the cache then

	prompt    []float32  // scores of the prompt's tokens, NaN where there is none yet; nil where nobody asks
	promptTop [][]Likely // at each of them; where PromptTop asks
	unscored  int        // of them, but the first
	told      bool       // who listens has heard of the scores

	grown bool // rows of the prompt are in this iteration

	learned bool   // the prompt may be drafted from
	salt    uint64 // whose drafts these are
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

// score keeps the score of a token of the prompt.
func (g *group) score(at int, logprob float32, top []Likely) {
	if g.prompt[at] != g.prompt[at] {
		g.unscored--
	}
	g.prompt[at] = logprob
	if g.promptTop != nil {
		g.promptTop[at] = top
	}
}

// sequence is one completion in work, after the prompt of its group.
type sequence struct {
	*group
	sample   int // its number in the group
	tokens   []int32
	logprobs []float32
	raws     []float32  // where Request.Raw or Top asks
	tops     [][]Likely // where Request.Top asks
	watch    func(int32) bool
	state    state
	turns    []Turn // that ended
	opened   int    // tokens before the turn that is drawn
	limit    int    // tokens at its end

	constraint Constraint // nil: all tokens may come
	err        error      // why it cannot go on

	// While it runs, or is parked and nobody took them:
	table    []int32 // block table; begins with blocks of the prefix
	spent    int     // its first so many blocks are not the sequence's any more, as no row will read them
	computed int     // positions whose keys and values are in the cache

	reached int // positions that were computed at some time
	rank    int // among the sequences of its job, in a Live

	drafted []int32 // what may come after its last token, and is computed in this iteration
	matches []uint8 // how many tokens before each of them were the same where it was found
	fit     int     // of them, that came
	learned int     // its tokens that may be drafted from, with the prompt's
}

// state is where a sequence stands.
type state uint8

const (
	waiting  state = iota // has no place among those that run, or none any more
	running               // computes its next token
	parked                // waits for a reply
	finished              // is done
)

// length is how many tokens the sequence has, prompt included.
func (q *sequence) length() int { return len(q.request.Prompt) + len(q.tokens) }

// all are the tokens of the sequence.
func (q *sequence) all() []int32 { return slices.Concat(q.request.Prompt, q.tokens) }

// token is the one at a position of the sequence.
func (q *sequence) token(position int) int32 {
	if n := len(q.request.Prompt); position >= n {
		return q.tokens[position-n]
	}
	return q.request.Prompt[position]
}

// accept takes a drawn token and reports whether the completion is done, and why.
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

// rollout is what a sequence has.
func (q *sequence) rollout(why FinishReason, err error) Rollout {
	r := Rollout{Request: q.index, Sample: q.sample, Tokens: slices.Clip(q.tokens), LogProbs: slices.Clip(q.logprobs), Finish: why,
		Turns: slices.Clip(q.turns), Raw: slices.Clip(q.raws), Top: slices.Clip(q.tops), PromptTop: q.promptTop, Cached: q.cached, Err: err}
	if q.request.ScorePrompt {
		r.Prompt = q.prompt
	}
	return r
}

package sampler

import "slices"

// group is a request in work: its sequences, and the prefix that they share, which is its prompt in the
// cache.
type group struct {
	index   int // of the request
	request Request
	on      Listener
	stops   map[int32]bool

	prefix     []int32 // block table of the prompt
	prefilled  int     // prompt positions whose keys and values are in the cache
	running    int     // sequences in that state
	unfinished int     // sequences in any other state than finished

	begun  bool // something of it was computed, or looked up
	cached int  // prompt positions that were in the cache then
	grown  bool // rows of the prompt are in this iteration
}

func newGroup(index int, r Request, on Listener) *group {
	g := &group{index: index, request: r, on: on, stops: map[int32]bool{}, unfinished: r.N}
	for _, t := range r.Params.StopTokens {
		g.stops[t] = true
	}
	return g
}

// sequence is one completion in work, after the prompt of its group.
type sequence struct {
	*group
	sample   int // its number in the group
	tokens   []int32
	logprobs []float32
	watch    func(int32) bool
	state    state

	// While it runs:
	table    []int32 // block table; begins with blocks of the prefix
	computed int     // positions whose keys and values are in the cache
}

// state is where a sequence stands.
type state uint8

const (
	waiting  state = iota // has no place in the cache, or none any more
	running               // computes its next token
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
func (q *sequence) accept(token int32, logprob float32) (done bool, why FinishReason) {
	q.tokens = append(q.tokens, token)
	q.logprobs = append(q.logprobs, logprob)
	stop := q.watch != nil && q.watch(token)
	switch {
	case stop || q.stops[token]:
		return true, Stop
	case len(q.tokens) == q.request.Params.MaxTokens:
		return true, Length
	}
	return false, ""
}

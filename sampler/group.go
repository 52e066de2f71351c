package sampler

import "github.com/seed-7879b91d/grpo/kernels"

// group is a request in work. Its trunk is the prompt in the cache: computed once, shared by all
// samples.
type group struct {
	index   int // among the requests
	request Request
	stops   map[int32]bool

	trunk   []int32 // table of blocks
	cached  int     // prompt positions whose keys and values are there
	running int     // samples that are at work on top of it
	open    int     // samples that are not finished
}

// sample is one completion in work.
type sample struct {
	*group
	number   int
	tokens   []int32
	logprobs []float32
	watch    func(int32) bool

	// While it runs: the blocks of its sequence, the trunk's first, and how many positions are there.
	table  []int32
	cached int
	state  state
}

// state is where a sample stands.
type state uint8

const (
	waiting  state = iota // has no place in the cache
	running               // computes its next token
	finished              // is done
)

// length is how many tokens the sequence has, prompt included.
func (s *sample) length() int { return len(s.request.Prompt) + len(s.tokens) }

// token is the one at a position of the sequence.
func (s *sample) token(position int) int32 {
	if n := len(s.request.Prompt); position >= n {
		return s.tokens[position-n]
	}
	return s.request.Prompt[position]
}

// accept takes a drawn token and reports whether the completion is done, and why.
func (s *sample) accept(token int32, logp float32) (done bool, why FinishReason) {
	s.tokens = append(s.tokens, token)
	s.logprobs = append(s.logprobs, logp)
	stop := s.watch != nil && s.watch(token)
	switch {
	case stop || s.stops[token]:
		return true, Stop
	case len(s.tokens) == s.request.Params.MaxTokens:
		return true, Length
	}
	return false, ""
}

// fullTrunk is how many of the trunk's blocks the prompt fills: those that nobody writes to any more.
func (g *group) fullTrunk() int { return len(g.request.Prompt) / kernels.CacheBlock }

package sampler

import (
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/model"
)

// Request asks for N completions of a prompt.
type Request struct {
	Prompt []int32
	N      int
	Key    Key
	Params Params

	Adapter *model.Served // what speaks instead of the bare base; of a Live only
	// From is who asks, and Job what for: those who ask take turns, and so do the jobs of each. "" is a job of its own. Of a
	// Live only.
	From, Job string
	// Raw asks for the log-probability of each token under the whole distribution, and Top for that many of the most
	// likely tokens instead of it.
	Raw bool
	Top int
	// ScorePrompt asks for the log-probability of each token of the prompt but the first, at temperature 1, and
	// PromptTop for that many of the most likely tokens at each place.
	ScorePrompt bool
	PromptTop   int
	// Constrain, if not nil, is called once for each sample: what it returns says which tokens may come.
	Constrain func() Constraint
	// Next, if not nil, is called with what a sample has when a turn of the model ends, by its stop or at its MaxTokens, and returns
	// soon: the sample waits until reply is called, once and by any goroutine, and goes on as it says, or is done. What ends a turn
	// (Watch), and what may come in it (Constrain), starts anew with each. A reply to what was cancelled meanwhile does nothing.
	Next func(sofar Rollout, reply func(More))
}

// raw reports whether log-probabilities under the whole distribution are wanted.
func (r Request) raw() bool { return r.Raw || r.Top > 0 }

// Constraint says which tokens may come next in a completion.
type Constraint interface {
	Allow(mask []uint32) // writes the whole mask: bit t%32 of mask[t/32] is set where token t may come next
	Accept(token int32)  // the token that came
}

// Key says which random numbers the completions are drawn with.
type Key struct {
	Seed          uint64
	Step, Problem int
}

// Params say how tokens are drawn and when a completion ends.
type Params struct {
	Temperature float32 // 0: always the most likely token, recorded with its log-probability at 1
	TopK        int     // draw from the k most likely tokens; 0: all
	TopP        float32 // then from the fewest that have this probability together; 1 (or 0): all
	MinP        float32 // then from those with this share of the most likely one's probability; 0: all

	MaxTokens int
	// StopTokens end a completion, and belong to it.
	StopTokens []int32
	// Watch, if not nil, is called once for each completion; what it returns is called with every
	// token and ends the completion by saying so. Stop strings are made of it.
	Watch func() func(token int32) (stop bool)
}

// Truncated reports whether the distribution that is drawn from is not the model's own, so that an
// importance ratio of its log-probabilities would be biased.
func (p Params) Truncated() bool {
	return p.Temperature > 0 && (p.TopK > 0 || p.TopP > 0 && p.TopP < 1 || p.MinP > 0)
}

// FinishReason is why a completion ended.
type FinishReason string

const (
	Stop   FinishReason = "stop"   // by a stop token or a stop string
	Length FinishReason = "length" // at MaxTokens

	Cancelled FinishReason = "cancelled" // by Ticket.Cancel, or as the Live that drew it ended
	Failed    FinishReason = "failed"    // by Rollout.Err
)

// Rollout is one completion, or a conversation, in which some tokens were not drawn: those between its turns, whose numbers are 0.
type Rollout struct {
	Request, Sample int // which of the requests, and which of its samples
	Tokens          []int32
	LogProbs        []float32 // of each token, under the distribution that it was drawn from
	Finish          FinishReason
	Turns           []Turn `json:",omitempty"` // where Request.Next is

	Raw       []float32  // of each token, under the whole distribution; where Request.Raw or Request.Top asks
	Top       [][]Likely // the most likely tokens at the place of each; where Request.Top asks
	Prompt    []float32  // of each token of the prompt, the first being NaN; the same for all samples; where Request.ScorePrompt asks
	PromptTop [][]Likely // at the place of each token of the prompt, the first being nil
	Cached    int        // tokens of the prompt that were found in the cache; of a Live only
	Err       error      // why it was not drawn to its end
}

// Likely is a token that is among the most likely ones.
type Likely struct {
	Token   int32
	LogProb float32
}

// coldest is the least temperature above 0: logits that are divided by less leave single precision.
const coldest = 1e-6

// CheckTemperature refuses a temperature that nothing can be drawn at.
func CheckTemperature(t float32) error {
	if t == 0 || t >= coldest && t <= math.MaxFloat32 {
		return nil
	}
	return badinput.Errorf("temperature: found %v, expected 0 (greedy), or at least %v", t, coldest)
}

// mostCompletions is how many completions of one prompt may be asked for: each takes memory before it is begun.
const mostCompletions = 1 << 20

// check reports what is wrong with a request for an engine of that size.
func (r Request) check(c model.Config, maxLength int) error {
	if len(r.Prompt) == 0 {
		return badinput.Errorf("prompt: empty, expected at least one token")
	}
	p := r.Params
	switch {
	case r.N < 1 || r.N > mostCompletions:
		return badinput.Errorf("n: found %d, expected 1 to %d", r.N, mostCompletions)
	case p.MaxTokens < 1:
		return badinput.Errorf("max_tokens: found %d, expected 1 or more", p.MaxTokens)
	case p.MaxTokens > math.MaxInt32: // with a prompt it might be less than 0
		return badinput.Errorf("max_tokens: found %d, expected at most %d", p.MaxTokens, math.MaxInt32)
	case p.TopK < 0:
		return badinput.Errorf("top_k: found %d, expected 0 (all) or more", p.TopK)
	case r.Top < 0 || r.Top > model.MostTops || r.PromptTop < 0 || r.PromptTop > model.MostTops:
		return badinput.Errorf("the most likely tokens: found %d and of the prompt %d, expected 0 to %d", r.Top, r.PromptTop, model.MostTops)
	case !(p.TopP >= 0 && p.TopP <= 1):
		return badinput.Errorf("top_p: found %v, expected 0 to 1", p.TopP)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return badinput.Errorf("min_p: found %v, expected 0 to 1", p.MinP)
	}
	if err := CheckTemperature(p.Temperature); err != nil {
		return err
	}
	for i, t := range r.Prompt {
		if t < 0 || int(t) >= c.Vocab {
			return badinput.Errorf("prompt: token %d at position %d, expected 0 to %d", t, i, c.Vocab-1)
		}
	}
	for _, t := range p.StopTokens {
		if t < 0 || int(t) >= c.Vocab {
			return badinput.Errorf("stop token %d is not in the vocabulary, expected 0 to %d", t, c.Vocab-1)
		}
	}
	if n := len(r.Prompt) + p.MaxTokens; n > maxLength {
		return badinput.Errorf("a prompt of %d tokens and max_tokens %d make %d, more than the %d that a sequence may have here",
			len(r.Prompt), p.MaxTokens, n, maxLength)
	}
	return nil
}

package sampler

import (
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/model"
)

// Request asks for N completions of a prompt.
type Request struct {
	Prompt []int32 // not copied: leave it as it is until the request is done
	N      int
	Key    Key
	Params Params

	Adapter *model.Served // nil: the base model; of a Live only
	// From names the client, and Job groups its requests: a Live serves clients in turn, and the jobs of a client in turn.
	// An empty Job is one of its own.
	From, Job string
	// Raw asks for the log-probability of each token under the whole distribution, before top-k, top-p, min-p and
	// constraints, and Top for that many of the most likely tokens at each place.
	Raw bool
	Top int
	// ScorePrompt asks for the log-probability of each token of the prompt but the first, at temperature 1, and
	// PromptTop for that many of the most likely tokens at each place.
	ScorePrompt bool
	PromptTop   int
	// Constrain, if not nil, makes the Constraint of each sample.
	Constrain func() Constraint
	// Next, if not nil, makes a conversation. It is called with the rollout so far when a turn of the model ends, by a stop or at its
	// MaxTokens, and must return quickly: the sample is parked until some goroutine calls reply, once, with what comes next. Watch and
	// Constrain are called anew for each turn. A reply to a sample that was cancelled meanwhile is ignored.
	Next func(sofar Rollout, reply func(More))
}

// raw reports whether the request asks for log-probabilities under the whole distribution.
func (r Request) raw() bool { return r.Raw || r.Top > 0 }

// onlyScores reports whether nothing is to be drawn after the prompt.
func (r Request) onlyScores() bool {
	return r.Params.MaxTokens == 0 && (r.ScorePrompt || r.PromptTop > 0) && r.Next == nil
}

// Constraint restricts the next token of a completion, as for JSON of a schema.
type Constraint interface {
	Allow(mask []uint32) // writes the whole mask: bit t%32 of mask[t/32] is set if token t is allowed next
	Accept(token int32)  // takes the token that was drawn
}

// Key selects the random numbers that completions are drawn with.
type Key struct {
	Seed          uint64
	Step, Problem int
}

// Params say how tokens are drawn and when a completion ends.
type Params struct {
	Temperature float32 // 0: greedy; log-probabilities are then recorded at temperature 1
	TopK        int     // draw from the k most likely tokens; 0: all
	TopP        float32 // then from the fewest that have this probability together; 1 (or 0): all
	MinP        float32 // then from those with this share of the most likely one's probability; 0: all

	MaxTokens int // 0, with Request.ScorePrompt or PromptTop: only the prompt is scored
	// StopTokens end a completion, and are part of it. None end one by themselves, not even the model's own end of text.
	StopTokens []int32
	// Watch, if not nil, makes a function for each completion, which is called with every token and
	// returns true to end the completion. StopStrings makes one.
	Watch func() func(token int32) (stop bool)
}

// Truncated reports whether top-k, top-p or min-p cut the model's distribution, so that importance
// ratios of the recorded log-probabilities would be biased.
func (p Params) Truncated() bool {
	return p.Temperature > 0 && (p.TopK > 0 || p.TopP > 0 && p.TopP < 1 || p.MinP > 0)
}

// FinishReason is why a completion ended.
type FinishReason string

const (
	Stop   FinishReason = "stop"   // by a stop token or a stop string
	Length FinishReason = "length" // at MaxTokens

	Cancelled FinishReason = "cancelled" // by Ticket.Cancel, or because its Live ended
	Failed    FinishReason = "failed"    // with Rollout.Err
)

// Rollout is one completion, or one conversation: then the tokens between its Turns were not drawn, and their LogProbs are 0.
type Rollout struct {
	Request, Sample int // indices of the request, and of the sample in it
	Tokens          []int32
	LogProbs        []float32 // of each token, under the distribution that it was drawn from
	Finish          FinishReason
	Turns           []Turn `json:",omitempty"` // with Request.Next

	Raw       []float32  // log-probabilities under the whole distribution; with Request.Raw or Top
	Top       [][]Likely // the most likely tokens at the place of each token; with Request.Top
	Prompt    []float32  // log-probabilities of the prompt's tokens, NaN for the first; shared by all samples; with Request.ScorePrompt
	PromptTop [][]Likely // the most likely tokens at each place of the prompt, nil for the first; with Request.PromptTop
	Cached    int        // tokens of the prompt that the prefix cache had; of a Live only
	Err       error      // with Failed, and with Cancelled when the Live ended
}

// Likely is one of the most likely tokens at a place.
type Likely struct {
	Token   int32
	LogProb float32
}

// coldest is the lowest temperature above 0: logits divided by less overflow float32.
const coldest = 1e-6

// CheckTemperature returns an error for a temperature that cannot be sampled at.
func CheckTemperature(t float32) error {
	if t == 0 || t >= coldest && t <= math.MaxFloat32 {
		return nil
	}
	return badinput.Errorf("temperature: found %v, expected 0 (greedy), or at least %v", t, coldest)
}

// mostCompletions bounds the completions of one prompt: each takes memory before it starts.
const mostCompletions = 1 << 20

// check validates a request for a model, and an engine whose sequences have at most maxLength tokens.
func (r Request) check(c model.Config, maxLength int) error {
	if len(r.Prompt) == 0 {
		return badinput.Errorf("prompt: empty, expected at least one token")
	}
	p := r.Params
	switch {
	case r.N < 1 || r.N > mostCompletions:
		return badinput.Errorf("n: found %d, expected 1 to %d", r.N, mostCompletions)
	case p.MaxTokens < 1 && !r.onlyScores():
		return badinput.Errorf("max_tokens: found %d, expected 1 or more", p.MaxTokens)
	case p.MaxTokens > math.MaxInt32: // the sum with the prompt could overflow
		return badinput.Errorf("max_tokens: found %d, expected at most %d", p.MaxTokens, math.MaxInt32)
	case p.TopK < 0:
		return badinput.Errorf("top_k: found %d, expected 0 (all) or more", p.TopK)
	case r.Top < 0 || r.Top > model.MostTops || r.PromptTop < 0 || r.PromptTop > model.MostTops:
		return badinput.Errorf("top log-probabilities: found %d for the completion and %d for the prompt, expected 0 to "+
			"%d", r.Top, r.PromptTop, model.MostTops)
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
		return badinput.Errorf("a prompt of %d tokens and max_tokens %d make %d, more than the maximum length of %d",
			len(r.Prompt), p.MaxTokens, n, maxLength)
	}
	return nil
}

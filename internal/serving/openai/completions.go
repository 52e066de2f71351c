package openai

import (
	"encoding/json"
	"math"
	"net/http"

	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/sampler"
)

// textJob reads a request for text completions.
func (s *Server) textJob(f *fields, p *Policy) (*job, error) {
	d, err := s.drawing(f, p, 0)
	if err != nil {
		return nil, err
	}
	prompts := f.prompts(p)
	t := &texts{id: newID("cmpl-"), created: s.now().Unix(), model: p.Name, usageToo: d.usage, tok: p.Language.Tokenizer, n: d.n,
		marks: calls.Notation{}.Marks(p.Language.Tokenizer)}
	value(f, "echo", &t.echo, "true or false")
	t.logprobs = f.count("logprobs", &t.top, 0, mostTop)
	best := d.n
	if f.count("best_of", &best, 1, math.MaxInt32) && best != d.n {
		f.wrong("best_of", "found %d, but this server returns every completion; send n instead", best)
	}
	if err := f.done(); err != nil {
		return nil, err
	}
	switch {
	case d.n*len(prompts) > mostChoices:
		return nil, refusal.Field("n", "%d prompts of %d completions exceed the %d completions of a request; send fewer",
			len(prompts), d.n, mostChoices)
	case d.none && !t.echo:
		return nil, refusal.Field("max_tokens", "found 0, expected 1 or more, or \"echo\": true")
	}
	j := &job{policy: p, n: d.n, stream: d.stream, usage: d.usage, form: t}
	j.open = func(index int) *choice {
		return &choice{index: index, speech: newSpeech(p.Language.Tokenizer, t.marks, d.stops), ends: d.params.StopTokens}
	}
	for i, prompt := range prompts {
		maxTokens, err := d.room(p, prompt.tokens, usualMaxTokens)
		if err != nil {
			return nil, err
		}
		q := d.request(i, prompt.tokens, maxTokens, d.watch(func() *choice { return j.open(0) }, false))
		q.Raw, q.Top = t.logprobs, t.top
		if t.echo && t.logprobs || d.none {
			q.ScorePrompt, q.PromptTop = true, t.top
		}
		j.requests = append(j.requests, q)
	}
	t.prompts = prompts
	return j, nil
}

// prompt is one prompt of a request.
type prompt struct {
	text   string
	tokens []int32
}

// prompts reads the prompts: a text, a list of texts, tokens, or a list of lists of tokens.
func (f *fields) prompts(p *Policy) (list []prompt) {
	raw, ok := f.take("prompt")
	if !ok {
		f.wrong("prompt", "missing, expected a text, a list of texts, or token ids")
		return nil
	}
	tok := p.Language.Tokenizer
	text := func(raw json.RawMessage) bool {
		text, is := quoted(raw)
		if !is {
			return false
		}
		if err := p.checkLength(len(text)); err != nil {
			if f.err == nil {
				f.err = err
			}
			return true
		}
		list = append(list, prompt{text, tok.EncodeSpecial(text)})
		return true
	}
	tokens := func(raw json.RawMessage) bool {
		ids, is := wholes(raw)
		if !is {
			return false
		}
		one := prompt{tokens: ids}
		if len(ids) <= p.MaxLength { // else it is refused below
			one.text = tok.Decode(ids, false)
		}
		list = append(list, one)
		return true
	}
	switch {
	case text(raw), tokens(raw):
	case raw[0] != '[':
		f.wrong("prompt", "found %s, expected a text, a list of texts, or token ids", brief(raw))
	default:
		err := each(raw, mostPrompts, allAs(text, tokens))
		if err != nil {
			f.wrong("prompt", "%v", err)
		}
	}
	for i, q := range list {
		if len(q.tokens) == 0 {
			f.wrong("prompt", "prompt %d has no tokens, expected a text", i)
		}
	}
	if len(list) == 0 {
		f.wrong("prompt", "none, expected a text, a list of texts, or token ids")
	}
	return list
}

// allAs reads prompts of the same kind as the first: all texts, or all tokens.
func allAs(text, tokens func(json.RawMessage) bool) func(i int, part json.RawMessage) error {
	texts := false
	return func(i int, part json.RawMessage) error {
		is := text(part)
		if i == 0 {
			texts = is
		}
		if is != texts || !is && !tokens(part) {
			return refusal.Errorf(http.StatusBadRequest,
				"prompt %d: found %s, expected all of them to be texts, or token ids, or lists of token ids", i, brief(part))
		}
		return nil
	}
}

// scored are the tokens of a prompt with their log-probabilities.
func scored(tokens []int32, r *sampler.Rollout) []textToken {
	list := make([]textToken, len(tokens))
	for i, id := range tokens {
		list[i].Token = sampler.Token{ID: id, Raw: float32(math.NaN())}
		if i > 0 && i < len(r.Prompt) {
			list[i].Raw = r.Prompt[i]
		}
		if i < len(r.PromptTop) {
			list[i].Top = r.PromptTop[i]
		}
	}
	return list
}

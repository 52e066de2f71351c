package openai

import (
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/sampler"
)

// choice is one completion as it is sent to the client.
type choice struct {
	index    int
	speech   *textReleaser
	reader   *calls.Reader // nil: the text is sent as it is, without parsing
	ends     []int32       // stop tokens, which are not shown
	pending  []textToken
	tokens   int // including the one that ended it
	thoughts int // tokens of thoughts
	called   bool
}

// textToken is a token, and the range of its text in the completion.
type textToken struct {
	sampler.Token
	start, end int
}

// delta is what is new in a choice.
type delta struct {
	parts  []calls.Part
	tokens []textToken // those whose text is now shown
}

func (d *delta) empty() bool { return len(d.parts) == 0 }

// token adds a token.
func (c *choice) token(t sampler.Token) (d delta) {
	c.tokens++
	if c.reader != nil && c.reader.Thinking() {
		c.thoughts++
	}
	if slices.Contains(c.ends, t.ID) || c.speech.stopped {
		return d
	}
	start := c.speech.said()
	text := c.speech.push(t.ID)
	c.pending = append(c.pending, textToken{t, start, c.speech.said()})
	d.parts = c.read(text)
	if !d.empty() && !c.speech.stopped {
		d.tokens = c.release()
	}
	return d
}

// end ends the completion, and returns what was held back.
func (c *choice) end(r *sampler.Rollout) (d delta) {
	d.parts = c.read(c.speech.end())
	switch {
	case c.reader == nil:
	case c.cut(r):
		d.parts = append(d.parts, c.note(c.reader.Cut())...)
	default:
		d.parts = append(d.parts, c.note(c.reader.End())...)
	}
	if c.speech.stopped { // tokens of the stop string are not shown
		c.pending = slices.DeleteFunc(c.pending, func(s textToken) bool { return s.start >= c.speech.shown })
	}
	d.tokens, c.pending = c.pending, nil
	return d
}

func (c *choice) read(text string) []calls.Part {
	if text == "" {
		return nil
	}
	if c.reader == nil {
		return []calls.Part{{Content: text}}
	}
	return c.note(c.reader.Push(text))
}

func (c *choice) note(parts []calls.Part) []calls.Part {
	c.called = c.called || slices.ContainsFunc(parts, func(p calls.Part) bool { return p.IsCall })
	return parts
}

// release takes the pending tokens whose text is shown.
func (c *choice) release() []textToken {
	n := 0
	for n < len(c.pending) && c.pending[n].end <= c.speech.shown {
		n++
	}
	list := c.pending[:n:n]
	c.pending = c.pending[n:]
	return list
}

// cut reports whether the completion was cut off by max_tokens.
func (c *choice) cut(r *sampler.Rollout) bool { return r.Finish == sampler.Length && !c.speech.stopped }

// finish is the finish_reason.
func (c *choice) finish(r *sampler.Rollout) string {
	switch {
	case c.cut(r):
		return "length"
	case c.called:
		return "tool_calls"
	}
	return "stop"
}

// tokensOf rebuilds the tokens of a finished completion, as a listener would have got them.
func tokensOf(r *sampler.Rollout) []sampler.Token {
	list := make([]sampler.Token, len(r.Tokens))
	for i, id := range r.Tokens {
		list[i] = sampler.Token{Sample: r.Sample, ID: id, LogProb: r.LogProbs[i]}
		if i < len(r.Raw) {
			list[i].Raw = r.Raw[i]
		}
		if i < len(r.Top) {
			list[i].Top = r.Top[i]
		}
	}
	return list
}

// wholeAnswer is a choice as a whole.
type wholeAnswer struct {
	thoughts, content strings.Builder
	names             []string // IDs of the calls
	arguments         []*strings.Builder
	tokens            []textToken
}

func (j *wholeAnswer) add(d delta) {
	j.tokens = append(j.tokens, d.tokens...)
	for _, p := range d.parts {
		j.thoughts.WriteString(p.Thoughts)
		j.content.WriteString(p.Content)
		if !p.IsCall {
			continue
		}
		if p.Call == len(j.names) {
			j.names, j.arguments = append(j.names, p.Name), append(j.arguments, &strings.Builder{})
		}
		j.arguments[p.Call].WriteString(p.Arguments)
	}
}

package openai

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/sampler"
)

// texts writes the answers of /v1/completions.
type texts struct {
	id       string
	created  int64
	model    string
	usageToo bool
	logprobs bool
	top      int
	echo     bool
	n        int
	tok      *tokenizer.Tokenizer
	marks    map[int32]string // control tokens that texts show
	prompts  []prompt
	places   map[int]*place // by choice: where the next token of a stream is
}

// place is the position of a choice's next token in its text: in the prompt, which shows control tokens, or after it.
type place struct {
	prompt *tokenizer.Stream
	speech *textReleaser // without stop strings
	offset int           // in characters
}

func (f *texts) begin() *place {
	return &place{prompt: f.tok.NewStream(false), speech: newSpeech(f.tok, f.marks, nil)}
}

type textChoice struct {
	Index    int       `json:"index"`
	Text     string    `json:"text"`
	LogProbs *textLogs `json:"logprobs"`
	Finish   *string   `json:"finish_reason"`
}

// textLogs are parallel lists. The first token of a text has no log-probability: null.
type textLogs struct {
	Tokens   []string             `json:"tokens"`
	LogProbs []*float32           `json:"token_logprobs"`
	Top      []map[string]float32 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

func (f *texts) head() head { return head{f.id, "text_completion", f.created, f.model} }

func (f *texts) line(c textChoice) any {
	if f.usageToo {
		return struct {
			head
			Choices []textChoice `json:"choices"`
			Usage   *usage       `json:"usage"`
		}{f.head(), []textChoice{c}, nil}
	}
	return struct {
		head
		Choices []textChoice `json:"choices"`
	}{f.head(), []textChoice{c}}
}

func (f *texts) start(c *choice) any {
	if f.places == nil {
		f.places = map[int]*place{}
	}
	at := f.begin()
	f.places[c.index] = at
	if !f.echo || f.logprobs { // with log-probabilities the prompt is sent when it is scored
		return nil
	}
	text := f.prompts[c.index/f.n].text
	at.offset = utf8.RuneCountInString(text)
	return f.line(textChoice{Index: c.index, Text: text})
}

func (f *texts) scored(c *choice, r *sampler.Rollout) any {
	if !f.logprobs {
		return nil
	}
	asked := f.prompts[c.index/f.n]
	return f.line(textChoice{Index: c.index, Text: asked.text,
		LogProbs: f.likelihood(scored(asked.tokens, r), len(asked.tokens), f.places[c.index])})
}

func (f *texts) more(c *choice, d delta) any {
	l := textChoice{Index: c.index, LogProbs: f.likelihood(d.tokens, 0, f.places[c.index])}
	for _, p := range d.parts {
		l.Text += p.Content
	}
	return f.line(l)
}

func (f *texts) last(c *choice, d delta, r *finishedChoice) (lines []any) {
	if !d.empty() || len(d.tokens) > 0 && f.logprobs {
		lines = append(lines, f.more(c, d))
	}
	return append(lines, f.line(textChoice{Index: c.index, Finish: &r.finish}))
}

func (f *texts) usage(u usage) any {
	return struct {
		head
		Choices []textChoice `json:"choices"`
		Usage   usage        `json:"usage"`
	}{f.head(), []textChoice{}, u}
}

func (f *texts) whole(choices []*choice, all []*finishedChoice, u usage) any {
	list := make([]textChoice, len(all))
	for i, e := range all {
		l := textChoice{Index: choices[i].index, Text: e.content.String(), Finish: &e.finish}
		asked := f.prompts[i/f.n]
		if f.echo {
			l.Text = asked.text + l.Text
		}
		if f.logprobs {
			var before []textToken
			if f.echo {
				before = scored(asked.tokens, e.Rollout)
			}
			l.LogProbs = f.likelihood(append(before, e.tokens...), len(before), f.begin())
		}
		list[i] = l
	}
	return struct {
		head
		Choices []textChoice `json:"choices"`
		Usage   usage        `json:"usage"`
	}{f.head(), list, u}
}

// likelihood lists the tokens from a position on. The first prompt of them are the prompt's.
func (f *texts) likelihood(tokens []textToken, prompt int, at *place) *textLogs {
	if !f.logprobs {
		return nil
	}
	l := &textLogs{Tokens: []string{}, LogProbs: []*float32{}, Top: []map[string]float32{}, Offsets: []int{}}
	for i, t := range tokens {
		l.Tokens, l.Offsets = append(l.Tokens, f.text(t.ID)), append(l.Offsets, f.offset(t.ID, i < prompt, at))
		text := ""
		if i >= prompt {
			text = at.speech.push(t.ID)
		} else if text = at.prompt.Push(t.ID); i == prompt-1 {
			text += at.prompt.Flush()
		}
		at.offset += utf8.RuneCountInString(text)
		var p *float32
		if t.Raw == t.Raw { // not NaN: it was scored
			v := finite(t.Raw)
			p = &v
		}
		l.LogProbs = append(l.LogProbs, p)
		var top map[string]float32
		if f.top > 0 && len(t.Top) > 0 {
			top = map[string]float32{}
			for _, other := range t.Top[:min(len(t.Top), f.top)] {
				top[f.text(other.Token)] = finite(other.LogProb)
			}
			if p != nil {
				top[f.text(t.ID)] = *p // the sampled token is always listed
			}
		}
		l.Top = append(l.Top, top)
	}
	return l
}

// offset is where a token begins. If it continues a character, it begins where that character does; else after the partial character.
func (f *texts) offset(id int32, prompt bool, at *place) int {
	text, _ := f.tok.Token(id)
	if text == "" || !utf8.RuneStart(text[0]) {
		return at.offset
	}
	stream := at.speech.stream
	if prompt {
		stream = at.prompt
	}
	return at.offset + utf8.RuneCountInString(stream.Pending())
}

// text is the text of a token. A token that is no whole character is written as bytes, as OpenAI does: keys must differ.
func (f *texts) text(id int32) string {
	text, _ := f.tok.Token(id)
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	b.WriteString("bytes:")
	for i := range len(text) {
		fmt.Fprintf(&b, `\x%02x`, text[i])
	}
	return b.String()
}

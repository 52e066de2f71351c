package openai

import (
	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/sampler"
)

// conversation writes the answers of a chat.
type conversation struct {
	id       string
	created  int64
	model    string
	usageToo bool // each line of a stream has a usage: null, but the last
	logprobs bool
	top      int
	tok      *tokenizer.Tokenizer
	callID   func(choice, call int) string
	prompt   []int32 // nil: no token IDs are returned
}

type toolCall struct {
	Index    *int           `json:"index,omitempty"` // only in a stream
	ID       string         `json:"id,omitempty"`
	Type     string         `json:"type,omitempty"`
	Function calledFunction `json:"function"`
}

type calledFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// said is a message, or a part of it.
type said struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning *string    `json:"reasoning_content,omitempty"`
	Calls     []toolCall `json:"tool_calls,omitempty"`
}

// answerMessage is a complete message.
type answerMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	Reasoning *string    `json:"reasoning_content,omitempty"`
	Calls     []toolCall `json:"tool_calls,omitempty"`
}

type chatLine struct {
	Index    int       `json:"index"`
	Delta    said      `json:"delta"`
	LogProbs *logProbs `json:"logprobs"`
	Tokens   []int32   `json:"token_ids,omitzero"`
	Finish   *string   `json:"finish_reason"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  answerMessage `json:"message"`
	LogProbs *logProbs     `json:"logprobs"`
	Tokens   []int32       `json:"token_ids,omitzero"`
	Finish   string        `json:"finish_reason"`
}

// head has the fields that every answer begins with.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

func (f *conversation) head(object string) head { return head{f.id, object, f.created, f.model} }

// line is a line of a stream, with the prompt's tokens if they are returned.
func (f *conversation) line(l chatLine, prompt []int32) any {
	h := f.head("chat.completion.chunk")
	if f.usageToo {
		return struct {
			head
			Choices []chatLine `json:"choices"`
			Prompt  []int32    `json:"prompt_token_ids,omitempty"`
			Usage   *usage     `json:"usage"`
		}{h, []chatLine{l}, prompt, nil}
	}
	return struct {
		head
		Choices []chatLine `json:"choices"`
		Prompt  []int32    `json:"prompt_token_ids,omitempty"`
	}{h, []chatLine{l}, prompt}
}

func (f *conversation) start(c *choice) any {
	none := ""
	return f.line(chatLine{Index: c.index, Delta: said{Role: "assistant", Content: &none}}, f.prompt)
}

// scored returns nothing: chats do not echo their prompt.
func (f *conversation) scored(*choice, *sampler.Rollout) any { return nil }

func (f *conversation) more(c *choice, d delta) any {
	return f.line(chatLine{Index: c.index, Delta: f.said(c, d.parts), LogProbs: f.likelihood(d.tokens), Tokens: f.ids(d.tokens)}, nil)
}

func (f *conversation) last(c *choice, d delta, r *finishedChoice) (lines []any) {
	if !d.empty() || len(d.tokens) > 0 && (f.logprobs || f.prompt != nil) {
		lines = append(lines, f.more(c, d))
	}
	return append(lines, f.line(chatLine{Index: c.index, Tokens: f.ids(nil), Finish: &r.finish}, nil))
}

func (f *conversation) usage(u usage) any {
	return struct {
		head
		Choices []chatLine `json:"choices"`
		Usage   usage      `json:"usage"`
	}{f.head("chat.completion.chunk"), []chatLine{}, u}
}

// said joins parts into one message.
func (f *conversation) said(c *choice, parts []calls.Part) (s said) {
	for _, p := range parts {
		add(&s.Content, p.Content)
		add(&s.Reasoning, p.Thoughts)
		if !p.IsCall {
			continue
		}
		index := p.Call
		call := toolCall{Index: &index, Function: calledFunction{p.Name, p.Arguments}}
		if p.Name != "" {
			call.ID, call.Type = f.callID(c.index, p.Call), "function"
		}
		s.Calls = append(s.Calls, call)
	}
	return s
}

func add(to **string, text string) {
	if text == "" {
		return
	}
	if *to != nil {
		text = **to + text
	}
	*to = &text
}

func (f *conversation) whole(choices []*choice, all []*finishedChoice, u usage) any {
	list := make([]chatChoice, len(all))
	for i, e := range all {
		m := answerMessage{Role: "assistant"}
		add(&m.Reasoning, e.thoughts.String())
		if add(&m.Content, e.content.String()); m.Content == nil && len(e.names) == 0 {
			none := ""
			m.Content = &none
		}
		for k, name := range e.names {
			m.Calls = append(m.Calls, toolCall{ID: f.callID(i, k), Type: "function",
				Function: calledFunction{name, e.arguments[k].String()}})
		}
		list[i] = chatChoice{choices[i].index, m, f.likelihood(e.tokens), f.ids(e.tokens), e.finish}
	}
	return struct {
		head
		Choices []chatChoice `json:"choices"`
		Usage   usage        `json:"usage"`
		Prompt  []int32      `json:"prompt_token_ids,omitempty"`
	}{f.head("chat.completion"), list, u, f.prompt}
}

// ids are the IDs of tokens, if they are returned; an empty list is not null then.
func (f *conversation) ids(tokens []textToken) []int32 {
	if f.prompt == nil {
		return nil
	}
	list := make([]int32, 0, len(tokens))
	for _, t := range tokens {
		list = append(list, t.ID)
	}
	return list
}

// logProbs has the log-probabilities of tokens.
type logProbs struct {
	Content []tokenLikelihood `json:"content"`
	Refusal *string           `json:"refusal"`
}

type topToken struct {
	Token   string  `json:"token"`
	LogProb float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"` // []byte would be encoded as base64
}

type tokenLikelihood struct {
	topToken
	Top []topToken `json:"top_logprobs"`
}

func (f *conversation) likelihood(tokens []textToken) *logProbs {
	if !f.logprobs {
		return nil
	}
	l := &logProbs{Content: make([]tokenLikelihood, len(tokens))}
	for i, t := range tokens {
		l.Content[i] = tokenLikelihood{f.likely(sampler.Likely{Token: t.ID, LogProb: t.Raw}), []topToken{}}
		for _, other := range t.Top[:min(len(t.Top), f.top)] {
			l.Content[i].Top = append(l.Content[i].Top, f.likely(other))
		}
	}
	return l
}

func (f *conversation) likely(t sampler.Likely) topToken {
	text, _ := f.tok.Token(t.Token)
	l := topToken{f.tok.Decode([]int32{t.Token}, false), finite(t.LogProb), make([]int, len(text))}
	for i := range text {
		l.Bytes[i] = int(text[i])
	}
	return l
}

// finite is a log-probability that JSON can express: like OpenAI, -9999 stands for minus infinity.
func finite(p float32) float32 {
	if !(p >= -9999) {
		return -9999
	}
	return p
}

package openai

import (
	"net/http"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/sampler"
)

// chat answers POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	f, err := readFields(r.Body)
	if err != nil {
		return err
	}
	p, err := s.named(f)
	if err != nil {
		return err
	}
	j, err := s.chatJob(f, p)
	if err != nil {
		return err
	}
	return s.answer(w, r, j)
}

// chatJob reads what a conversation asks for.
func (s *Server) chatJob(f *fields, p *Policy) (*job, error) {
	d, err := s.drawing(f, p)
	if err != nil {
		return nil, err
	}
	if d.none {
		return nil, refusal.Field("max_tokens", "found 0, expected 1 or more")
	}
	messages, err := f.messages()
	if err != nil {
		return nil, err
	}
	use, err := f.tools()
	if err != nil {
		return nil, err
	}
	show, top := f.logprobs()
	kwargs, _ := f.take("chat_template_kwargs")
	if thinking, ok := f.take("enable_thinking"); ok && kwargs == nil {
		kwargs = []byte(`{"enable_thinking":` + string(thinking) + `}`)
	}
	if err := f.format(); err != nil {
		return nil, err
	}
	if err := f.done(); err != nil {
		return nil, err
	}
	chat, err := p.Language.format(kwargs)
	if err != nil {
		return nil, refusal.Field("chat_template_kwargs", "%v", err)
	}
	if len(use.list) > 0 && !chat.tools {
		return nil, refusal.Field("tools", "the chat template of %s writes none; leave them out", p.Name)
	}
	prompt, text, err := chat.Prompt(messages, use.list...)
	if err != nil {
		return nil, refusal.Field("messages", "%v", err)
	}
	maxTokens, err := d.room(p, prompt, p.MaxLength)
	if err != nil {
		return nil, err
	}
	n := chat.notation
	n.calls = n.calls && len(use.list) > 0
	open := opener(p, n, d, text)
	q := d.request(0, prompt, maxTokens, d.watch(func() *choice { return open(0) }, use.once && n.calls))
	q.Raw, q.Top = show, top
	return &job{policy: p, requests: []sampler.Request{q}, n: d.n, stream: d.stream, usage: d.usage, open: open, form: &conversation{
		id: newID("chatcmpl-"), created: s.now().Unix(), model: p.Name, usageToo: d.usage, logprobs: show, top: top, tok: p.Language.Tokenizer,
		callID: func(choice, call int) string { return d.name("call_", prompt, choice, call) },
	}}, nil
}

// opener begins the choices of a chat, whose prompt is that text.
func opener(p *Policy, n notation, d drawing, prompt string) func(int) *choice {
	marks := p.Language.marks(n)
	before, within, _ := cutLast(prompt, thinkOpen)
	thinking := n.thinks && len(before) < len(prompt) && !strings.Contains(within, thinkClose) && strings.TrimSpace(within) == ""
	return func(index int) *choice {
		return &choice{index: index, speech: newSpeech(p.Language.Tokenizer, marks, d.stops), reader: newReader(n, thinking),
			ends: d.params.StopTokens}
	}
}

func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

// format reads response_format.
func (f *fields) format() error {
	var v struct {
		Type string `json:"type"`
	}
	if value(f, "response_format", &v, `an object such as {"type": "text"}`) && v.Type != "text" {
		return refusal.Field("response_format", "found %q, and this server knows text alone", v.Type)
	}
	return f.err
}

// logprobs reads whether they are shown, and how many of the most likely tokens.
func (f *fields) logprobs() (show bool, top int) {
	value(f, "logprobs", &show, "true or false")
	if f.count("top_logprobs", &top, 0, mostTop) && !show && top > 0 {
		f.wrong("top_logprobs", "found %d without \"logprobs\": true", top)
	}
	return show, top
}

// chosen are the tools that a model is told of.
type chosen struct {
	list []chat.Tool
	once bool // a call is the last thing that is said
}

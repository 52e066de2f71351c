package openai

import (
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/sampler"
)

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
	document := f.document()
	if err := f.done(); err != nil {
		return nil, err
	}
	if document != nil && len(use.forced) > 0 && !use.words {
		return nil, refusal.Field("tool_choice", `it asks for a call, response_format for a document, and no answer is both; `+
			`leave one out, or send "tool_choice": "auto"`)
	}
	chat, err := p.Language.format(kwargs)
	if err != nil {
		return nil, refusal.Field("chat_template_kwargs", "%s", refusal.Short(err.Error(), longestReason))
	}
	if len(use.list) > 0 && !chat.tools {
		return nil, refusal.Field("tools", "the chat template of %s writes none; leave them out", p.Name)
	}
	prompt, text, err := chat.Prompt(messages, use.list...)
	if err != nil {
		return nil, refusal.Field("messages", "%s", refusal.Short(err.Error(), longestReason))
	}
	maxTokens, err := d.room(p, prompt, p.MaxLength)
	if err != nil {
		return nil, err
	}
	n := chat.notation
	n.calls = n.calls && len(use.list) > 0
	thinking := n.thinks && withinThoughts(text)
	open := opener(p, n, d, thinking)
	q := d.request(0, prompt, maxTokens, d.watch(func() *choice { return open(0) }, use.once && n.calls))
	q.Raw, q.Top = show, top
	if err := p.shaped(&q, shape{document, use.forced, use.once, use.words}, chat, thinking); err != nil {
		return nil, err
	}
	return &job{policy: p, requests: []sampler.Request{q}, n: d.n, stream: d.stream, usage: d.usage, open: open, form: &conversation{
		id: newID("chatcmpl-"), created: s.now().Unix(), model: p.Name, usageToo: d.usage, logprobs: show, top: top, tok: p.Language.Tokenizer,
		callID: func(choice, call int) string { return d.name("call_", prompt, choice, call) },
	}}, nil
}

// opener begins the choices of a chat; thinking: its prompt ends within thoughts.
func opener(p *Policy, n notation, d drawing, thinking bool) func(int) *choice {
	marks := p.Language.marks(n)
	return func(index int) *choice {
		return &choice{index: index, speech: newSpeech(p.Language.Tokenizer, marks, d.stops), reader: newReader(n, thinking),
			ends: d.params.StopTokens}
	}
}

// withinThoughts reports whether a prompt leaves a model thinking.
func withinThoughts(prompt string) bool {
	i := strings.LastIndex(prompt, thinkOpen)
	return i >= 0 && strings.TrimSpace(prompt[i+len(thinkOpen):]) == ""
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
	list   []chat.Tool
	forced []tool // that a call has to be of
	once   bool   // a call is the last thing that is said
	words  bool   // or nothing is called
}

package openai

import (
	"encoding/json"
	"fmt"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/sampler"
)

// chatJob reads a request for a chat completion.
func (s *Server) chatJob(f *fields, p *Policy) (*job, error) {
	d, err := s.drawing(f, p, 1)
	if err != nil {
		return nil, err
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
	ids := f.ids()
	kwargs := f.kwargs()
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
		return nil, refusal.Field("chat_template_kwargs", "%s", refusal.Truncate(err.Error(), longestReason))
	}
	if len(use.list) > 0 && !chat.tools {
		return nil, refusal.Field("tools", "the chat template of %s does not support tools; leave them out", p.Name)
	}
	prompt, text, err := p.prompt(chat, messages, use.list)
	if err != nil {
		return nil, err
	}
	maxTokens, err := d.room(p, prompt, p.MaxLength)
	if err != nil {
		return nil, err
	}
	n := chat.notation
	n.Calls = n.Calls && len(use.list) > 0
	thinking := n.Thinks && calls.WithinThoughts(text)
	open := opener(p, n, d, thinking)
	q := d.request(0, prompt, maxTokens, d.watch(func() *choice { return open(0) }, use.once && n.Calls))
	q.Raw, q.Top = show, top
	if err := p.shaped(&q, shape{document, use.forced, use.once, use.words}, chat, thinking); err != nil {
		return nil, err
	}
	form := &conversation{
		id: newID("chatcmpl-"), created: s.now().Unix(), model: p.Name, usageToo: d.usage, logprobs: show, top: top, tok: p.Language.Tokenizer,
		callID: func(choice, call int) string { return d.callName(n, prompt, choice, call) },
	}
	if ids {
		form.prompt = prompt
	}
	return &job{policy: p, requests: []sampler.Request{q}, n: d.n, stream: d.stream, usage: d.usage, open: open, form: form}, nil
}

// ids reads whether to return token IDs.
func (f *fields) ids() (show bool) {
	value(f, "return_token_ids", &show, "true or false")
	return show
}

// kwargs are the variables for the chat template; nil if there are none.
func (f *fields) kwargs() json.RawMessage {
	kwargs, there := f.take("chat_template_kwargs")
	thinking, vars := false, map[string]json.RawMessage{}
	switch said := value(f, "enable_thinking", &thinking, "true or false"); {
	case !there && !said:
		return nil
	case !said, there && json.Unmarshal(kwargs, &vars) != nil: // wrong kwargs are refused later
		return kwargs
	}
	if _, said := vars["enable_thinking"]; said {
		return kwargs
	}
	vars["enable_thinking"] = fmt.Appendf(nil, "%t", thinking)
	kwargs, err := json.Marshal(vars)
	if err != nil {
		panic(err) // it was parsed from JSON
	}
	return kwargs
}

// opener returns a function that starts a choice. thinking: the prompt ends within thoughts.
func opener(p *Policy, n calls.Notation, d samplingFields, thinking bool) func(int) *choice {
	marks := n.Marks(p.Language.Tokenizer)
	return func(index int) *choice {
		return &choice{index: index, speech: newSpeech(p.Language.Tokenizer, marks, d.stops), reader: calls.NewReader(n, thinking),
			ends: d.params.StopTokens}
	}
}

// logprobs reads whether to return log-probabilities, and of how many of the most likely tokens.
func (f *fields) logprobs() (show bool, top int) {
	value(f, "logprobs", &show, "true or false")
	if f.count("top_logprobs", &top, 0, mostTop) && !show && top > 0 {
		f.wrong("top_logprobs", "found %d without \"logprobs\": true", top)
	}
	return show, top
}

// toolChoice are the tools of a request, and what tool_choice says of them.
type toolChoice struct {
	list   []chat.Tool
	forced []tool // a call must be of one of these; empty: no constraint
	once   bool   // the answer ends after the first call
	words  bool   // an answer without a call is allowed too
}

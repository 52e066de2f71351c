package lesson

import (
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Sequence is a conversation in tokens. Those in the spans [from, to) are trained on.
type Sequence struct {
	Tokens []int32
	Spans  [][2]int
}

// Learned counts the tokens in spans.
func (s *Sequence) Learned() (n int) {
	for _, span := range s.Spans {
		n += span[1] - span[0]
	}
	return n
}

// cut cuts the sequence to the first most tokens, and tells whether there were more.
func (s *Sequence) cut(most int) bool {
	if len(s.Tokens) <= most {
		return false
	}
	s.Tokens = s.Tokens[:most]
	for i, span := range s.Spans {
		if span[1] > most {
			if s.Spans = s.Spans[:i]; span[0] < most {
				s.Spans = append(s.Spans, [2]int{span[0], most})
			}
			break
		}
	}
	return true
}

// Encoder turns conversations into tokens, in the chat format of a model.
type Encoder struct {
	Renderer  *chat.Renderer
	Tokenizer *tokenizer.Tokenizer
	Wording   *prompt.Builder // for prompts that are a text; nil: they are used unchanged
	LastTurn  bool            // only the last turn of the assistant is trained on
	Most      int             // the most tokens of a sequence
}

// Sequences renders a conversation. The result is one sequence if the chat format renders each turn later as when it was generated,
// otherwise one for each stretch of turns for which that holds. So the model is trained on what it has to generate at that place. cut
// says that there were more tokens than fit. A sequence with nothing to train on is left out.
func (e *Encoder) Sequences(c Conversation) (all []Sequence, cut bool, err error) {
	if err := e.applyWording(&c); err != nil {
		return nil, false, err
	}
	var now Sequence
	for i := c.Given; i < len(c.Messages); i++ {
		if !isAssistant(c.Messages[i]) || e.LastTurn && slices.ContainsFunc(c.Messages[i+1:], isAssistant) {
			continue
		}
		tokens, from, err := e.through(c, i)
		if err != nil {
			return nil, false, badinput.Errorf("%s: messages 0 to %d: %w", c.Where, i, err)
		}
		if n := len(now.Tokens); n > from || !slices.Equal(now.Tokens, tokens[:n]) {
			all, now = append(all, now), Sequence{}
		}
		now.Tokens, now.Spans = tokens, append(now.Spans, [2]int{from, len(tokens)})
	}
	all = append(all, now)
	for i := range all {
		cut = all[i].cut(e.Most) || cut
	}
	return slices.DeleteFunc(all, func(s Sequence) bool { return s.Learned() == 0 }), cut, nil
}

// applyWording replaces a prompt that is a text by the messages that the wording makes of it.
func (e *Encoder) applyWording(c *Conversation) error {
	if e.Wording == nil || c.statement == "" {
		return nil
	}
	asked, err := e.Wording.Messages(&data.Problem{ID: c.Where, Statement: c.statement, Kind: data.Answer})
	if err != nil {
		return err
	}
	c.Messages = slices.Concat(asked, c.Messages[c.Given:])
	c.Given = len(asked)
	return nil
}

// through returns the tokens of a conversation up to the end of a turn of the assistant, which begins at from.
func (e *Encoder) through(c Conversation, i int) (tokens []int32, from int, err error) {
	before, opening, err := e.Renderer.Prompt(c.Messages[:i], c.Tools...)
	if err != nil {
		return nil, 0, err
	}
	tokens, text, err := e.Renderer.Conversation(c.Messages[:i+1], c.Tools...)
	if err != nil {
		return nil, 0, err
	}
	from = len(before)
	stop := e.Renderer.Stop()
	if len(tokens) > from && slices.Equal(tokens[:from], before) {
		for end := len(tokens); end > from; end-- {
			if slices.Contains(stop, tokens[end-1]) {
				return tokens[:end], from, nil
			}
		}
		return tokens, from, nil // the format has nothing that ends a turn
	}
	// What is said begins with something that would be a token together with the end of what opens the turn. The model never says
	// it so: it begins with a token of its own.
	said, ok := strings.CutPrefix(text, opening)
	if !ok {
		return nil, 0, badinput.Errorf("the chat template does not write this turn right after its generation prompt, so it cannot be "+
			"learned; found %.40q…, expected it after …%.40q", text[min(len(text), commonStart(text, opening)):], tail(opening))
	}
	for _, special := range e.Tokenizer.SpecialTokens() {
		if at := strings.LastIndex(said, special.Content); at >= 0 && slices.Contains(stop, special.ID) {
			said = said[:at]
		}
	}
	if slices.ContainsFunc(e.Tokenizer.SpecialTokens(), func(s tokenizer.Special) bool { return strings.Contains(said, s.Content) }) {
		return nil, 0, badinput.Errorf("this turn begins in the middle of a token, and has special tokens in it; begin it with something else")
	}
	tokens = e.Tokenizer.AppendText(slices.Clone(before), said)
	if len(stop) > 0 {
		tokens = append(tokens, stop[0])
	}
	return tokens, from, nil
}

func commonStart(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func tail(s string) string { return s[max(0, len(s)-40):] }

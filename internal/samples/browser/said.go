package browser

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/samples"
)

// said shows a completion without color.
func said(s *samples.Sample) []block {
	if s.Talk == nil {
		return []block{{Pieces: []piece{{Text: display.Visible(display.Truncate(s.Text, mostText))}}}}
	}
	var all []block
	for _, m := range messages(s) {
		all = append(all, block{Who: m.who, Note: m.note, Pieces: []piece{{Text: m.text}}})
	}
	return all
}

// message is a message of a conversation; turn is the index of the model's turn, -1 for other messages.
type message struct {
	who, note, text string
	turn            int
}

func messages(s *samples.Sample) (all []message) {
	turn := 0
	for _, m := range s.Talk.Messages {
		text := display.Visible(display.Truncate(m.Content, mostText/4))
		for _, c := range m.ToolCalls {
			call := display.Truncate(c.Function.Name+" "+string(c.Function.Arguments), mostText/8)
			text = strings.TrimPrefix(text+"\n→ "+display.Visible(call), "\n")
		}
		out := message{who: display.Visible(m.Role), text: text, turn: -1}
		if m.Name != "" {
			out.who += " " + display.Visible(m.Name)
		}
		if m.Role == "assistant" {
			out.turn = turn
			for _, j := range s.Talk.Judged {
				if j.Turn == turn {
					out.note = display.Visible(cmp.Or(j.Verdict, "not run")) + ", reward " + strconv.FormatFloat(j.Reward, 'g', 3, 64)
				}
			}
			turn++
		}
		all = append(all, out)
	}
	return all
}

// painted shows a completion with a color for each sampled token.
func (p *page) painted(s *samples.Sample, way string) (all []block, reason string) {
	var texts []string
	if p.known.Pieces != nil {
		texts = p.known.Pieces(p.Dir, s.Tokens)
	}
	if s.Talk == nil {
		pieces, reason := colored(s, texts, 0, len(s.Tokens), way)
		return []block{{Pieces: pieces}}, reason
	}
	for _, m := range messages(s) {
		b := block{Who: m.who, Note: m.note, Pieces: []piece{{Text: m.text}}}
		if m.turn >= 0 && m.turn < len(s.Talk.Turns) {
			t := s.Talk.Turns[m.turn]
			if b.Pieces, reason = colored(s, texts, max(0, t.Start), t.End, way); reason != "" {
				return nil, reason
			}
		}
		all = append(all, b)
	}
	return all, ""
}

// compared shows two completions with their differences marked, for conversations message by message.
func compared(a, b *samples.Sample) (left, right []block) {
	left, right = said(a), said(b)
	for i := range min(len(left), len(right)) {
		left[i].Pieces, right[i].Pieces = differ(whole(left[i]), whole(right[i]))
	}
	return left, right
}

func whole(b block) (text string) {
	for _, p := range b.Pieces {
		text += p.Text
	}
	return text
}

package openai

import (
	"strings"
)

// notation is how a model writes thoughts and calls of tools into its text.
type notation struct {
	thinks bool // <think>…</think> at the start
	// calls are between these tags, or where open is "", the whole text is: objects, with ; or a line's end between them.
	calls       bool
	open, close string
	prefix      string   // may stand before a text that is calls
	argKeys     []string // what arguments are called
}

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
	pythonTag  = "<|python_tag|>"
)

// hermes is what Qwen's and Nous's models write, llama what Meta's from 3.1 on do.
var (
	hermes = notation{calls: true, open: "<tool_call>", close: "</tool_call>", argKeys: []string{"arguments", "parameters"}}
	llama  = notation{calls: true, prefix: pythonTag, argKeys: []string{"parameters", "arguments"}}
)

// part is something that a model said: one of thoughts, content, a call of a tool that begins, or more of its arguments.
type part struct {
	Thoughts, Content string
	Call              int // counts from 0
	Name              string
	Arguments         string
	isCall            bool
}

// reader tells thoughts, content and calls in a text apart while it comes. What it gives does not depend on how the text is cut
// but for where its parts are cut.
type reader struct {
	notation
	at     stage
	held   string // of the text, not given out
	call   *call  // being written
	raw    []byte // of it, with what stands before
	calls  int
	spoken bool // there were thoughts, or content
}

type stage int

const (
	atStart    stage = iota
	inThoughts       // up to the tag
	afterTag         // blanks are left out
	inContent
	inCall
	afterCall // up to the next
)

// newReader reads what a model says in a notation; thinking: its prompt ends within thoughts.
func newReader(n notation, thinking bool) *reader {
	r := &reader{notation: n}
	if thinking {
		r.at = inThoughts
	}
	return r
}

// push reads on.
func (r *reader) push(text string) (parts []part) {
	r.held += text
	for before := -1; len(r.held) != before && r.held != ""; {
		before = len(r.held)
		at := r.at
		parts = r.read(parts, false)
		if at != r.at {
			before = -1
		}
	}
	return parts
}

// end reads what was held back: there is no more.
func (r *reader) end() (parts []part) {
	parts = r.push("")
	parts = r.read(parts, true)
	if r.at == inCall && !r.call.due {
		return r.content(parts, string(r.raw))
	}
	return parts
}

func (r *reader) read(parts []part, last bool) []part {
	switch r.at {
	case atStart:
		return r.begin(parts, last)
	case inThoughts:
		return r.thoughts(parts, last)
	case afterTag:
		if r.held = strings.TrimLeft(r.held, "\n"); r.held != "" {
			r.at = inContent
			return r.begins(parts, last)
		}
	case inContent:
		return r.speak(parts, last)
	case inCall:
		return r.write(parts)
	case afterCall:
		return r.between(parts)
	}
	return parts
}

// begin looks for thoughts, and for a text that is a call.
func (r *reader) begin(parts []part, last bool) []part {
	text := strings.TrimLeft(r.held, " \n\t\r")
	switch {
	case r.thinks && strings.HasPrefix(text, thinkOpen):
		r.held, r.at = text[len(thinkOpen):], inThoughts
	case !last && (text == "" || r.thinks && strings.HasPrefix(thinkOpen, text)):
	default:
		r.at = inContent
		return r.begins(parts, last)
	}
	return parts
}

// begins is where content begins: a model without tags makes calls there or nowhere.
func (r *reader) begins(parts []part, last bool) []part {
	if !r.notation.calls || r.open != "" {
		return r.speak(parts, last)
	}
	text := strings.TrimLeft(r.held, " \n\t\r")
	switch {
	case strings.HasPrefix(text, "{"), r.prefix != "" && strings.HasPrefix(text, r.prefix):
		r.begun(strings.TrimPrefix(text, r.prefix), r.held[:len(r.held)-len(strings.TrimPrefix(text, r.prefix))])
	case !last && strings.HasPrefix(r.prefix, text):
		r.at = atStart // not known yet
	default:
		return r.speak(parts, last)
	}
	return parts
}

// begun begins a call: text is what is to be read of it, before what stood before.
func (r *reader) begun(text, before string) {
	r.held, r.raw, r.call, r.at = text, []byte(before), newCall(r.argKeys...), inCall
}

// thoughts gives them without the line ends around them.
func (r *reader) thoughts(parts []part, last bool) []part {
	before, after, found := strings.Cut(r.held, thinkClose)
	switch {
	case found:
		r.held, r.at = after, afterTag
		before = strings.TrimRight(before, "\n")
	case last:
		r.held = ""
	default:
		keep := len(strings.TrimRight(before[:len(before)-longestStart(before, []string{thinkClose})], "\n"))
		r.held, before = before[keep:], before[:keep]
	}
	if !r.spoken {
		before = strings.TrimLeft(before, "\n")
	}
	if before != "" {
		r.spoken = !found
		parts = append(parts, part{Thoughts: before})
	}
	if found {
		r.spoken = false
	}
	return parts
}

// speak gives content up to a call, without the line ends before that.
func (r *reader) speak(parts []part, last bool) []part {
	if !r.notation.calls || r.open == "" {
		text := r.held
		r.held = ""
		return r.content(parts, text)
	}
	before, after, found := strings.Cut(r.held, r.open)
	switch {
	case found:
		content := strings.TrimRight(before, " \n\t\r")
		parts = r.content(parts, content)
		r.begun(after, before[len(content):]+r.open)
		return parts
	case last:
		r.held = ""
		return r.content(parts, before)
	}
	keep := len(strings.TrimRight(before[:len(before)-longestStart(before, []string{r.open})], " \n\t\r"))
	r.held = before[keep:]
	return r.content(parts, before[:keep])
}

func (r *reader) content(parts []part, text string) []part {
	if text == "" {
		return parts
	}
	r.spoken = true
	return append(parts, part{Content: text})
}

// write reads on in a call.
func (r *reader) write(parts []part) []part {
	taken := r.call.push(r.held)
	r.raw = append(r.raw, r.held[:taken]...)
	r.held = r.held[taken:]
	if arguments, first := r.call.more(); first || arguments != "" {
		p := part{Call: r.calls, Arguments: arguments, isCall: true}
		if first {
			p.Name = r.call.name
		}
		parts = append(parts, p)
	}
	switch {
	case r.call.broken && !r.call.due: // it was no call
		text := string(r.raw)
		r.at, r.call, r.raw = inContent, nil, nil
		return r.content(parts, text)
	case r.call.over || r.call.broken:
		r.calls++
		r.at, r.raw = afterCall, nil
	}
	return parts
}

// between leaves out what stands between a call and the next, its closing tag among it.
func (r *reader) between(parts []part) []part {
	if r.open == "" {
		switch r.held = strings.TrimLeft(r.held, " \n\t\r;"); {
		case strings.HasPrefix(r.held, "{"):
			r.begun(r.held, "")
		case r.held != "":
			r.at = inContent
		}
		return parts
	}
	if _, after, found := strings.Cut(r.held, r.close); found {
		r.held, r.at = after, afterTag
		return parts
	}
	r.held = r.held[len(r.held)-longestStart(r.held, []string{r.close}):]
	return parts
}

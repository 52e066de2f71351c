package calls

import (
	"strings"
)

// Notation is how a model writes thoughts and calls of tools into its text.
type Notation struct {
	Thinks bool // <think>…</think> at the start
	// Calls are between these tags, or where Open is "", the whole text is: objects, with ; or a line's end between them.
	Calls       bool
	Open, Close string
	List        bool     // what follows the opening tag is a list of calls, without a closing one, or a call as Named has it
	Named       bool     // a call is its name, NameEnd and the object of its arguments; with List: that is what the model writes
	Prefix      string   // may stand before a text that is calls
	ArgKeys     []string // what arguments are called
}

// The tags of thoughts.
const (
	ThinkOpen  = "<think>"
	ThinkClose = "</think>"
)

const pythonTag = "<|python_tag|>"

// What stands between the name of a call of Mistral's and its arguments: some models give it an id before that.
const (
	NameEnd = "[ARGS]"
	nameID  = "[CALL_ID]"
)

// Hermes is what Qwen's and Nous's models write, Llama what Meta's from 3.1 on do, Mistral what Mistral's do. Both of theirs are
// read in either notation: their later ones, whose templates have NameEnd, write [TOOL_CALLS]name[ARGS]{…}, one after the other.
var (
	MistralNamed = Notation{Calls: true, Open: "[TOOL_CALLS]", List: true, Named: true, ArgKeys: []string{"arguments", "parameters"}}

	Mistral = Notation{Calls: true, Open: "[TOOL_CALLS]", List: true, ArgKeys: []string{"arguments", "parameters"}}

	Hermes = Notation{Calls: true, Open: "<tool_call>", Close: "</tool_call>", ArgKeys: []string{"arguments", "parameters"}}
	Llama  = Notation{Calls: true, Prefix: pythonTag, ArgKeys: []string{"parameters", "arguments"}}
)

// Part is something that a model said: one of thoughts, content, a call of a tool that begins, or more of its arguments.
type Part struct {
	Thoughts, Content string
	Call              int // counts from 0
	Name              string
	Arguments         string
	IsCall            bool
}

// Reader tells thoughts, content and calls in a text apart while it comes. What it gives does not depend on how the text is cut
// but for where its parts are cut.
type Reader struct {
	Notation
	at     stage
	held   string // of the text, not given out
	call   *call  // being written
	raw    []byte // of it, with what stands before
	calls  int
	spoken bool           // there were thoughts, or content
	broken map[int]string // calls that were told of and are none, as they were written
}

type stage int

const (
	atStart    stage = iota
	inThoughts       // up to the tag
	afterTag         // blanks are left out
	inContent
	inName // of a call, before its arguments
	inCall
	afterCall // up to the next
)

// NewReader reads what a model says in a notation; thinking: its prompt ends within thoughts.
func NewReader(n Notation, thinking bool) *Reader {
	r := &Reader{Notation: n}
	if thinking {
		r.at = inThoughts
	}
	return r
}

// Thinking reports whether thoughts are being read.
func (r *Reader) Thinking() bool { return r.at == inThoughts }

// Made is how many calls were read to their end.
func (r *Reader) Made() int { return r.calls }

// Push reads on.
func (r *Reader) Push(text string) (parts []Part) {
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

// End reads what was held back: there is no more.
func (r *Reader) End() (parts []Part) {
	parts = r.Push("")
	parts = r.read(parts, true)
	switch {
	case r.at == inCall && !r.call.due:
		return r.content(parts, string(r.raw))
	case r.at == inCall:
		r.breaks()
	}
	return parts
}

// Cut is End of a text that was cut off. A call that had begun is told of as far as it came: its name and the beginning of its
// arguments, or, before it had a name, not at all. It is no content.
func (r *Reader) Cut() (parts []Part) {
	parts = r.Push("")
	switch {
	case r.at == inName, r.at == inContent && r.Notation.Calls && begun(r.held, r.Open) > 1: // in its name, or in the tag before it
	case r.at == inCall && !r.call.due && r.marked():
		if r.call.name != "" && !r.call.broken {
			parts = append(parts, Part{Call: r.calls, Name: r.call.name, IsCall: true})
		}
	default:
		return append(parts, r.End()...)
	}
	r.held, r.raw = "", nil
	return parts
}

// marked tells whether what is read can be nothing but a call: without a tag before it it may be a document.
func (r *Reader) marked() bool {
	return r.Open != "" || r.calls > 0 || strings.HasPrefix(strings.TrimLeft(string(r.raw), " \n\t\r"), r.Prefix) && r.Prefix != ""
}

func (r *Reader) read(parts []Part, last bool) []Part {
	switch r.at {
	case atStart:
		return r.begin(parts, last)
	case inThoughts:
		return r.thoughts(parts, last)
	case afterTag:
		if r.held = strings.TrimLeft(r.held, "\n"); r.held != "" {
			return r.begins(parts, last)
		}
	case inContent:
		return r.speak(parts, last)
	case inName:
		return r.named(parts, last)
	case inCall:
		return r.write(parts)
	case afterCall:
		return r.between(parts)
	}
	return parts
}

// begin looks for thoughts, and for a text that is a call.
func (r *Reader) begin(parts []Part, last bool) []Part {
	text := strings.TrimLeft(r.held, " \n\t\r")
	switch {
	case r.Thinks && strings.HasPrefix(text, ThinkOpen):
		r.held, r.at = text[len(ThinkOpen):], inThoughts
	case !last && (text == "" || r.Thinks && strings.HasPrefix(ThinkOpen, text)):
	default:
		return r.begins(parts, last)
	}
	return parts
}

// begins is where content begins: a model without tags makes calls there or nowhere.
func (r *Reader) begins(parts []Part, last bool) []Part {
	if !r.Notation.Calls || r.Open != "" {
		r.at = inContent
		return r.speak(parts, last)
	}
	text := strings.TrimLeft(r.held, " \n\t\r")
	switch {
	case strings.HasPrefix(text, "{"), r.Prefix != "" && strings.HasPrefix(text, r.Prefix):
		r.enter(strings.TrimPrefix(text, r.Prefix), r.held[:len(r.held)-len(strings.TrimPrefix(text, r.Prefix))])
	case !last && strings.HasPrefix(r.Prefix, text): // not known yet
	default:
		r.at = inContent
		return r.speak(parts, last)
	}
	return parts
}

// enter begins a call: text is what is to be read of it, before what stood before.
func (r *Reader) enter(text, before string) {
	r.held, r.raw, r.call, r.at = text, []byte(before), newCall(r.ArgKeys...), inCall
}

// thoughts gives them without the line ends around them.
func (r *Reader) thoughts(parts []Part, last bool) []Part {
	before, after, found := strings.Cut(r.held, ThinkClose)
	switch {
	case found:
		r.held, r.at = after, afterTag
		before = strings.TrimRight(before, "\n")
	case last:
		r.held = ""
	default:
		keep := len(strings.TrimRight(before[:len(before)-begun(before, ThinkClose)], "\n"))
		r.held, before = before[keep:], before[:keep]
	}
	if !r.spoken {
		before = strings.TrimLeft(before, "\n")
	}
	if before != "" {
		r.spoken = !found
		parts = append(parts, Part{Thoughts: before})
	}
	if found {
		r.spoken = false
	}
	return parts
}

// speak gives content up to a call, without the line ends before that.
func (r *Reader) speak(parts []Part, last bool) []Part {
	if !r.Notation.Calls || r.Open == "" {
		text := r.held
		r.held = ""
		return r.content(parts, text)
	}
	before, after, found := strings.Cut(r.held, r.Open)
	switch {
	case found:
		content := strings.TrimRight(before, " \n\t\r")
		parts = r.content(parts, content)
		r.enter(after, before[len(content):]+r.Open)
		if r.call.inList = r.List; r.List {
			r.at = inName
		}
		return parts
	case last:
		r.held = ""
		return r.content(parts, before)
	}
	keep := len(strings.TrimRight(before[:len(before)-begun(before, r.Open)], " \n\t\r"))
	r.held = before[keep:]
	return r.content(parts, before[:keep])
}

func (r *Reader) content(parts []Part, text string) []Part {
	if text == "" {
		return parts
	}
	r.spoken = true
	return append(parts, Part{Content: text})
}

// write reads on in a call.
func (r *Reader) write(parts []Part) []Part {
	taken := r.call.push(r.held)
	r.raw = append(r.raw, r.held[:taken]...)
	r.held = r.held[taken:]
	if arguments, first := r.call.more(); first || arguments != "" {
		p := Part{Call: r.calls, Arguments: arguments, IsCall: true}
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
		if r.call.broken {
			r.breaks()
		}
		r.calls++
		if r.at, r.raw = afterCall, nil; r.call.bare {
			r.at = afterTag
		}
	}
	return parts
}

// breaks notes that the call that is read is none, after it was told of.
func (r *Reader) breaks() {
	if r.broken == nil {
		r.broken = map[int]string{}
	}
	r.broken[r.calls] = string(r.raw)
}

// between leaves out what stands between a call and the next, its closing tag among it.
func (r *Reader) between(parts []Part) []Part {
	if r.List {
		switch r.held = strings.TrimLeft(r.held, " \n\t\r,"); {
		case strings.HasPrefix(r.held, "{"):
			r.enter(r.held, "")
		case strings.HasPrefix(r.held, "]"):
			r.held, r.at = r.held[1:], afterTag
		case r.held != "":
			r.at = inContent
		}
		return parts
	}
	if r.Open == "" {
		switch r.held = strings.TrimLeft(r.held, " \n\t\r;"); {
		case strings.HasPrefix(r.held, "{"):
			r.enter(r.held, "")
		case r.held != "":
			r.at = inContent
		}
		return parts
	}
	if _, after, found := strings.Cut(r.held, r.Close); found {
		r.held, r.at = after, afterTag
		return parts
	}
	r.held = r.held[len(r.held)-begun(r.held, r.Close):]
	return parts
}

// begun is the length of the longest end of a text that the tag begins with, and does not end with.
func begun(text, tag string) int {
	for n := min(len(tag)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}

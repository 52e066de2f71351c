package calls

import (
	"strings"
)

// Notation is how a model writes thoughts and tool calls in its text.
type Notation struct {
	Thinks bool // <think>…</think> at the start
	// With Calls the model calls tools: each call is an object between Open and Close. Without tags (Open is "") the whole text is
	// calls, separated by ; or line ends.
	Calls       bool
	Open, Close string
	List        bool     // Open precedes a list of calls, or a call by name; there is no Close
	Named       bool     // the model writes name, NameEnd, arguments; needs List
	Prefix      string   // an optional tag before a text that is calls
	ArgKeys     []string // the keys of the arguments, that of the model's training first
}

// The tags of thoughts.
const (
	ThinkOpen  = "<think>"
	ThinkClose = "</think>"
)

const pythonTag = "<|python_tag|>"

// NameEnd separates the name of a Mistral call from its arguments. Some models write nameID and an id before it.
const (
	NameEnd = "[ARGS]"
	nameID  = "[CALL_ID]"
)

// Hermes is the notation of Qwen and Nous models, Llama that of Meta models from 3.1 on, Mistral that of Mistral models. Later Mistral
// models, whose templates contain NameEnd, write [TOOL_CALLS]name[ARGS]{…} for each call; either of their notations is read for both.
var (
	MistralNamed = Notation{Calls: true, Open: "[TOOL_CALLS]", List: true, Named: true, ArgKeys: []string{"arguments", "parameters"}}

	Mistral = Notation{Calls: true, Open: "[TOOL_CALLS]", List: true, ArgKeys: []string{"arguments", "parameters"}}

	Hermes = Notation{Calls: true, Open: "<tool_call>", Close: "</tool_call>", ArgKeys: []string{"arguments", "parameters"}}
	Llama  = Notation{Calls: true, Prefix: pythonTag, ArgKeys: []string{"parameters", "arguments"}}
)

// Part is a piece of a turn: thoughts, content, the start of a tool call, or more of its arguments.
type Part struct {
	Thoughts, Content string
	Call              int // counts from 0
	Name              string
	Arguments         string
	IsCall            bool
}

// Reader separates thoughts, content and calls in a text as it streams in. How the text is cut into pieces changes only where the
// parts are cut.
type Reader struct {
	Notation
	at     stage
	held   string         // text received but not yet read
	call   *call          // being read
	raw    []byte         // the text of the call so far, with the tag before it
	calls  int            // read to the end
	spoken bool           // thoughts or content have been returned
	broken map[int]string // the text of calls that proved malformed after they were announced
}

type stage int

const (
	atStart    stage = iota
	inThoughts       // up to the closing tag
	afterTag         // line ends are skipped
	inContent
	inName // between the opening tag and the arguments
	inCall
	afterCall // up to the closing tag or the next call
)

// NewReader returns a reader of a turn in a notation; thinking: its prompt ends within thoughts.
func NewReader(n Notation, thinking bool) *Reader {
	r := &Reader{Notation: n}
	if thinking {
		r.at = inThoughts
	}
	return r
}

// Thinking reports whether thoughts are being read.
func (r *Reader) Thinking() bool { return r.at == inThoughts }

// Made is the number of calls that were read to their end.
func (r *Reader) Made() int { return r.calls }

// Push reads more text.
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

// End reads the text that was held back, as no more follows.
func (r *Reader) End() (parts []Part) {
	parts = r.Push("")
	parts = r.read(parts, true)
	switch {
	case r.at == inCall && !r.call.announceable:
		return r.appendContent(parts, string(r.raw))
	case r.at == inCall:
		r.noteMalformed()
	}
	return parts
}

// Cut is End for a text that was cut off by a limit. A call that had begun is returned as far as it got: its name and the beginning of
// its arguments, or nothing if it has no name yet. It is never returned as content.
func (r *Reader) Cut() (parts []Part) {
	parts = r.Push("")
	switch {
	case r.at == inName, r.at == inContent && r.Notation.Calls && partialTag(r.held, r.Open) > 1: // in its name, or in the tag before it
	case r.at == inCall && !r.call.announceable && r.mustBeCall():
		if r.call.name != "" && !r.call.broken {
			parts = append(parts, Part{Call: r.calls, Name: r.call.name, IsCall: true})
		}
	default:
		return append(parts, r.End()...)
	}
	r.held, r.raw = "", nil
	return parts
}

// mustBeCall reports whether the text can only be a call. Without a tag before it, an object may be an ordinary JSON answer.
func (r *Reader) mustBeCall() bool {
	return r.Open != "" || r.calls > 0 || strings.HasPrefix(strings.TrimLeft(string(r.raw), " \n\t\r"), r.Prefix) && r.Prefix != ""
}

func (r *Reader) read(parts []Part, last bool) []Part {
	switch r.at {
	case atStart:
		return r.readStart(parts, last)
	case inThoughts:
		return r.readThoughts(parts, last)
	case afterTag:
		if r.held = strings.TrimLeft(r.held, "\n"); r.held != "" {
			return r.readContentStart(parts, last)
		}
	case inContent:
		return r.readContent(parts, last)
	case inName:
		return r.readName(parts, last)
	case inCall:
		return r.readCall(parts)
	case afterCall:
		return r.readBetween(parts)
	}
	return parts
}

// readStart reads the start of a turn: thoughts, or else content or a call.
func (r *Reader) readStart(parts []Part, last bool) []Part {
	text := strings.TrimLeft(r.held, " \n\t\r")
	switch {
	case r.Thinks && strings.HasPrefix(text, ThinkOpen):
		r.held, r.at = text[len(ThinkOpen):], inThoughts
	case !last && (text == "" || r.Thinks && strings.HasPrefix(ThinkOpen, text)):
	default:
		return r.readContentStart(parts, last)
	}
	return parts
}

// readContentStart reads the start of the content. A notation without tags allows calls only there.
func (r *Reader) readContentStart(parts []Part, last bool) []Part {
	if !r.Notation.Calls || r.Open != "" {
		r.at = inContent
		return r.readContent(parts, last)
	}
	text := strings.TrimLeft(r.held, " \n\t\r")
	switch {
	case strings.HasPrefix(text, "{"), r.Prefix != "" && strings.HasPrefix(text, r.Prefix):
		r.startCall(strings.TrimPrefix(text, r.Prefix), r.held[:len(r.held)-len(strings.TrimPrefix(text, r.Prefix))])
	case !last && strings.HasPrefix(r.Prefix, text): // the rest of the prefix may follow
	default:
		r.at = inContent
		return r.readContent(parts, last)
	}
	return parts
}

// startCall starts a call: text is unread, before was read and belongs to the call.
func (r *Reader) startCall(text, before string) {
	r.held, r.raw, r.call, r.at = text, []byte(before), newCall(r.ArgKeys...), inCall
}

// readThoughts returns thoughts without the line ends around them.
func (r *Reader) readThoughts(parts []Part, last bool) []Part {
	before, after, found := strings.Cut(r.held, ThinkClose)
	switch {
	case found:
		r.held, r.at = after, afterTag
		before = strings.TrimRight(before, "\n")
	case last:
		r.held = ""
	default:
		keep := len(strings.TrimRight(before[:len(before)-partialTag(before, ThinkClose)], "\n"))
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

// readContent returns content up to a call, without the space before the call.
func (r *Reader) readContent(parts []Part, last bool) []Part {
	if !r.Notation.Calls || r.Open == "" {
		text := r.held
		r.held = ""
		return r.appendContent(parts, text)
	}
	before, after, found := strings.Cut(r.held, r.Open)
	switch {
	case found:
		content := strings.TrimRight(before, " \n\t\r")
		parts = r.appendContent(parts, content)
		r.startCall(after, before[len(content):]+r.Open)
		if r.call.inList = r.List; r.List {
			r.at = inName
		}
		return parts
	case last:
		r.held = ""
		return r.appendContent(parts, before)
	}
	keep := len(strings.TrimRight(before[:len(before)-partialTag(before, r.Open)], " \n\t\r"))
	r.held = before[keep:]
	return r.appendContent(parts, before[:keep])
}

func (r *Reader) appendContent(parts []Part, text string) []Part {
	if text == "" {
		return parts
	}
	r.spoken = true
	return append(parts, Part{Content: text})
}

// readCall reads more of a call.
func (r *Reader) readCall(parts []Part) []Part {
	taken := r.call.push(r.held)
	r.raw = append(r.raw, r.held[:taken]...)
	r.held = r.held[taken:]
	if arguments, first := r.call.newArguments(); first || arguments != "" {
		p := Part{Call: r.calls, Arguments: arguments, IsCall: true}
		if first {
			p.Name = r.call.name
		}
		parts = append(parts, p)
	}
	switch {
	case r.call.broken && !r.call.announceable: // not a call after all
		text := string(r.raw)
		r.at, r.call, r.raw = inContent, nil, nil
		return r.appendContent(parts, text)
	case r.call.complete || r.call.broken:
		if r.call.broken {
			r.noteMalformed()
		}
		r.calls++
		if r.at, r.raw = afterCall, nil; r.call.bare {
			r.at = afterTag
		}
	}
	return parts
}

// noteMalformed records that the current call is malformed, though it was announced.
func (r *Reader) noteMalformed() {
	if r.broken == nil {
		r.broken = map[int]string{}
	}
	r.broken[r.calls] = string(r.raw)
}

// readBetween skips what separates a call from the next: the closing tag, separators and space.
func (r *Reader) readBetween(parts []Part) []Part {
	if r.List {
		switch r.held = strings.TrimLeft(r.held, " \n\t\r,"); {
		case strings.HasPrefix(r.held, "{"):
			r.startCall(r.held, "")
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
			r.startCall(r.held, "")
		case r.held != "":
			r.at = inContent
		}
		return parts
	}
	if _, after, found := strings.Cut(r.held, r.Close); found {
		r.held, r.at = after, afterTag
		return parts
	}
	r.held = r.held[len(r.held)-partialTag(r.held, r.Close):]
	return parts
}

// partialTag is the length of the longest proper prefix of a tag that the text ends with.
func partialTag(text, tag string) int {
	for n := min(len(tag)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}

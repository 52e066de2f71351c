package tools

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Form is a format of a trace.
type Form string

const (
	LinesForm Form = "lines" // the lines of the program, with what each changed as a comment
	TableForm Form = "table" // the same as a table in Markdown
	StoryForm Form = "story" // sentences
)

func (f Form) check() error {
	if f != LinesForm && f != TableForm && f != StoryForm {
		return badinput.Errorf("tools: found the form %q of a trace, expected lines, table or story", string(f))
	}
	return nil
}

// Text is the trace in at most the given number of bytes, with as much detail of loops and calls as fits.
func (t *Trace) Text(form Form, most int) string {
	end := t.Ended
	if t.Output != "" {
		end += "\nIt printed:\n" + fit(steady(strings.TrimRight(t.Output, "\n")), most/4)
	} else if t.Lines > 0 {
		end += "\nIt printed nothing."
	}
	end = fit(end, most/2)
	room := most - len(end) - 1
	text := ""
	for _, d := range details {
		var b strings.Builder
		for i, s := range t.folded(d) {
			if b.Len() > 4*most+10_000 {
				break // with less detail
			}
			write(&b, form, i, s)
		}
		if text = b.String(); len(text) <= room {
			break
		}
	}
	return block(fit(text, room)) + end
}

func write(b *strings.Builder, form Form, i int, s Step) {
	switch form {
	case TableForm:
		if i == 0 {
			b.WriteString("| line | code | what it did |\n|---|---|---|\n")
		}
		cell := func(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
		number := ""
		if s.Line > 0 {
			number = fmt.Sprint(s.Line)
		}
		fmt.Fprintf(b, "| %s | %s%s | %s |\n", number, strings.Repeat("· ", s.Depth), cell(strings.TrimSpace(s.Code)), cell(s.did()))
	case StoryForm:
		fmt.Fprintf(b, "%s%s\n", strings.Repeat("  ", s.Depth), s.sentence())
	default:
		writeLine(b, s)
	}
}

// writeLine writes a step as a line of the program, with what it did as a comment.
func writeLine(b *strings.Builder, s Step) {
	indent := strings.Repeat("  ", s.Depth)
	switch did := s.did(); {
	case s.Kind == Line && did == "":
		fmt.Fprintf(b, "%4d | %s%s\n", s.Line, indent, s.Code)
	case s.Kind == Line, s.Kind == After:
		fmt.Fprintf(b, "%4d | %-36s # %s\n", s.Line, indent+s.Code, did)
	default:
		fmt.Fprintf(b, "     | %s# %s\n", indent, did)
	}
}

// did is a short description of what a step did.
func (s Step) did() string {
	switch s.Kind {
	case Call:
		return fmt.Sprintf("call %s(%s)", s.Name, arguments(s.Changes))
	case Resume:
		return s.Name + " goes on"
	case Return:
		return "return " + s.Value
	case Yield:
		return "yield " + s.Value
	case Raise:
		return "raises " + s.Value
	case Leave:
		return "left by the exception"
	case Skip:
		return s.skipped()
	}
	var parts []string
	for _, c := range s.Changes {
		switch {
		case c.New == "":
			parts = append(parts, c.Name)
		case c.Old != "":
			parts = append(parts, fmt.Sprintf("%s = %s (was %s)", c.Name, c.New, c.Old))
		default:
			parts = append(parts, c.Name+" = "+c.New)
		}
	}
	return strings.Join(parts, "; ")
}

func arguments(changes []Change) string {
	var parts []string
	for _, c := range changes {
		parts = append(parts, c.Name+"="+c.New)
	}
	return strings.Join(parts, ", ")
}

func (s Step) skipped() string {
	if s.Name == "rounds" {
		return fmt.Sprintf("… × %d more rounds of the loop in line %d", s.Count, s.Line)
	}
	return fmt.Sprintf("… × %d more %s", s.Count, s.Name)
}

// sentence is a step in StoryForm.
func (s Step) sentence() string {
	did, code := s.did(), strings.TrimSpace(s.Code)
	switch s.Kind {
	case Line:
		if did == "" {
			return fmt.Sprintf("Line %d runs `%s`.", s.Line, code)
		}
		return fmt.Sprintf("Line %d runs `%s`. Now %s.", s.Line, code, did)
	case After:
		return fmt.Sprintf("Line %d is done. Now %s.", s.Line, did)
	case Call:
		return fmt.Sprintf("%s is called with %s.", s.Name, orNothing(arguments(s.Changes)))
	case Return:
		return "It returns " + s.Value + "."
	case Yield:
		return "It yields " + s.Value + "."
	case Raise:
		return fmt.Sprintf("Line %d %s.", s.Line, did)
	case Leave:
		return "It is left by the exception."
	}
	return did + "."
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

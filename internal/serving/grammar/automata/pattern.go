package automata

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// FullMatch is the automaton of texts that match a pattern from beginning to end.
func FullMatch(b *Budget, pattern string) (*Automaton, error) {
	return compilePattern(b, "", pattern, "")
}

// Containing is the automaton of texts in which a pattern matches somewhere, as JSON Schema requires.
func Containing(b *Budget, pattern string) (*Automaton, error) {
	return compilePattern(b, "(?s:.*)(?:", pattern, ")(?s:.*)")
}

// longestPattern is in bytes, as the cost of a state grows with it.
const longestPattern = 16 << 10

// compilePattern compiles a pattern in the syntax of package regexp, with \uXXXX, \s and \S as in ECMA-262. The dot matches no
// line ends, those of both languages.
func compilePattern(b *Budget, before, pattern, after string) (*Automaton, error) {
	if len(pattern) > longestPattern {
		return nil, badinput.Errorf("the pattern %q has %d bytes, expected at most %d", Truncate(pattern), len(pattern), longestPattern)
	}
	text, err := translated(pattern)
	if err != nil {
		return nil, badinput.Errorf("the pattern %q has %w", Truncate(pattern), err)
	}
	if _, err := syntax.Parse(text, syntax.Perl); err != nil { // by itself first, as it must not close the group around it
		return nil, badinput.Errorf("the pattern %q: %w", Truncate(pattern), err)
	}
	parsed, err := syntax.Parse(before+text+after, syntax.Perl)
	if err != nil {
		return nil, badinput.Errorf("the pattern %q: %w", Truncate(pattern), err)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, badinput.Errorf("the pattern %q: %w", Truncate(pattern), err)
	}
	p := &patterns{prog: prog, budget: b, ranges: make([][]rune, len(prog.Inst)), seen: make([]int, len(prog.Inst))}
	if err := p.findRanges(); err != nil {
		return nil, badinput.Errorf("the pattern %q has %w", Truncate(pattern), err)
	}
	a, err := explore(b, p.closure([]uint32{uint32(prog.Start)}, syntax.EmptyBeginText), p.edges)
	if err != nil {
		return nil, badinput.Errorf("the pattern %q: %w", Truncate(pattern), err)
	}
	return a, nil
}

// The white space of ECMA-262, of which package syntax has only a part, and its complement, as content of a class.
const (
	spaces = `\s\v\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}\s` // \s at the end, as a hyphen may follow
	others = `\x00-\x08\x0E-\x1F!-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}` +
		`\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}`
)

// translated rewrites \uXXXX, \s and \S of ECMA-262 for package syntax.
func translated(pattern string) (string, error) {
	var out strings.Builder
	class := false // within brackets
	for text := pattern; text != ""; {
		piece := text[:1]
		size := 1
		switch {
		case text[0] == '\\' && len(text) >= 6 && text[1] == 'u':
			size, piece = 6, `\x{`+text[2:6]+`}`
		case strings.HasPrefix(text, `\s`), strings.HasPrefix(text, `\S`):
			size, piece = 2, spaces
			if text[1] == 'S' {
				piece = others
			}
			if !class {
				piece = "[" + piece + "]"
			}
		case text[0] == '\\' && len(text) > 1:
			size, piece = 2, text[:2]
		case class && strings.HasPrefix(text, "[:") && strings.Contains(text[2:], ":]"):
			size = strings.Index(text[2:], ":]") + 4
			piece = text[:size]
		case class:
			class = text[0] != ']'
		case text[0] == '[':
			if class = true; strings.HasPrefix(text, "[]") || strings.HasPrefix(text, "[^]") {
				return "", badinput.Errorf(`[] or [^], which not everybody reads alike; write [\s\S] for any character, and \] for a bracket`)
			}
		}
		out.WriteString(piece)
		text = text[size:]
	}
	return out.String(), nil
}

// patterns builds an automaton whose states are sets of instructions, as strings.
type patterns struct {
	prog   *syntax.Prog
	ranges [][]rune // by instruction: the characters that it reads, as pairs
	budget *Budget
	seen   []int // by instruction: the closure that last reached it
	number int
}

func (p *patterns) findRanges() error {
	for i, in := range p.prog.Inst {
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1:
			p.ranges[i] = in.Rune
			if len(in.Rune) == 1 {
				p.ranges[i] = foldings(in.Rune[0], syntax.Flags(in.Arg)&syntax.FoldCase != 0)
			}
		case syntax.InstRuneAny:
			p.ranges[i] = []rune{0, utf8.MaxRune}
		case syntax.InstRuneAnyNotNL:
			p.ranges[i] = []rune{0, '\n' - 1, '\n' + 1, '\r' - 1, '\r' + 1, 0x2027, 0x202A, utf8.MaxRune}
		case syntax.InstEmptyWidth:
			if op := syntax.EmptyOp(in.Arg); op&^(syntax.EmptyBeginText|syntax.EmptyEndText) != 0 {
				return badinput.Errorf(`\b, \B or (?m), which are not supported in patterns`)
			}
		}
	}
	return nil
}

// foldings are the letters that are equal if case is ignored.
func foldings(r rune, fold bool) []rune {
	all := []rune{r}
	if fold {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			all = append(all, f)
		}
		slices.Sort(all)
	}
	var pairs []rune
	for _, f := range all {
		pairs = append(pairs, f, f)
	}
	return pairs
}

// closure is the set of instructions that are reached without reading, as a key: those that read a character, those that
// require the end of the text, and the match.
func (p *patterns) closure(from []uint32, holds syntax.EmptyOp) string {
	var reached []uint32
	p.number++
	for stack := from; len(stack) > 0; p.budget.spend(1) {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if p.seen[at] == p.number {
			continue
		}
		p.seen[at] = p.number
		switch in := &p.prog.Inst[at]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, in.Arg, in.Out)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, in.Out)
		case syntax.InstEmptyWidth:
			needs := syntax.EmptyOp(in.Arg)
			if needs&^holds == 0 {
				stack = append(stack, in.Out)
			} else if needs&syntax.EmptyBeginText&^holds == 0 {
				reached = append(reached, at)
			}
		case syntax.InstFail:
		default:
			reached = append(reached, at)
		}
	}
	p.budget.spend(Budget(len(p.prog.Inst) / 16))
	slices.Sort(reached)
	key := make([]byte, 0, 4*len(reached))
	for _, at := range reached {
		key = binary.LittleEndian.AppendUint32(key, at)
	}
	return string(key)
}

func instructions(key string) []uint32 {
	list := make([]uint32, len(key)/4)
	for i := range list {
		list[i] = binary.LittleEndian.Uint32([]byte(key[4*i:]))
	}
	return list
}

// ends reports whether the text may end at a set.
func (p *patterns) ends(set []uint32) bool {
	for _, at := range instructions(p.closure(slices.Clone(set), syntax.EmptyEndText)) {
		if p.prog.Inst[at].Op == syntax.InstMatch {
			return true
		}
	}
	return false
}

// edges divides the characters into ranges that are read by the same instructions.
func (p *patterns) edges(at string, emit func(lo, hi rune, to string)) bool {
	set := instructions(at)
	classes := map[*rune][]uint32{} // instructions by the characters they read: copies of a repeated one share these
	for _, in := range set {
		if r := p.ranges[in]; len(r) > 0 {
			classes[&r[0]] = append(classes[&r[0]], in)
		}
	}
	var cuts []rune
	for _, of := range classes {
		for i, r := range p.ranges[of[0]] {
			cuts = append(cuts, r+rune(i&1))
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	if !p.budget.spend(Budget(len(cuts) * (len(classes) + 1) * 8)) {
		return false
	}
	known := map[string]string{} // the target sets, by the instructions that read
	for i := 0; i+1 < len(cuts); i++ {
		var out []uint32
		for _, of := range classes {
			if !takesRune(p.ranges[of[0]], cuts[i]) {
				continue
			}
			for _, in := range of {
				out = append(out, p.prog.Inst[in].Out)
			}
		}
		p.budget.spend(Budget(len(out)))
		slices.Sort(out)
		if len(out) == 0 {
			continue
		}
		by := make([]byte, 0, 4*len(out))
		for _, in := range out {
			by = binary.LittleEndian.AppendUint32(by, in)
		}
		to, ok := known[string(by)]
		if !ok {
			to = p.closure(out, 0)
			known[string(by)] = to
		}
		emit(cuts[i], cuts[i+1]-1, to)
	}
	return p.ends(set)
}

func takesRune(ranges []rune, r rune) bool {
	i, _ := slices.BinarySearch(ranges, r)
	if i&1 == 1 || i < len(ranges) && ranges[i] == r {
		return true // inside a range, or one of its ends
	}
	return false
}

// Truncate shortens a text for quoting it in an error.
func Truncate(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

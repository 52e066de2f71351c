package ptxcheck

import (
	"fmt"
	"math/bits"
	"regexp"
	"strings"
)

// instruction is an instruction of a kernel, in the order of the text.
type instruction struct {
	op         string
	writes     []string
	reads      []string
	next       []int // possible successors
	predicated bool
}

var (
	label      = regexp.MustCompile(`^\s*(\$?\w+):`)
	register   = regexp.MustCompile(`%[a-z]+\d+`)
	predicate  = regexp.MustCompile(`^@!?(%p\d+)\s+`)
	writesNone = regexp.MustCompile(`^(st|bra|bar|barrier|ret|exit|cp|red|membar|fence|prefetch|trap)\b`)
)

// instructions reads the body of a kernel.
func instructions(body string) ([]instruction, error) {
	var code []instruction
	places, jumps := map[string]int{}, map[int]string{}
	for statement := range strings.SplitSeq(body, ";") {
		statement = strings.TrimLeft(statement, " \t\n{}")
		for at := label.FindStringSubmatch(statement); at != nil; at = label.FindStringSubmatch(statement) {
			places[at[1]] = len(code)
			statement = strings.TrimLeft(statement[len(at[0]):], " \t\n{}")
		}
		if statement == "" || statement[0] == '.' {
			continue // a declaration
		}
		i, target := parse(statement)
		if target != "" {
			jumps[len(code)] = target
		}
		code = append(code, i)
	}
	for n := range code {
		i := &code[n]
		ends := i.op == "ret" || i.op == "exit" || strings.HasPrefix(i.op, "bra")
		if n+1 < len(code) && (!ends || i.predicated) {
			i.next = append(i.next, n+1)
		}
		if to := jumps[n]; to != "" {
			place, ok := places[to]
			if !ok || place == len(code) {
				return nil, fmt.Errorf("a jump to %s, which is not there", to)
			}
			i.next = append(i.next, place)
		}
	}
	return code, nil
}

// parse reads one instruction, and its jump target.
func parse(statement string) (i instruction, target string) {
	if p := predicate.FindStringSubmatch(statement); p != nil {
		i.predicated, i.reads = true, p[1:]
		statement = statement[len(p[0]):]
	}
	op, operands, _ := strings.Cut(strings.ReplaceAll(statement, "\t", " ")+" ", " ")
	i.op = op
	if strings.HasPrefix(op, "bra") {
		return i, strings.TrimSpace(operands)
	}
	if writesNone.MatchString(op) {
		i.reads = append(i.reads, register.FindAllString(operands, -1)...)
		return i, ""
	}
	first := operandEnd(operands)
	i.writes = register.FindAllString(operands[:first], -1)
	i.reads = append(i.reads, register.FindAllString(operands[first:], -1)...)
	if i.predicated { // the old value may remain
		i.reads = append(i.reads, i.writes...)
	}
	return i, ""
}

// operandEnd is the end of the first operand, which may be a vector in braces.
func operandEnd(operands string) int {
	depth := 0
	for n, c := range operands {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth == 0 {
				return n
			}
		}
	}
	return len(operands)
}

// set is a set of registers, by number.
type set []uint64

func (s set) add(n int)    { s[n/64] |= 1 << (n % 64) }
func (s set) remove(n int) { s[n/64] &^= 1 << (n % 64) }

// union adds another set, and reports whether s has grown.
func (s set) union(other set) (grown bool) {
	for n, word := range other {
		grown = grown || word&^s[n] != 0
		s[n] |= word
	}
	return grown
}

// maxLive is the largest number of 32-bit registers live at once, by the usual backward data-flow analysis to a fixed point.
func maxLive(code []instruction) int {
	numbers, names := map[string]int{}, []string{}
	number := func(name string) int {
		n, ok := numbers[name]
		if !ok {
			n = len(names)
			numbers[name], names = n, append(names, name)
		}
		return n
	}
	for _, i := range code {
		for _, r := range append(i.writes, i.reads...) {
			number(r)
		}
	}
	before := make([]set, len(code)) // live before each instruction
	for n := range before {
		before[n] = make(set, len(names)/64+1)
	}
	live := make(set, len(names)/64+1)
	most := 0
	for changed := true; changed; {
		changed, most = false, 0
		for n := len(code) - 1; n >= 0; n-- {
			i := code[n]
			clear(live)
			for _, next := range i.next {
				live.union(before[next])
			}
			for _, r := range i.writes {
				live.add(number(r)) // a result needs a register even if nothing reads it
			}
			most = max(most, live.weight(names))
			for _, r := range i.writes {
				live.remove(number(r))
			}
			for _, r := range i.reads {
				live.add(number(r))
			}
			most = max(most, live.weight(names))
			changed = before[n].union(live) || changed
		}
	}
	return most
}

// weight counts 32 bits for each register, 64 for addresses and double precision, and none for predicates.
func (s set) weight(names []string) (sum int) {
	for n, word := range s {
		for ; word != 0; word &= word - 1 {
			switch name := names[n*64+bits.TrailingZeros64(word)]; {
			case strings.HasPrefix(name, "%rd"), strings.HasPrefix(name, "%fd"):
				sum += 2
			case !strings.HasPrefix(name, "%p"):
				sum++
			}
		}
	}
	return sum
}

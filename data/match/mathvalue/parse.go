package mathvalue

import (
	"slices"
	"strings"
)

// parser reads an expression by recursive descent.
type parser struct {
	tokens []string
	at     int
	deep   int
	bars   bool // the next | is the end of |x|
	failed bool
}

// parse parses a whole text.
func parse(s string) (*node, bool) {
	tokens, ok := lex(s)
	if !ok || len(tokens) == 0 {
		return nil, false
	}
	p := &parser{tokens: tokens}
	n := p.answer()
	return n, !p.failed && p.at == len(p.tokens)
}

func (p *parser) peek() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return ""
}

func (p *parser) take(token string) bool {
	if p.peek() != token {
		return false
	}
	p.at++
	return true
}

func (p *parser) need(token string) {
	if !p.take(token) {
		p.failed = true
	}
}

// answer parses a list of relations, which may be a single one.
func (p *parser) answer() *node {
	var items []*node
	for {
		items = append(items, p.relation())
		if p.failed || !p.take(",") {
			break
		}
	}
	if !slices.ContainsFunc(items, func(n *node) bool { return n.name != items[0].name }) {
		for _, n := range items {
			n.name = "" // x = 1, x = 2 equals 1, 2
		}
	}
	if len(items) == 1 {
		return items[0]
	}
	return &node{kind: collection, args: items}
}

// relation parses x = 5 as 5 with the name x, x ≥ 2 and 1 < x ≤ 2 as intervals, x ∈ S as S, and equations between expressions.
func (p *parser) relation() *node {
	first := p.union()
	op := p.peek()
	if infix(op) {
		p.at++
		return &node{kind: call, text: op, args: []*node{first, p.nested(p.relation)}}
	}
	if !isRelation(op) {
		return first
	}
	p.at++
	second := p.union()
	if op == "=" || op == "∈" {
		for p.take("=") { // x = 10/4 = 5/2: the last is the answer
			second = p.union()
		}
		if name, ok := named(first); ok {
			second.name = name
			return second
		}
		if name, ok := named(second); ok && op == "=" { // 5 = x
			first.name = name
			return first
		}
		return &node{kind: call, text: op, args: []*node{first, second}}
	}
	if op2 := p.peek(); isRelation(op2) && second.kind == variable && rising(op2) == rising(op) {
		p.at++
		third := p.union()
		if rising(op) {
			return interval(second.text, first, op, third, op2)
		}
		return interval(second.text, third, op2, first, op)
	}
	if second.kind == variable && first.kind != variable { // 2 < x is x > 2
		first, second, op = second, first, mirrored[op]
	}
	switch {
	case first.kind == variable && rising(op):
		return interval(first.text, &node{kind: negative, args: []*node{{kind: infinity}}}, "<", second, op)
	case first.kind == variable:
		return interval(first.text, second, op, &node{kind: infinity}, "<")
	}
	p.failed = true
	return first
}

var mirrored = map[string]string{"<": ">", ">": "<", "≤": "≥", "≥": "≤"}

func isRelation(op string) bool {
	return slices.Contains([]string{"=", "∈", "<", ">", "≤", "≥"}, op)
}

// infix reports whether a token is an operator that is not evaluated: 1:2, a \equiv b. Its operands are compared in order.
func infix(op string) bool {
	switch strings.TrimPrefix(op, `\`) {
	case ":", "circ", "choose", "setminus", "cap", "wedge", "vee", "land", "lor", "to", "rightarrow", "Rightarrow", "leftarrow", "implies",
		"iff", "mapsto", "equiv", "mod", "bmod", "pmod", "ne", "approx", "sim", "cong", "mid", "nmid", "notin", "subset", "subseteq",
		"supset", "supseteq", "perp", "parallel", "colon":
		return op == ":" || op[0] == '\\'
	}
	return false
}

func rising(op string) bool { return op == "<" || op == "≤" }

// named reports whether the left side of an equation is a name: x, f(x), or (x, y), for which name is "".
func named(n *node) (name string, ok bool) {
	switch {
	case n.kind == variable:
		return n.text, true
	case n.kind == product && n.args[0].kind == variable && n.args[1].kind == variable:
		return n.args[0].text, true
	}
	return "", n.kind == collection && n.text == "()" && !slices.ContainsFunc(n.args, func(a *node) bool { return a.kind != variable })
}

// interval makes the interval low op name op2 high; ≤ and ≥ close an end.
func interval(name string, low *node, op string, high *node, op2 string) *node {
	open, shut := "(", ")"
	if op == "≤" || op == "≥" {
		open = "["
	}
	if op2 == "≤" || op2 == "≥" {
		shut = "]"
	}
	return &node{kind: collection, text: open + shut, args: []*node{low, high}, name: name}
}

func (p *parser) union() *node {
	first := p.sum()
	if p.peek() != "∪" {
		return first
	}
	n := &node{kind: union, args: []*node{first}}
	for p.take("∪") {
		n.args = append(n.args, p.sum())
	}
	return n
}

func (p *parser) sum() *node {
	if p.deep++; p.deep > depth {
		p.failed = true
	}
	defer func() { p.deep-- }()
	n := p.term()
	for !p.failed {
		switch {
		case p.take("+"):
			n = &node{kind: sum, args: []*node{n, p.term()}}
		case p.take("-"):
			n = &node{kind: sum, args: []*node{n, {kind: negative, args: []*node{p.term()}}}}
		case p.take("±"):
			t := p.term()
			n = &node{kind: plusMinus, args: []*node{{kind: sum, args: []*node{n, t}},
				{kind: sum, args: []*node{n, {kind: negative, args: []*node{t}}}}}}
		default:
			return n
		}
	}
	return n
}

// term parses factors with *, / or nothing between them.
func (p *parser) term() *node {
	n := p.signed()
	for !p.failed {
		switch next := p.peek(); {
		case p.take("*"):
			n = &node{kind: product, args: []*node{n, p.signed()}}
		case p.take("/"):
			n = &node{kind: quotient, args: []*node{n, p.signed()}}
		case p.beginsFactor(next):
			n = &node{kind: product, args: []*node{n, p.factor()}}
		default:
			return n
		}
	}
	return n
}

// factor parses a power or a mixed number: 3 1/2, 3\frac12. Any other two adjacent numbers are an error.
func (p *parser) factor() *node {
	counted := p.atNumber()
	n := p.power()
	if !counted || n.kind != number {
		return n
	}
	switch {
	case p.atNumber():
		if over := p.atom(); over.kind == number && p.take("/") {
			return p.postfix(&node{kind: sum, args: []*node{n, {kind: quotient, args: []*node{over, p.atom()}}}})
		}
		p.failed = true
	case p.peek() == `\frac`:
		beside := p.atom()
		if !strings.Contains(n.text, ".") && fractionOfNumbers(beside) {
			return p.postfix(&node{kind: sum, args: []*node{n, beside}})
		}
		return &node{kind: product, args: []*node{n, p.postfix(beside)}}
	}
	return n
}

// atNumber reports whether the next token is a number.
func (p *parser) atNumber() bool {
	next := p.peek()
	return next != "" && (digit(next[0]) || next[0] == '.')
}

func fractionOfNumbers(n *node) bool {
	return n.kind == quotient && n.text == "frac" && n.args[0].kind == number && n.args[1].kind == number
}

func (p *parser) signed() *node {
	switch {
	case p.take("-"):
		return &node{kind: negative, args: []*node{p.nested(p.signed)}}
	case p.take("+"):
		return p.nested(p.signed)
	case p.take("±"):
		n := p.nested(p.signed)
		return &node{kind: plusMinus, args: []*node{n, {kind: negative, args: []*node{n}}}}
	}
	return p.factor()
}

func (p *parser) nested(f func() *node) *node {
	if p.deep++; p.deep > depth {
		p.failed = true
		return &node{}
	}
	defer func() { p.deep-- }()
	return f()
}

func (p *parser) power() *node { return p.postfix(p.atom()) }

// postfix parses the postfix operators of n: !, %, ° and ^.
func (p *parser) postfix(n *node) *node {
	for !p.failed {
		switch {
		case p.take("!"):
			n = &node{kind: factorial, args: []*node{n}}
		case p.take("%"):
			n = &node{kind: percentage, args: []*node{n}}
		case p.take("°"):
			half := &node{kind: number, text: "180"}
			n = &node{kind: product, args: []*node{n, {kind: quotient, args: []*node{{kind: call, text: "pi"}, half}}}}
		case p.take("^"):
			n = &node{kind: power, args: []*node{n, p.nested(p.exponent)}}
		default:
			return n
		}
	}
	return n
}

func (p *parser) exponent() *node {
	if p.take("-") {
		return &node{kind: negative, args: []*node{p.nested(p.exponent)}}
	}
	return p.power()
}

package mathvalue

import (
	"slices"
	"strings"
)

// beginsFactor reports whether a token may begin a factor.
func (p *parser) beginsFactor(token string) bool {
	if token == "" || token == "|" && p.bars || infix(token) {
		return false
	}
	return digit(token[0]) || token[0] == '.' || letter(token[0]) ||
		slices.Contains([]string{"(", "[", "{", "⦃", "π", "∞", "|", "⌊", "⌈"}, token) ||
		token[0] == '\\' && token != `\end` && token != `\\`
}

// atom parses an operand: a number, a variable, a function with its argument, or something in brackets.
func (p *parser) atom() *node {
	token := p.peek()
	if token == "" {
		p.failed = true
		return &node{}
	}
	p.at++
	switch {
	case (digit(token[0]) || token[0] == '.') && p.peek() == "_": // 101_2 is in base 2
		return p.index(&node{kind: variable, text: token})
	case digit(token[0]) || token[0] == '.':
		return &node{kind: number, text: token}
	case token == "π":
		return &node{kind: call, text: "pi"}
	case token == "∞":
		return &node{kind: infinity}
	case token == "(" || token == "[":
		return p.bracketed(token)
	case token == "{":
		n := p.nested(p.answer)
		p.need("}")
		return n
	case token == "⦃":
		return p.set()
	case token == "|":
		return p.between("abs", "|")
	case token == "⌊":
		return p.between("floor", "⌋")
	case token == "⌈":
		return p.between("ceil", "⌉")
	case token[0] == '\\':
		return p.command(token[1:])
	case letter(token[0]):
		return p.word(token)
	}
	p.failed = true
	return &node{}
}

func (p *parser) between(function, end string) *node {
	outside := p.bars
	p.bars = end == "|"
	n := &node{kind: call, text: function, args: []*node{p.nested(p.sum)}}
	p.bars = outside
	p.need(end)
	return n
}

// bracketed parses a parenthesised expression, a tuple or an interval.
func (p *parser) bracketed(open string) *node {
	inside := p.nested(p.answer)
	shut := p.peek()
	if shut != ")" && shut != "]" {
		p.failed = true
		return inside
	}
	p.at++
	if inside.kind == collection && inside.text == "" {
		return &node{kind: collection, text: open + shut, args: inside.args}
	}
	if open == "(" && shut == ")" || open == "[" && shut == "]" {
		return inside
	}
	p.failed = true
	return inside
}

func (p *parser) set() *node {
	n := &node{kind: collection, text: "⦃⦄"}
	if p.take("⦄") {
		return n
	}
	inside := p.nested(p.answer)
	p.need("⦄")
	if inside.kind == collection && inside.text == "" {
		n.args = inside.args
	} else {
		n.args = []*node{inside}
	}
	return n
}

// command parses a LaTeX command after its backslash.
func (p *parser) command(name string) *node {
	switch name {
	case "frac":
		over, under := p.braced(), p.braced()
		return &node{kind: quotient, text: "frac", args: []*node{over, under}}
	case "binom", "dbinom", "tbinom":
		n, k := p.braced(), p.braced()
		return &node{kind: call, text: "binom", args: []*node{n, k}}
	case "sqrt":
		return p.root()
	case "begin":
		return p.matrix()
	case "boxed", "fbox":
		return p.braced()
	}
	if _, ok := functions[name]; ok || name == "log" {
		return p.function(name)
	}
	if name == "inf" || name == "infinity" {
		return &node{kind: infinity}
	}
	return p.index(&node{kind: variable, text: name}) // \alpha and the like
}

// braced parses the argument of a command: {…}, or a single digit or atom as in \frac12 and \sqrt x.
func (p *parser) braced() *node {
	if p.take("{") {
		n := p.nested(p.answer)
		p.need("}")
		return n
	}
	if t := p.peek(); len(t) > 1 && digit(t[0]) { // the argument is the first digit only
		p.tokens[p.at] = t[1:]
		return &node{kind: number, text: t[:1]}
	}
	return p.nested(p.atom)
}

func (p *parser) root() *node {
	degree := &node{kind: number, text: "2"}
	if p.take("[") {
		degree = p.nested(p.sum)
		p.need("]")
	}
	one := &node{kind: number, text: "1"}
	return &node{kind: power, args: []*node{p.braced(), {kind: quotient, args: []*node{one, degree}}}}
}

// function parses what follows the name of a function: sin x, sin(x), sin^2 x, log_2 8.
func (p *parser) function(name string) *node {
	n := &node{kind: call, text: name}
	if name == "pi" {
		return n
	}
	var base, raised *node
	if name == "log" && p.take("_") {
		base = p.braced()
	}
	if p.take("^") {
		raised = p.nested(p.exponent)
	}
	if p.take("(") {
		inside := p.nested(p.answer)
		p.need(")")
		if n.args = []*node{inside}; inside.kind == collection && inside.text == "" {
			n.args = inside.args
		}
	} else {
		n.args = []*node{p.argument()}
	}
	if inverse := "arc" + name; raised != nil && isMinusOne(raised) && known(inverse) { // sin^{-1} is the inverse
		n.text, raised = inverse, nil
	}
	if base != nil {
		n.args = append(n.args, base)
	}
	if raised != nil {
		return &node{kind: power, args: []*node{n, raised}}
	}
	return n
}

func isMinusOne(n *node) bool {
	return n.kind == negative && n.args[0].kind == number && n.args[0].text == "1"
}

// argument parses the argument of a function without brackets: x of sin x, and all of 2x and xy in sin 2x and sin xy.
func (p *parser) argument() *node {
	word := p.peek()
	n := p.nested(p.power)
	counted := n.kind == number
	for !p.failed && p.peek() != "" {
		next := p.peek()
		if !(counted && p.variable(next)) && !(word != next && letter(word[0]) && !known(word) && strings.HasSuffix(word, next)) {
			break
		}
		word = next
		n = &node{kind: product, args: []*node{n, p.nested(p.power)}}
	}
	return n
}

// variable reports whether the next token is a variable; e before ^ is Euler's number.
func (p *parser) variable(token string) bool {
	switch {
	case letter(token[0]):
		return !known(token) && !(token == "e" && p.at+1 < len(p.tokens) && p.tokens[p.at+1] == "^")
	case token[0] == '\\':
		return !known(token[1:]) &&
			!slices.Contains([]string{`\\`, `\frac`, `\binom`, `\dbinom`, `\tbinom`, `\begin`, `\end`, `\boxed`, `\fbox`}, token)
	}
	return token == "π"
}

// word parses a function, a constant, or the first of several adjacent variables.
func (p *parser) word(word string) *node {
	switch {
	case word == "sqrt":
		return p.root()
	case word == "inf" || word == "infinity" || word == "oo":
		return &node{kind: infinity}
	case known(word):
		return p.function(word)
	}
	if len(word) > 1 { // leave the others for later factors: in xy^2 the exponent belongs to y
		p.at--
		p.tokens[p.at] = word[1:]
	}
	return p.index(&node{kind: variable, text: word[:1]})
}

// index appends a subscript to the name of a variable: x_1.
func (p *parser) index(n *node) *node {
	if n.kind != variable || !p.take("_") {
		return n
	}
	from := p.at
	p.braced()
	n.text += "_" + strings.Trim(strings.Join(p.tokens[min(from, len(p.tokens)):min(p.at, len(p.tokens))], ""), "{}")
	return n
}

// matrix parses \begin{pmatrix} a & b \\ c & d \end{pmatrix}; all kinds of brackets are equal.
func (p *parser) matrix() *node {
	p.environment()
	n := &node{kind: matrix}
	row := &node{kind: collection}
	for !p.failed {
		row.args = append(row.args, p.nested(p.sum))
		switch {
		case p.take("&"):
			continue
		case p.take(`\\`):
			n.args, row = append(n.args, row), &node{kind: collection}
			if p.peek() != `\end` {
				continue
			}
		default:
			n.args = append(n.args, row)
		}
		p.need(`\end`)
		p.environment()
		return n
	}
	return n
}

func (p *parser) environment() {
	p.need("{")
	switch p.peek() {
	case "matrix", "pmatrix", "bmatrix", "vmatrix", "Bmatrix":
		p.at++
	default:
		p.failed = true
	}
	p.need("}")
}

package mathvalue

import (
	"slices"
	"strings"
)

// begins reports whether a token may begin a factor.
func (p *parser) begins(token string) bool {
	if token == "" || token == "|" && p.bars || infix(token) {
		return false
	}
	return digit(token[0]) || token[0] == '.' || letter(token[0]) ||
		slices.Contains([]string{"(", "[", "{", "⦃", "π", "∞", "|", "⌊", "⌈"}, token) ||
		token[0] == '\\' && token != `\end` && token != `\\`
}

// atom is what has no sign in or beside it.
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
		n := p.deeper(p.answer)
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
	n := &node{kind: call, text: function, args: []*node{p.deeper(p.sum)}}
	p.bars = outside
	p.need(end)
	return n
}

// bracketed is (a), which is a; or a tuple or an interval.
func (p *parser) bracketed(open string) *node {
	inside := p.deeper(p.answer)
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
	inside := p.deeper(p.answer)
	p.need("⦄")
	if inside.kind == collection && inside.text == "" {
		n.args = inside.args
	} else {
		n.args = []*node{inside}
	}
	return n
}

// command is what begins with a backslash in LaTeX.
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

// braced is {…}, or what stands in its place: \frac12, \sqrt2.
func (p *parser) braced() *node {
	if p.take("{") {
		n := p.deeper(p.answer)
		p.need("}")
		return n
	}
	if t := p.peek(); len(t) > 1 && digit(t[0]) { // only the first digit belongs to it
		p.tokens[p.at] = t[1:]
		return &node{kind: number, text: t[:1]}
	}
	return p.deeper(p.atom)
}

func (p *parser) root() *node {
	degree := &node{kind: number, text: "2"}
	if p.take("[") {
		degree = p.deeper(p.sum)
		p.need("]")
	}
	one := &node{kind: number, text: "1"}
	return &node{kind: power, args: []*node{p.braced(), {kind: quotient, args: []*node{one, degree}}}}
}

// function is a name with its argument: sin x, sin(x), sin^2 x, log_2 8.
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
		raised = p.deeper(p.exponent)
	}
	if p.take("(") {
		inside := p.deeper(p.answer)
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

// argument is that of a function without brackets: sin x; sin 2x, where the variables behind a number belong to it; sin xy.
func (p *parser) argument() *node {
	word := p.peek()
	n := p.deeper(p.power)
	counted := n.kind == number
	for !p.failed && p.peek() != "" {
		next := p.peek()
		if !(counted && p.variable(next)) && !(word != next && letter(word[0]) && !known(word) && strings.HasSuffix(word, next)) {
			break
		}
		word = next
		n = &node{kind: product, args: []*node{n, p.deeper(p.power)}}
	}
	return n
}

// variable reports whether the next token is one, and no power of Euler's number.
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

// word is a function, a constant, or the first of variables beside each other.
func (p *parser) word(word string) *node {
	switch {
	case word == "sqrt":
		return p.root()
	case word == "inf" || word == "infinity" || word == "oo":
		return &node{kind: infinity}
	case known(word):
		return p.function(word)
	}
	if len(word) > 1 { // the others are factors of their own: in xy^2 the exponent is of y
		p.at--
		p.tokens[p.at] = word[1:]
	}
	return p.index(&node{kind: variable, text: word[:1]})
}

// index is the x_1 of a variable.
func (p *parser) index(n *node) *node {
	if n.kind != variable || !p.take("_") {
		return n
	}
	from := p.at
	p.braced()
	n.text += "_" + strings.Trim(strings.Join(p.tokens[min(from, len(p.tokens)):min(p.at, len(p.tokens))], ""), "{}")
	return n
}

// matrix is \begin{pmatrix} a & b \\ c & d \end{pmatrix}; its kind of brackets changes no value.
func (p *parser) matrix() *node {
	p.environment()
	n := &node{kind: matrix}
	row := &node{kind: collection}
	for !p.failed {
		row.args = append(row.args, p.deeper(p.sum))
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

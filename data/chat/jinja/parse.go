package jinja

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// parser makes a tree of the tokens. It panics with a *mistake, which Parse gives back.
type parser struct {
	tokens []token
	at     int
	depth  int
	blocks []string // the tags that are open, for messages
}

type mistake struct{ text string }

func (p *parser) fail(format string, args ...any) {
	panic(&mistake{fmt.Sprintf("line %d: "+format, append([]any{p.peek().line}, args...)...)})
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEOF {
		p.at++
	}
	return t
}

// enter bounds how deep a template is nested.
func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested more than %d deep", maxDepth)
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) isOp(op string) bool  { t := p.peek(); return t.kind == tokenOp && t.text == op }
func (p *parser) isName(s string) bool { t := p.peek(); return t.kind == tokenName && t.text == s }
func (p *parser) isTag(s ...string) bool {
	return p.peek().kind == tokenBlock && p.tokens[p.at+1].kind == tokenName && slices.Contains(s, p.tokens[p.at+1].text)
}

func (p *parser) skipOp(op string) bool {
	if !p.isOp(op) {
		return false
	}
	p.at++
	return true
}

func (p *parser) skipName(s string) bool {
	if !p.isName(s) {
		return false
	}
	p.at++
	return true
}

func (p *parser) wantOp(op string) {
	if !p.skipOp(op) {
		p.fail("expected %q, found %s", op, p.found())
	}
}

func (p *parser) found() string {
	switch t := p.peek(); t.kind {
	case tokenEnd:
		return "the end of the tag"
	case tokenEOF:
		return "the end of the template"
	case tokenText, tokenPrint, tokenBlock:
		return "another tag"
	default:
		return strconv.Quote(t.text)
	}
}

func (p *parser) wantName() string {
	if t := p.peek(); t.kind != tokenName {
		p.fail("expected a name, found %s", p.found())
	}
	return p.next().text
}

func (p *parser) wantEnd() {
	if p.peek().kind != tokenEnd {
		p.fail("expected the end of the tag, found %s", p.found())
	}
	p.at++
}

// expr is an expression of a template.
type expr interface {
	eval(in *interpreter) Value
}

// expression reads a ? with its condition: a if b else c.
func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	e := p.or()
	for p.skipName("if") {
		c := &choice{then: e, test: p.or()}
		if p.skipName("else") {
			c.otherwise = p.expression()
		}
		e = c
	}
	return e
}

func (p *parser) or() expr {
	e := p.and()
	for p.skipName("or") {
		e = &logic{e, p.and(), true}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.skipName("and") {
		e = &logic{e, p.not(), false}
	}
	return e
}

func (p *parser) not() expr {
	p.enter()
	defer p.leave()
	if p.skipName("not") {
		return &negation{p.not()}
	}
	return p.comparison()
}

func (p *parser) comparison() expr {
	first := p.sum()
	var rest []compared
	for {
		op := ""
		switch t := p.peek(); {
		case t.kind == tokenOp && slices.Contains([]string{"==", "!=", "<", ">", "<=", ">="}, t.text):
			op = t.text
		case p.isName("in"):
			op = "in"
		case p.isName("not") && p.tokens[p.at+1].kind == tokenName && p.tokens[p.at+1].text == "in":
			op = "not in"
			p.at++
		}
		if op == "" {
			break
		}
		p.at++
		rest = append(rest, compared{op, p.sum()})
	}
	if rest == nil {
		return first
	}
	return &comparison{first, rest}
}

// left reads operators of one rank, from the left.
func (p *parser) left(operand func() expr, ops ...string) expr {
	e := operand()
	for t := p.peek(); t.kind == tokenOp && slices.Contains(ops, t.text); t = p.peek() {
		p.at++
		e = &arithmetic{t.text, e, operand()}
	}
	return e
}

func (p *parser) sum() expr     { return p.left(p.concat, "+", "-") }
func (p *parser) concat() expr  { return p.left(p.product, "~") }
func (p *parser) product() expr { return p.left(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr   { return p.left(func() expr { return p.unary(true) }, "**") }

func (p *parser) unary(filters bool) expr {
	p.enter()
	defer p.leave()
	var e expr
	switch {
	case p.skipOp("-"):
		e = &arithmetic{"-", &literal{0}, p.unary(false)}
	case p.skipOp("+"):
		e = p.unary(false)
	default:
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filters(e)
	}
	return e
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokenName:
		return named(t.text)
	case tokenString:
		text := t.text
		for p.peek().kind == tokenString {
			text += p.next().text
		}
		return &literal{plain(text)}
	case tokenInt:
		n, err := strconv.ParseInt(t.text, 0, 64)
		if err != nil && strings.Trim(t.text, "0") != "" {
			p.fail("found the number %s, expected one of 64 bits", t.text)
		}
		return &literal{int(n)}
	case tokenFloat:
		f, _ := strconv.ParseFloat(t.text, 64)
		return &literal{f}
	case tokenOp:
		switch t.text {
		case "(":
			return p.bracketed()
		case "[":
			return &listing{items: p.items("]")}
		case "{":
			return p.mapping()
		}
	}
	p.at--
	p.fail("expected a value, found %s", p.found())
	return nil
}

func named(name string) expr {
	switch name {
	case "true", "True":
		return &literal{true}
	case "false", "False":
		return &literal{false}
	case "none", "None":
		return &literal{nil}
	}
	return &variable{name}
}

// items reads expressions up to a closing bracket.
func (p *parser) items(end string) []expr {
	var items []expr
	for !p.skipOp(end) {
		if len(items) > 0 {
			p.wantOp(",")
			if p.skipOp(end) {
				break
			}
		}
		items = append(items, p.expression())
	}
	return items
}

// bracketed reads what follows "(": a tuple or an expression.
func (p *parser) bracketed() expr {
	if p.skipOp(")") {
		return &listing{tuple: true}
	}
	e := p.expression()
	if p.skipOp(")") {
		return e
	}
	p.wantOp(",")
	return &listing{append([]expr{e}, p.items(")")...), true}
}

func (p *parser) mapping() expr {
	m := &mapping{}
	for !p.skipOp("}") {
		if len(m.keys) > 0 {
			p.wantOp(",")
			if p.skipOp("}") {
				break
			}
		}
		m.keys = append(m.keys, p.expression())
		p.wantOp(":")
		m.values = append(m.values, p.expression())
	}
	return m
}

// tuple reads an expression, or several with commas between them.
func (p *parser) tuple() expr {
	e := p.expression()
	if !p.isOp(",") {
		return e
	}
	items := []expr{e}
	for p.skipOp(",") {
		if k := p.peek().kind; k == tokenEnd {
			break
		}
		items = append(items, p.expression())
	}
	return &listing{items, true}
}

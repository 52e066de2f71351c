// Package syntax parses Jinja templates, in the dialect that package jinja describes. It knows nothing of values.
package syntax

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of a template.
const (
	maxSource = 1 << 18 // bytes; templates of models have some 10,000
	maxDepth  = 128     // of nesting
)

// Parse parses a template.
func Parse(source string) (body []Statement, err error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("found %d bytes, expected at most %d", len(source), maxSource)
	}
	if !utf8.ValidString(source) {
		return nil, errors.New("found bytes that are not UTF-8")
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *mistake:
			body, err = nil, errors.New(r.text)
		default:
			panic(r)
		}
	}()
	p := &parser{tokens: tokens}
	return p.block(), nil
}

// parser builds the syntax tree from tokens. It panics with a *mistake, which Parse returns as an error.
type parser struct {
	tokens []token
	at     int
	depth  int
	blocks []string // the open tags, for messages
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

// enter limits the depth of nesting.
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

// Expr is an expression of a template.
type Expr any

// expression reads a conditional expression: a if b else c.
func (p *parser) expression() Expr {
	p.enter()
	defer p.leave()
	e := p.or()
	for p.skipName("if") {
		c := &Choice{Then: e, Test: p.or()}
		if p.skipName("else") {
			c.Otherwise = p.expression()
		}
		e = c
	}
	return e
}

func (p *parser) or() Expr {
	e := p.and()
	for p.skipName("or") {
		e = &Logic{e, p.and(), true}
	}
	return e
}

func (p *parser) and() Expr {
	e := p.not()
	for p.skipName("and") {
		e = &Logic{e, p.not(), false}
	}
	return e
}

func (p *parser) not() Expr {
	p.enter()
	defer p.leave()
	if p.skipName("not") {
		return &Negation{p.not()}
	}
	return p.comparison()
}

func (p *parser) comparison() Expr {
	first := p.sum()
	var rest []Compared
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
		rest = append(rest, Compared{op, p.sum()})
	}
	if rest == nil {
		return first
	}
	return &Comparison{first, rest}
}

// left reads left-associative operators of one precedence.
func (p *parser) left(operand func() Expr, ops ...string) Expr {
	e := operand()
	for t := p.peek(); t.kind == tokenOp && slices.Contains(ops, t.text); t = p.peek() {
		p.at++
		e = &Arithmetic{t.text, e, operand()}
	}
	return e
}

func (p *parser) sum() Expr     { return p.left(p.concat, "+", "-") }
func (p *parser) concat() Expr  { return p.left(p.product, "~") }
func (p *parser) product() Expr { return p.left(p.power, "*", "/", "//", "%") }
func (p *parser) power() Expr   { return p.left(func() Expr { return p.unary(true) }, "**") }

func (p *parser) unary(filters bool) Expr {
	p.enter()
	defer p.leave()
	var e Expr
	switch {
	case p.skipOp("-"):
		e = &Arithmetic{"-", &Literal{0}, p.unary(false)}
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

func (p *parser) primary() Expr {
	t := p.next()
	switch t.kind {
	case tokenName:
		return named(t.text)
	case tokenString:
		text := t.text
		for p.peek().kind == tokenString {
			text += p.next().text
		}
		return &Literal{text}
	case tokenInt:
		n, err := strconv.ParseInt(t.text, 0, 64)
		if err != nil && strings.Trim(t.text, "0") != "" {
			p.fail("found the number %s, expected one of 64 bits", t.text)
		}
		return &Literal{int(n)}
	case tokenFloat:
		f, _ := strconv.ParseFloat(t.text, 64)
		return &Literal{f}
	case tokenOp:
		switch t.text {
		case "(":
			return p.bracketed()
		case "[":
			return &Listing{Items: p.items("]")}
		case "{":
			return p.mapping()
		}
	}
	p.at--
	p.fail("expected a value, found %s", p.found())
	return nil
}

func named(name string) Expr {
	switch name {
	case "true", "True":
		return &Literal{true}
	case "false", "False":
		return &Literal{false}
	case "none", "None":
		return &Literal{nil}
	}
	return &Variable{name}
}

// items reads expressions up to a closing bracket.
func (p *parser) items(end string) []Expr {
	var items []Expr
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
func (p *parser) bracketed() Expr {
	if p.skipOp(")") {
		return &Listing{Tuple: true}
	}
	e := p.expression()
	if p.skipOp(")") {
		return e
	}
	p.wantOp(",")
	return &Listing{append([]Expr{e}, p.items(")")...), true}
}

func (p *parser) mapping() Expr {
	m := &Mapping{}
	for !p.skipOp("}") {
		if len(m.Keys) > 0 {
			p.wantOp(",")
			if p.skipOp("}") {
				break
			}
		}
		m.Keys = append(m.Keys, p.expression())
		p.wantOp(":")
		m.Values = append(m.Values, p.expression())
	}
	return m
}

// tuple reads an expression, or several separated by commas.
func (p *parser) tuple() Expr {
	e := p.expression()
	if !p.isOp(",") {
		return e
	}
	items := []Expr{e}
	for p.skipOp(",") {
		if k := p.peek().kind; k == tokenEnd {
			break
		}
		items = append(items, p.expression())
	}
	return &Listing{items, true}
}

package syntax

import "strings"

// Statement is a part of a template that is executed.
type Statement any

// supportedTags are the tags of statements.
var supportedTags = []string{"for", "if", "set", "macro", "call", "filter", "with", "break", "continue", "generation", "raw"}

// block reads statements up to one of the given tags, and returns that tag's name.
func (p *parser) block(until ...string) []Statement {
	p.enter()
	defer p.leave()
	var all []Statement
	for {
		switch t := p.peek(); t.kind {
		case tokenEOF:
			if len(until) > 0 {
				p.fail("{%% %s %%} has no {%% %s %%}", p.blocks[len(p.blocks)-1], until[len(until)-1])
			}
			return all
		case tokenText:
			p.at++
			all = append(all, &Printed{&Literal{t.text}})
		case tokenPrint:
			p.at++
			all = append(all, &Printed{p.tuple()})
			p.wantEnd()
		default:
			if p.isTag(until...) {
				return all
			}
			p.at++
			all = append(all, p.tag())
		}
	}
}

// body reads the statements of a tag and the tag that ends it.
func (p *parser) body(name string) []Statement {
	p.blocks = append(p.blocks, name)
	b := p.block("end" + name)
	p.endTag()
	return b
}

// endTag skips {% name %}, which block has found.
func (p *parser) endTag() {
	p.blocks = p.blocks[:len(p.blocks)-1]
	p.at += 2
	if p.peek().kind == tokenName { // {% endmacro name %}
		p.at++
	}
	p.wantEnd()
}

func (p *parser) tag() Statement {
	name := p.wantName()
	switch name {
	case "for":
		return p.forTag()
	case "if":
		return p.ifTag()
	case "set":
		return p.setTag()
	case "macro":
		m := p.signature(p.wantName())
		p.wantEnd()
		m.Body = p.body("macro")
		return m
	case "call":
		return p.callTag()
	case "filter":
		f := p.filter(nil).(*Filtered)
		for p.skipOp("|") {
			f = p.filter(f).(*Filtered)
		}
		p.wantEnd()
		return &FilterBlock{f, p.body("filter")}
	case "with":
		return p.withTag()
	case "generation": // marks the model's own text, for masks that are not used here
		p.wantEnd()
		return &Scoped{p.body("generation")}
	case "break", "continue":
		p.wantEnd()
		return &Jump{name == "break"}
	}
	if strings.HasPrefix(name, "end") || name == "else" || name == "elif" {
		p.fail("{%% %s %%} closes no open block", name)
	}
	p.fail("the tag {%% %s %%} is not supported; supported are %s", name, strings.Join(supportedTags, ", "))
	return nil
}

func (p *parser) forTag() Statement {
	f := &For{Target: p.target(true)}
	if !p.skipName("in") {
		p.fail("expected \"in\", found %s", p.found())
	}
	f.Over = p.or()
	if p.isOp(",") {
		items := []Expr{f.Over}
		for p.skipOp(",") {
			items = append(items, p.or())
		}
		f.Over = &Listing{items, true}
	}
	if p.skipName("if") {
		f.Only = p.expression()
	}
	f.Recursive = p.skipName("recursive")
	p.wantEnd()
	p.blocks = append(p.blocks, "for")
	f.Body = p.block("else", "endfor")
	if p.isTag("else") {
		p.at += 2
		p.wantEnd()
		f.Otherwise = p.block("endfor")
	}
	p.endTag()
	return f
}

func (p *parser) ifTag() Statement {
	i := &Condition{Test: p.tuple()}
	p.wantEnd()
	p.blocks = append(p.blocks, "if")
	i.Then = p.block("elif", "else", "endif")
	first := i
	for p.isTag("elif") {
		p.at += 2
		next := &Condition{Test: p.tuple()}
		p.wantEnd()
		next.Then = p.block("elif", "else", "endif")
		i.Otherwise = []Statement{next}
		i = next
	}
	if p.isTag("else") {
		p.at += 2
		p.wantEnd()
		i.Otherwise = p.block("endif")
	}
	p.endTag()
	return first
}

// target reads assignment targets: a, or a, b, or (a, b), or space.name.
func (p *parser) target(inFor bool) []Target {
	bracket := p.skipOp("(")
	var all []Target
	for {
		t := Target{Name: p.wantName()}
		if !inFor && p.skipOp(".") {
			t.Field = p.wantName()
		}
		all = append(all, t)
		if !p.skipOp(",") {
			break
		}
	}
	if bracket {
		p.wantOp(")")
	}
	return all
}

func (p *parser) setTag() Statement {
	s := &Assignment{Targets: p.target(false)}
	if p.skipOp("=") {
		s.Value = p.tuple()
		p.wantEnd()
		return s
	}
	if p.isOp("|") {
		p.fail("a filter in {%% set … %%} without = is not supported; use {%% filter … %%} inside")
	}
	p.wantEnd()
	s.Body = p.body("set")
	return s
}

func (p *parser) signature(name string) *Macro {
	m := &Macro{Name: name}
	p.wantOp("(")
	for !p.skipOp(")") {
		if len(m.Names) > 0 {
			p.wantOp(",")
		}
		m.Names = append(m.Names, p.wantName())
		var d Expr
		if p.skipOp("=") {
			d = p.expression()
		}
		m.Defaults = append(m.Defaults, d)
	}
	return m
}

func (p *parser) callTag() Statement {
	c := &CallBlock{Caller: &Macro{Name: "caller"}}
	if p.isOp("(") {
		c.Caller = p.signature("caller")
	}
	e, ok := p.expression().(*Call)
	if !ok {
		p.fail("expected the call of a macro")
	}
	c.Call = e
	p.wantEnd()
	c.Caller.Body = p.body("call")
	return c
}

func (p *parser) withTag() Statement {
	w := &With{}
	for p.peek().kind != tokenEnd {
		if len(w.Names) > 0 {
			p.wantOp(",")
		}
		w.Names = append(w.Names, p.wantName())
		p.wantOp("=")
		w.Values = append(w.Values, p.expression())
	}
	p.wantEnd()
	w.Body = p.body("with")
	return w
}

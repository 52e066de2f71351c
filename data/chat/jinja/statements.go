package jinja

import "strings"

// statement is a part of a template that is carried out.
type statement interface {
	run(in *interpreter)
}

// supportedTags are what a tag can begin with.
var supportedTags = []string{"for", "if", "set", "macro", "call", "filter", "with", "break", "continue", "generation", "raw"}

// block reads statements up to one of the tags that end it, and that tag's name.
func (p *parser) block(until ...string) []statement {
	p.enter()
	defer p.leave()
	var all []statement
	for {
		switch t := p.peek(); t.kind {
		case tokenEOF:
			if len(until) > 0 {
				p.fail("{%% %s %%} has no {%% %s %%}", p.blocks[len(p.blocks)-1], until[len(until)-1])
			}
			return all
		case tokenText:
			p.at++
			all = append(all, &printed{&literal{plain(t.text)}})
		case tokenPrint:
			p.at++
			all = append(all, &printed{p.tuple()})
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
func (p *parser) body(name string) []statement {
	p.blocks = append(p.blocks, name)
	b := p.block("end" + name)
	p.endTag()
	return b
}

// endTag goes over {% name %}, which block has found.
func (p *parser) endTag() {
	p.blocks = p.blocks[:len(p.blocks)-1]
	p.at += 2
	if p.peek().kind == tokenName { // {% endmacro name %}
		p.at++
	}
	p.wantEnd()
}

func (p *parser) tag() statement {
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
		m.body = p.body("macro")
		return m
	case "call":
		return p.callTag()
	case "filter":
		f := p.filter(nil).(*filtered)
		for p.skipOp("|") {
			f = p.filter(f).(*filtered)
		}
		p.wantEnd()
		return &filterBlock{f, p.body("filter")}
	case "with":
		return p.withTag()
	case "generation": // marks what a model says, for masks that we do not make
		p.wantEnd()
		return &scoped{p.body("generation")}
	case "break", "continue":
		p.wantEnd()
		return &jump{name == "break"}
	}
	if strings.HasPrefix(name, "end") || name == "else" || name == "elif" {
		p.fail("{%% %s %%} ends nothing that is open", name)
	}
	p.fail("the tag {%% %s %%} is not supported; supported are %s", name, strings.Join(supportedTags, ", "))
	return nil
}

func (p *parser) forTag() statement {
	f := &forLoop{target: p.target(true)}
	if !p.skipName("in") {
		p.fail("expected \"in\", found %s", p.found())
	}
	f.over = p.or()
	if p.isOp(",") {
		items := []expr{f.over}
		for p.skipOp(",") {
			items = append(items, p.or())
		}
		f.over = &listing{items, true}
	}
	if p.skipName("if") {
		f.only = p.expression()
	}
	f.recursive = p.skipName("recursive")
	p.wantEnd()
	p.blocks = append(p.blocks, "for")
	f.body = p.block("else", "endfor")
	if p.isTag("else") {
		p.at += 2
		p.wantEnd()
		f.otherwise = p.block("endfor")
	}
	p.endTag()
	return f
}

func (p *parser) ifTag() statement {
	i := &condition{test: p.tuple()}
	p.wantEnd()
	p.blocks = append(p.blocks, "if")
	i.then = p.block("elif", "else", "endif")
	first := i
	for p.isTag("elif") {
		p.at += 2
		next := &condition{test: p.tuple()}
		p.wantEnd()
		next.then = p.block("elif", "else", "endif")
		i.otherwise = []statement{next}
		i = next
	}
	if p.isTag("else") {
		p.at += 2
		p.wantEnd()
		i.otherwise = p.block("endif")
	}
	p.endTag()
	return first
}

// target reads names that are given values: a, or a, b, or (a, b), or space.name.
func (p *parser) target(inFor bool) []target {
	bracket := p.skipOp("(")
	var all []target
	for {
		t := target{name: p.wantName()}
		if !inFor && p.skipOp(".") {
			t.field = p.wantName()
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

func (p *parser) setTag() statement {
	s := &assignment{targets: p.target(false)}
	if p.skipOp("=") {
		s.value = p.tuple()
		p.wantEnd()
		return s
	}
	if p.isOp("|") {
		p.fail("a filter in {%% set … %%} without = is not supported; use {%% filter … %%} inside")
	}
	p.wantEnd()
	s.body = p.body("set")
	return s
}

func (p *parser) signature(name string) *macro {
	m := &macro{name: name}
	p.wantOp("(")
	for !p.skipOp(")") {
		if len(m.names) > 0 {
			p.wantOp(",")
		}
		m.names = append(m.names, p.wantName())
		var d expr
		if p.skipOp("=") {
			d = p.expression()
		}
		m.defaults = append(m.defaults, d)
	}
	return m
}

func (p *parser) callTag() statement {
	c := &callBlock{caller: &macro{name: "caller"}}
	if p.isOp("(") {
		c.caller = p.signature("caller")
	}
	e, ok := p.expression().(*call)
	if !ok {
		p.fail("expected the call of a macro")
	}
	c.call = e
	p.wantEnd()
	c.caller.body = p.body("call")
	return c
}

func (p *parser) withTag() statement {
	w := &with{}
	for p.peek().kind != tokenEnd {
		if len(w.names) > 0 {
			p.wantOp(",")
		}
		w.names = append(w.names, p.wantName())
		p.wantOp("=")
		w.values = append(w.values, p.expression())
	}
	p.wantEnd()
	w.body = p.body("with")
	return w
}

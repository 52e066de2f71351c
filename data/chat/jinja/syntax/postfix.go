package syntax

// postfix reads what may follow a value: .name, [key], [from:to:step] and calls.
func (p *parser) postfix(e Expr) Expr {
	for {
		switch {
		case p.skipOp("."):
			switch t := p.next(); t.kind {
			case tokenName:
				e = &Attribute{e, t.text}
			case tokenInt:
				p.at--
				e = &Item{e, p.primary()}
			default:
				p.at--
				p.fail("expected a name after the dot, found %s", p.found())
			}
		case p.skipOp("["):
			e = p.subscript(e)
		case p.skipOp("("):
			e = &Call{e, p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) subscript(e Expr) Expr {
	var parts [3]Expr
	n := 0
	for n < 3 && !p.isOp("]") {
		if p.skipOp(":") {
			n++
			continue
		}
		if parts[n] != nil {
			break
		}
		parts[n] = p.expression()
	}
	if p.isOp(",") {
		p.fail("several keys in one subscript are not supported")
	}
	if n == 3 {
		p.fail("expected \"]\", found a third colon")
	}
	p.wantOp("]")
	if n == 0 && parts[0] == nil {
		p.fail("expected a key between [ and ]")
	}
	if n == 0 {
		return &Item{e, parts[0]}
	}
	return &Slicing{e, parts}
}

// arguments reads the rest of a call.
func (p *parser) arguments() (a Arguments) {
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			p.wantOp(",")
			if p.skipOp(")") {
				break
			}
		}
		if p.isOp("*") || p.isOp("**") {
			p.fail("%s before an argument is not supported; write out the arguments", p.peek().text)
		}
		if p.peek().kind == tokenName && p.tokens[p.at+1].kind == tokenOp && p.tokens[p.at+1].text == "=" {
			a.Names = append(a.Names, p.next().text)
			p.at++
		} else if a.Names != nil {
			p.fail("an argument without a name follows one with a name")
		}
		a.List = append(a.List, p.expression())
	}
	return a
}

// filters reads |filter and is test.
func (p *parser) filters(e Expr) Expr {
	for {
		switch {
		case p.skipOp("|"):
			e = p.filter(e)
		case p.skipName("is"):
			e = p.test(e)
		case p.skipOp("("):
			e = &Call{e, p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) dotted() string {
	name := p.wantName()
	for p.skipOp(".") {
		name += "." + p.wantName()
	}
	return name
}

func (p *parser) filter(e Expr) Expr {
	f := &Filtered{Of: e, Name: p.dotted()}
	if p.skipOp("(") {
		f.Arguments = p.arguments()
	}
	return f
}

func (p *parser) test(e Expr) Expr {
	negated := p.skipName("not")
	t := &Tested{Of: e, Name: p.dotted()}
	switch k := p.peek(); {
	case p.skipOp("("):
		t.Arguments = p.arguments()
	case k.kind == tokenName && k.text != "else" && k.text != "or" && k.text != "and" && k.text != "is" && k.text != "if" &&
		k.text != "in" && k.text != "not",
		k.kind == tokenString, k.kind == tokenInt, k.kind == tokenFloat,
		k.kind == tokenOp && (k.text == "[" || k.text == "{"):
		t.Arguments.List = []Expr{p.postfix(p.primary())}
	}
	if negated {
		return &Negation{t}
	}
	return t
}

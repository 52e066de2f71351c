package jinja

import "github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"

// arguments are the evaluated arguments of a call.
type arguments struct {
	list  []Value // positional
	names []string
	named []Value
}

func (in *interpreter) given(a syntax.Arguments) (g arguments) {
	n := len(a.List) - len(a.Names)
	for i, e := range a.List {
		if v := in.eval(e); i < n {
			g.list = append(g.list, v)
		} else {
			g.names, g.named = append(g.names, a.Names[i-n]), append(g.named, v)
		}
	}
	return g
}

// get returns an argument by its position or name.
func (g *arguments) get(place int, name string) (Value, bool) {
	if place >= 0 && place < len(g.list) {
		return g.list[place], true
	}
	for i, n := range g.names {
		if n == name {
			return g.named[i], true
		}
	}
	return nil, false
}

// only refuses arguments other than those in names, which lists the parameters of the function in order.
func (g *arguments) only(in *interpreter, of string, names ...string) {
	if len(g.list) > len(names) {
		in.fail("%s: found %d arguments, expected %d at most", of, len(g.list), len(names))
	}
	for _, n := range g.names {
		known := false
		for _, name := range names {
			known = known || n == name
		}
		if !known {
			in.fail("%s: the argument %s is not supported", of, n)
		}
	}
}

// text, int and flag read an optional argument.
func (g *arguments) text(in *interpreter, place int, name, otherwise string) Text {
	v, ok := g.get(place, name)
	if !ok {
		return plain(otherwise)
	}
	t, isText := v.(Text)
	if !isText {
		in.fail("%s: found %s, expected a str", name, describe(v))
	}
	return t
}

func (g *arguments) int(in *interpreter, place int, name string, otherwise int) int {
	v, ok := g.get(place, name)
	if !ok || v == nil {
		return otherwise
	}
	n, isInt := whole(v)
	if !isInt {
		in.fail("%s: found %s, expected a whole number", name, describe(v))
	}
	return n
}

// flag is false by default.
func (g *arguments) flag(place int, name string) bool {
	v, ok := g.get(place, name)
	return ok && truth(v)
}

// function is a built-in function or method.
type function struct {
	name string
	call func(in *interpreter, a arguments) Value
}

func (in *interpreter) call(f Value, a arguments) Value {
	switch f := f.(type) {
	case *function:
		return f.call(in, a)
	case *closure:
		return f.call(in, a)
	case *loop:
		return f.again(in, a)
	case Undefined:
		in.fail("call of an undefined value: %s", f.what)
	}
	in.fail("%s cannot be called", kindWithArticle(f))
	return nil
}

// closure is a macro with the scope it was defined in.
type closure struct {
	*syntax.Macro
	scope *scope
}

func (c *closure) call(in *interpreter, a arguments) Value {
	in.enter()
	defer in.leave()
	caller, hasCaller := a.get(-1, "caller")
	loops := in.loops
	in.loops = 0
	text := in.capture(func() {
		in.inner(c.scope, func() {
			if hasCaller {
				in.scope.vars["caller"] = caller
				a.names, a.named = a.names[:len(a.names)-1], a.named[:len(a.named)-1]
			}
			a.only(in, "the macro "+c.Name, c.Names...)
			for i, name := range c.Names {
				v, ok := a.get(i, name)
				if !ok && c.Defaults[i] != nil {
					v = in.eval(c.Defaults[i])
				} else if !ok {
					v = Undefined{"the argument " + name + " of the macro " + c.Name + " is missing"}
				}
				in.scope.vars[name] = v
			}
			in.block(c.Body)
		})
	})
	in.loops = loops
	return text
}

func (in *interpreter) runCallBlock(s *syntax.CallBlock) {
	f := in.eval(s.Call.Of)
	a := in.given(s.Call.Arguments)
	a.names, a.named = append(a.names, "caller"), append(a.named, &closure{s.Caller, in.scope})
	in.out.add(in.made(in.show(in.call(f, a))))
}

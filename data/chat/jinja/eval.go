package jinja

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"
)

func (in *interpreter) eval(e syntax.Expr) Value {
	in.enter()
	v := in.value(e)
	in.leave()
	return v
}

func (in *interpreter) value(e syntax.Expr) Value {
	switch e := e.(type) {
	case *syntax.Literal:
		if s, ok := e.Value.(string); ok {
			return plain(s)
		}
		return e.Value
	case *syntax.Variable:
		return in.evalVariable(e)
	case *syntax.Choice:
		return in.evalChoice(e)
	case *syntax.Logic:
		return in.evalLogic(e)
	case *syntax.Negation:
		return !truth(in.eval(e.Of))
	case *syntax.Comparison:
		return in.evalComparison(e)
	case *syntax.Listing:
		return in.evalListing(e)
	case *syntax.Mapping:
		return in.evalMapping(e)
	case *syntax.Arithmetic:
		return in.evalArithmetic(e)
	case *syntax.Attribute:
		return in.attribute(in.eval(e.Of), e.Name)
	case *syntax.Item:
		return in.item(in.eval(e.Of), in.eval(e.Key))
	case *syntax.Slicing:
		return in.evalSlicing(e)
	case *syntax.Call:
		return in.call(in.eval(e.Of), in.given(e.Arguments))
	case *syntax.Filtered:
		return in.apply(e, nil)
	case *syntax.Tested:
		return in.test(e.Name, in.eval(e.Of), in.given(e.Arguments))
	}
	panic(fmt.Sprintf("an expression of type %T", e)) // a bug of this package
}

func (in *interpreter) evalVariable(e *syntax.Variable) Value {
	if v, ok := in.lookup(e.Name); ok {
		return v
	}
	return Undefined{e.Name + " is undefined"}
}

func (in *interpreter) evalChoice(e *syntax.Choice) Value {
	switch {
	case truth(in.eval(e.Test)):
		return in.eval(e.Then)
	case e.Otherwise != nil:
		return in.eval(e.Otherwise)
	}
	return Undefined{"an if without else has no value"}
}

func (in *interpreter) evalLogic(e *syntax.Logic) Value {
	if v := in.eval(e.A); truth(v) == e.Or {
		return v
	}
	return in.eval(e.B)
}

func (in *interpreter) evalComparison(e *syntax.Comparison) Value {
	a := in.eval(e.First)
	for _, c := range e.Rest {
		b := in.eval(c.To)
		if !in.holds(c.Op, a, b) {
			return false
		}
		a = b
	}
	return true
}

func (in *interpreter) holds(op string, a, b Value) bool {
	switch op {
	case "==":
		return in.equal(a, b)
	case "!=":
		return !in.equal(a, b)
	case "in":
		return in.contains(b, a)
	case "not in":
		return !in.contains(b, a)
	}
	c := in.compare(a, b, op)
	switch op {
	case "<":
		return c < 0
	case ">":
		return c > 0
	case "<=":
		return c <= 0
	}
	return c >= 0
}

func (in *interpreter) contains(all, v Value) bool {
	switch all := all.(type) {
	case Text:
		part, ok := v.(Text)
		if !ok {
			in.fail("in: found %s in place of a part of a str", kindWithArticle(v))
		}
		in.room(len(all.S))
		return strings.Contains(all.S, part.S)
	case *Dict:
		_, ok := in.find(all, v)
		return ok
	case *List:
		return slices.ContainsFunc(all.Items, func(item Value) bool { return in.equal(item, v) })
	case Undefined:
		return false
	}
	in.fail("in: %s is no container", kindWithArticle(all))
	return false
}

func (in *interpreter) evalListing(e *syntax.Listing) Value {
	items := make([]Value, len(e.Items))
	for i, item := range e.Items {
		items[i] = in.eval(item)
	}
	l := in.list(items)
	l.tuple = e.Tuple
	return l
}

func (in *interpreter) evalMapping(e *syntax.Mapping) Value {
	d := NewDict()
	for i, k := range e.Keys {
		in.charge(2 * stepsPerItem)
		d.Set(in.key(in.eval(k)), in.eval(e.Values[i]))
	}
	return d
}

// key checks that a value can be the key of a dict.
func (in *interpreter) key(v Value) Value {
	switch v.(type) {
	case Text, nil, bool, int, float64:
		return v
	}
	in.fail("%s is not supported as a key", kindWithArticle(v))
	return nil
}

func (in *interpreter) evalArithmetic(e *syntax.Arithmetic) Value {
	a, b := in.eval(e.A), in.eval(e.B)
	if e.Op == "~" {
		x, y := in.show(a), in.show(b)
		return in.made(concat(x, y))
	}
	if x, ok := a.(Text); ok {
		if v, ok := in.textArithmetic(e.Op, x, b); ok {
			return v
		}
	}
	x, isList := a.(*List)
	y, isList2 := b.(*List)
	if isList && isList2 && e.Op == "+" {
		l := in.list(slices.Concat(x.Items, y.Items))
		l.tuple = x.tuple
		return l
	}
	if n, ok := whole(b); ok && isList && e.Op == "*" {
		n = max(n, 0)
		in.repeats(n, stepsPerItem*len(x.Items))
		return &List{Items: slices.Repeat(x.Items, n), tuple: x.tuple}
	}
	if n, ok := whole(a); ok && e.Op == "*" {
		if t, ok := b.(Text); ok {
			return in.repeat(t, n)
		}
	}
	return in.calculate(e.Op, a, b)
}

// textArithmetic evaluates an operator whose left operand is a string; not ok: undefined for these operands.
func (in *interpreter) textArithmetic(op string, x Text, b Value) (Value, bool) {
	switch op {
	case "+":
		if y, ok := b.(Text); ok {
			in.room(len(x.S) + len(y.S))
			return in.made(concat(x, y)), true
		}
	case "*":
		if n, ok := whole(b); ok {
			return in.repeat(x, n), true
		}
	case "%":
		return in.format(x, b), true
	}
	return nil, false
}

// repeats charges n times a cost, guarding against overflow.
func (in *interpreter) repeats(n, cost int) {
	if n > 0 && cost > maxSteps/n {
		in.charge(maxSteps + 1)
	}
	in.charge(n * cost)
}

func (in *interpreter) repeat(t Text, n int) Text {
	n = max(n, 0)
	in.repeats(n, 1+len(t.S)/bytesPerStep+len(t.Data))
	var j joiner
	for range n {
		j.add(t)
	}
	return j.text()
}

func (in *interpreter) calculate(op string, a, b Value) Value {
	x, ok1 := whole(a)
	y, ok2 := whole(b)
	if ok1 && ok2 && op != "/" && !(op == "**" && y < 0) {
		return in.intArithmetic(op, x, y)
	}
	f, ok1 := number(a)
	g, ok2 := number(b)
	if !ok1 || !ok2 {
		in.fail("%s: found %s and %s", op, describe(a), describe(b))
	}
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "**":
		return math.Pow(f, g)
	}
	if g == 0 {
		in.fail("%s: division by zero", op)
	}
	if op == "/" {
		return f / g
	}
	// As in Python, the remainder is exact and has the sign of g.
	rest := math.Mod(f, g)
	if rest == 0 {
		rest = math.Copysign(0, g)
	} else if (rest < 0) != (g < 0) {
		rest += g
	}
	if op == "//" {
		return math.Round((f - rest) / g)
	}
	return rest
}

// describe names a value in a message: an undefined one by its origin, others by their type.
func describe(v Value) string {
	if u, ok := v.(Undefined); ok {
		return "an undefined value (" + u.what + ")"
	}
	return kindWithArticle(v)
}

// intArithmetic evaluates an operator on 64-bit integers; overflow fails.
func (in *interpreter) intArithmetic(op string, x, y int) Value {
	switch op {
	case "+", "-":
		if op == "-" {
			y = -y
		}
		if s := x + y; (s > x) == (y > 0) && y != math.MinInt {
			return s
		}
	case "*":
		if p := x * y; x == 0 || p/x == y && !(x == -1 && y == math.MinInt) {
			return p
		}
	case "//", "%":
		if y == 0 {
			in.fail("%s: division by zero", op)
		}
		q, r := x/y, x%y
		if r != 0 && (r < 0) != (y < 0) {
			q, r = q-1, r+y
		}
		if op == "%" {
			return r
		}
		return q
	case "**":
		p := 1
		for range min(y, 64) {
			if p != 0 && x != 0 && p*x/x != p {
				in.fail("**: the result has more than 64 bits")
			}
			p *= x
		}
		if y <= 64 || x == 0 || x == 1 {
			return p
		}
		if x == -1 {
			return 1 - 2*(y%2)
		}
	}
	in.fail("%s: the result has more than 64 bits", op)
	return nil
}

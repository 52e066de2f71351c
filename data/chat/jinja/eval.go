package jinja

import (
	"math"
	"slices"
	"strings"
)

type literal struct{ value Value }

func (e *literal) eval(*interpreter) Value { return e.value }

type variable struct{ name string }

func (e *variable) eval(in *interpreter) Value {
	if v, ok := in.lookup(e.name); ok {
		return v
	}
	return Undefined{e.name + " is undefined"}
}

type choice struct{ then, test, otherwise expr }

func (e *choice) eval(in *interpreter) Value {
	switch {
	case truth(in.eval(e.test)):
		return in.eval(e.then)
	case e.otherwise != nil:
		return in.eval(e.otherwise)
	}
	return Undefined{"an if without else has no value"}
}

// logic is and, or.
type logic struct {
	a, b expr
	or   bool
}

func (e *logic) eval(in *interpreter) Value {
	if v := in.eval(e.a); truth(v) == e.or {
		return v
	}
	return in.eval(e.b)
}

type negation struct{ of expr }

func (e *negation) eval(in *interpreter) Value { return !truth(in.eval(e.of)) }

type compared struct {
	op string
	to expr
}

// comparison is a < b <= c.
type comparison struct {
	first expr
	rest  []compared
}

func (e *comparison) eval(in *interpreter) Value {
	a := in.eval(e.first)
	for _, c := range e.rest {
		b := in.eval(c.to)
		if !in.holds(c.op, a, b) {
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
			in.fail("in: found a %s in place of a part of a str", kind(v))
		}
		in.room(len(all.S))
		return strings.Contains(all.S, part.S)
	case *Dict:
		_, ok := all.Get(v)
		return ok
	case *List:
		return slices.ContainsFunc(all.Items, func(item Value) bool { return in.equal(item, v) })
	case Undefined:
		return false
	}
	in.fail("in: a %s contains nothing", kind(all))
	return false
}

// listing is [a, b] or (a, b).
type listing struct {
	items []expr
	tuple bool
}

func (e *listing) eval(in *interpreter) Value {
	items := make([]Value, len(e.items))
	for i, item := range e.items {
		items[i] = in.eval(item)
	}
	l := in.list(items)
	l.tuple = e.tuple
	return l
}

// mapping is {a: b}.
type mapping struct{ keys, values []expr }

func (e *mapping) eval(in *interpreter) Value {
	d := NewDict()
	for i, k := range e.keys {
		in.charge(2 * stepsPerItem)
		d.Set(in.key(in.eval(k)), in.eval(e.values[i]))
	}
	return d
}

// key holds a value to what a dict of a template can have as a key.
func (in *interpreter) key(v Value) Value {
	switch v.(type) {
	case Text, nil, bool, int, float64:
		return v
	}
	in.fail("a %s is not supported as a key", kind(v))
	return nil
}

// arithmetic is + - * / // % ** and ~.
type arithmetic struct {
	op   string
	a, b expr
}

func (e *arithmetic) eval(in *interpreter) Value {
	a, b := in.eval(e.a), in.eval(e.b)
	if e.op == "~" {
		x, y := in.show(a), in.show(b)
		return in.made(concat(x, y))
	}
	if x, ok := a.(Text); ok {
		if v, ok := in.ofText(e.op, x, b); ok {
			return v
		}
	}
	x, isList := a.(*List)
	y, isList2 := b.(*List)
	if isList && isList2 && e.op == "+" {
		l := in.list(slices.Concat(x.Items, y.Items))
		l.tuple = x.tuple
		return l
	}
	if n, ok := whole(b); ok && isList && e.op == "*" {
		n = max(n, 0)
		in.repeats(n, stepsPerItem*len(x.Items))
		return &List{slices.Repeat(x.Items, n), x.tuple}
	}
	if n, ok := whole(a); ok && e.op == "*" {
		if t, ok := b.(Text); ok {
			return in.repeat(t, n)
		}
	}
	return in.calculate(e.op, a, b)
}

// ofText is an operation on a string.
func (in *interpreter) ofText(op string, x Text, b Value) (Value, bool) {
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

// repeats asks whether something of a cost may be made n times.
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
		return in.ofInts(op, x, y)
	}
	f, ok1 := number(a)
	g, ok2 := number(b)
	if !ok1 || !ok2 {
		in.fail("%s: found %s and %s", op, named2(a), named2(b))
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
	switch op {
	case "/":
		return f / g
	case "//":
		return math.Floor(f / g)
	}
	return f - g*math.Floor(f/g)
}

// named2 names a value for a message: what an undefined one is says more than its kind.
func named2(v Value) string {
	if u, ok := v.(Undefined); ok {
		return "what is not there (" + u.what + ")"
	}
	return "a " + kind(v)
}

// ofInts is an operation on whole numbers of 64 bits.
func (in *interpreter) ofInts(op string, x, y int) Value {
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

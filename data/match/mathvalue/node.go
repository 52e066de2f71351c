package mathvalue

// node is a part of an expression.
type node struct {
	kind kind
	text string  // of a number, the name of a variable or function, the brackets of a collection
	args []*node // operands, arguments, elements
	name string  // of what it is the value, where that counts: in x = 1, y = 2

	values [places + farPlaces]*worth // at places, as far as they are worked out
}

// worth is a value, or that there is none.
type worth struct {
	value
	ok bool
}

// expression is one reading of an answer.
type expression struct{ root *node }

type kind int

const (
	number   kind = iota // text is its decimal form
	variable             // text is its name
	infinity
	sum     // of two
	product // of two
	quotient
	power
	negative
	call       // of the function text
	factorial  // of one
	percentage // of one
	collection // text is a pair of brackets: ⦃⦄, (), [], (], [), or "" for what is listed without
	union      // of collections
	matrix     // args are rows, which are collections
	either     // ±: args are both
)

// depth bounds how deep an expression may be nested.
const depth = 64

package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Pair is a key of the header and its value: uint32, float32, bool, string, or a list of strings, int32 or float32.
type Pair struct {
	Key   string
	Value any
}

// The numbers of the types of values.
const (
	isUint8 = iota
	isInt8
	isUint16
	isInt16
	isUint32
	isInt32
	isFloat32
	isBool
	isString
	isList
	isUint64
	isInt64
	isFloat64
)

// valueSizes are the sizes of values of fixed size.
var valueSizes = map[uint32]int{isUint8: 1, isInt8: 1, isUint16: 2, isInt16: 2, isUint32: 4, isInt32: 4, isFloat32: 4, isBool: 1,
	isUint64: 8, isInt64: 8, isFloat64: 8}

// appendPair adds a key and its value.
func appendPair(b []byte, p Pair) ([]byte, error) {
	b = appendText(b, p.Key)
	le := binary.LittleEndian
	start := func(kind uint32) { b = le.AppendUint32(b, kind) }
	list := func(kind uint32, n int) { start(isList); start(kind); b = le.AppendUint64(b, uint64(n)) }
	switch v := p.Value.(type) {
	case uint32:
		start(isUint32)
		b = le.AppendUint32(b, v)
	case float32:
		start(isFloat32)
		b = le.AppendUint32(b, math.Float32bits(v))
	case bool:
		start(isBool)
		one := byte(0)
		if v {
			one = 1
		}
		b = append(b, one)
	case string:
		start(isString)
		b = appendText(b, v)
	case []string:
		list(isString, len(v))
		for _, s := range v {
			b = appendText(b, s)
		}
	case []int32:
		list(isInt32, len(v))
		for _, x := range v {
			b = le.AppendUint32(b, uint32(x))
		}
	case []float32:
		list(isFloat32, len(v))
		for _, x := range v {
			b = le.AppendUint32(b, math.Float32bits(x))
		}
	default:
		return nil, fmt.Errorf("gguf: %s: a value of type %T", p.Key, p.Value)
	}
	return b, nil
}

// cursor reads a header. After the first error, in err, it returns zeros.
type cursor struct {
	data []byte
	at   int
	err  error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = badinput.Errorf("at byte %d: "+format, append([]any{c.at}, args...)...)
	}
}

// take returns the next n bytes.
func (c *cursor) take(n uint64) []byte {
	if c.err != nil || n > uint64(len(c.data)-c.at) {
		c.fail("the header ends too early: the file is truncated or damaged")
		return nil
	}
	b := c.data[c.at : c.at+int(n)]
	c.at += int(n)
	return b
}

// number reads an unsigned integer of that many bytes.
func (c *cursor) number(bytes int) uint64 {
	var whole [8]byte
	copy(whole[:], c.take(uint64(bytes)))
	return binary.LittleEndian.Uint64(whole[:])
}

func (c *cursor) text() string { return string(c.take(c.number(8))) }

// value reads a value: integers as int64, other numbers as float64, bool or string, and lists of these.
func (c *cursor) value() any {
	kind := uint32(c.number(4))
	if kind != isList {
		return c.single(kind)
	}
	kind = uint32(c.number(4))
	n, size := c.number(8), 8 // a string has at least its length
	if kind != isString {
		size = valueSizes[kind]
	}
	if size == 0 {
		c.fail("a list of values of type %d", kind)
	}
	if c.err != nil || n > uint64(len(c.data)-c.at)/uint64(size) {
		c.fail("a list of %d values is longer than the file", n)
		return nil
	}
	if kind == isString {
		all := make([]string, 0, n)
		for range n {
			if all = append(all, c.text()); c.err != nil {
				return nil
			}
		}
		return all
	}
	all := make([]float64, n) // for all types but strings; the values fit
	for i := range all {
		switch x := c.single(kind).(type) {
		case int64:
			all[i] = float64(x)
		case float64:
			all[i] = x
		}
	}
	return all
}

// single reads a value that is no list.
func (c *cursor) single(kind uint32) any {
	switch size := valueSizes[kind]; {
	case kind == isString:
		return c.text()
	case size == 0:
		c.fail("a value of type %d", kind)
	case kind == isFloat32:
		return float64(math.Float32frombits(uint32(c.number(4))))
	case kind == isFloat64:
		return math.Float64frombits(c.number(8))
	case kind == isBool:
		return c.number(1) != 0
	case kind == isInt8 || kind == isInt16 || kind == isInt32 || kind == isInt64:
		shift := 64 - 8*size
		return int64(c.number(size)) << shift >> shift
	default:
		return int64(c.number(size))
	}
	return nil
}

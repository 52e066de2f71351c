// Package wire is the encoding of Tinker's messages: protobuf, read and written by hand, and JSON. It knows neither
// models nor files: it enforces limits on messages, and does not interpret them.
package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Limits of one message. A sparse tensor can stand for far more numbers than it has bytes.
const (
	MaxDatums   = 8192
	MaxElements = 1 << 23 // of all tensors of a request
	maxInputs   = 32      // inputs of a datum, and settings of a loss
	maxName     = 256     // bytes of a name
	maxDims     = 8
)

// ErrMalformed is the error of a body that is not the expected message.
var ErrMalformed = errors.New("not a protobuf message of this call")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// tooMuch is the error of a message that may not be as large as it is.
type tooMuch string

func (t tooMuch) Error() string        { return string(t) }
func (t tooMuch) Is(target error) bool { return target == ErrMalformed }

// field is one field of a message: a number, or bytes.
type field struct {
	num   protowire.Number
	typ   protowire.Type
	bits  uint64
	bytes []byte
}

// fields calls each for every field of a message, in order.
func fields(message []byte, each func(field) error) error {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return malformed("%v", protowire.ParseError(n))
		}
		message = message[n:]
		f := field{num: num, typ: typ}
		switch typ {
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(message)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(message)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(num, typ, message)
		}
		if n < 0 {
			return malformed("%v", protowire.ParseError(n))
		}
		message = message[n:]
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}

// text is the value of a field that is a name.
func (f field) text() (string, error) {
	if f.typ != protowire.BytesType || len(f.bytes) > maxName {
		return "", malformed("field %d is not a text of at most %d bytes", f.num, maxName)
	}
	return string(f.bytes), nil
}

// message is the value of a field that is a message or bytes.
func (f field) message() ([]byte, error) {
	if f.typ != protowire.BytesType {
		return nil, malformed("field %d has no bytes", f.num)
	}
	return f.bytes, nil
}

// number is the value of a field that is an integer.
func (f field) number() (int64, error) {
	if f.typ != protowire.VarintType {
		return 0, malformed("field %d is not a whole number", f.num)
	}
	return int64(f.bits), nil
}

// numbers appends the values of a repeated field, packed or not.
func (f field) numbers(to []int64, most int) ([]int64, error) {
	if f.typ == protowire.VarintType {
		to = append(to, int64(f.bits))
	} else {
		for rest := f.bytes; len(rest) > 0; {
			v, n := protowire.ConsumeVarint(rest)
			if n < 0 {
				return nil, malformed("field %d: %v", f.num, protowire.ParseError(n))
			}
			to, rest = append(to, int64(v)), rest[n:]
			if len(to) > most {
				break
			}
		}
	}
	if len(to) > most {
		return nil, malformed("field %d has more than %d numbers", f.num, most)
	}
	return to, nil
}

// entry reads an entry of a map: its key, and its value as a field.
func entry(message []byte) (key string, value field, err error) {
	err = fields(message, func(f field) (err error) {
		switch f.num {
		case 1:
			key, err = f.text()
		case 2:
			value = f
		}
		return err
	})
	return key, value, err
}

// Encoding of fields. As in proto3, zero and the empty text are omitted.

func appendText(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func appendNumber(b []byte, num protowire.Number, n int64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(n))
}

func appendMessage(b []byte, num protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), message)
}

func appendPacked(b []byte, num protowire.Number, values []int64) []byte {
	if len(values) == 0 {
		return b
	}
	var packed []byte
	for _, v := range values {
		packed = protowire.AppendVarint(packed, uint64(v))
	}
	return appendMessage(b, num, packed)
}

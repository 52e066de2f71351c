package wire

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// ForwardBackward asks for the loss of data, and unless ForwardOnly for its gradient.
type ForwardBackward struct {
	ModelID     string
	SeqID       int64
	Data        []Datum
	Loss        string
	Config      map[string]float64
	ForwardOnly bool
}

// Datum is one sequence with its loss inputs.
type Datum struct {
	Tokens []int32
	Inputs map[string]Tensor
	Other  string // the type of a chunk that is not text, "" if all are
}

// ReadForwardBackward decodes the body of forward_backward. An error wraps ErrMalformed; r has what was read before it.
func ReadForwardBackward(body []byte) (r ForwardBackward, err error) {
	left := MaxElements
	return r, fields(body, func(f field) (err error) {
		switch f.num {
		case 1:
			r.ModelID, err = f.text()
		case 2:
			r.SeqID, err = f.number()
		case 3:
			var m []byte
			var d Datum
			if m, err = f.message(); err == nil {
				d, err = readDatum(m, &left)
			}
			if r.Data = append(r.Data, d); err == nil && len(r.Data) > MaxDatums {
				err = tooMuch(fmt.Sprintf("more than %d datums", MaxDatums))
			}
		case 4:
			r.Loss, err = f.text()
		case 5:
			err = readSetting(&r.Config, f)
		case 6:
			var n int64
			n, err = f.number()
			r.ForwardOnly = n != 0
		}
		return err
	})
}

// ReadSeq decodes only model and number, of a body that may be wrong elsewhere.
func ReadSeq(body []byte) (r ForwardBackward, err error) {
	err = fields(body, func(f field) (err error) {
		switch f.num {
		case 1:
			r.ModelID, err = f.text()
		case 2:
			r.SeqID, err = f.number()
		}
		return err
	})
	if err == nil && (r.ModelID == "" || r.SeqID == 0) {
		err = malformed("no model_id and seq_id")
	}
	return r, err
}

// readSetting reads an entry of a map of numbers.
func readSetting(to *map[string]float64, f field) error {
	m, err := f.message()
	if err != nil {
		return err
	}
	key, value, err := entry(m)
	if err != nil {
		return err
	}
	if *to == nil {
		*to = map[string]float64{}
	}
	if (*to)[key] = math.Float64frombits(value.bits); len(*to) > maxInputs {
		return malformed("more than %d settings", maxInputs)
	}
	return nil
}

func readDatum(message []byte, left *int) (d Datum, err error) {
	return d, fields(message, func(f field) error {
		if f.num != 1 && f.num != 2 {
			return nil
		}
		m, err := f.message()
		if err != nil {
			return err
		}
		if f.num == 1 {
			return d.readChunk(m, left)
		}
		key, value, err := entry(m)
		if err != nil {
			return err
		}
		t, err := readTensor(value.bytes, left)
		if err != nil {
			return err
		}
		if d.Inputs == nil {
			d.Inputs = map[string]Tensor{}
		}
		if d.Inputs[key] = t; len(d.Inputs) > maxInputs {
			return malformed("more than %d inputs of a datum", maxInputs)
		}
		return nil
	})
}

// readChunk reads a chunk of a sequence.
func (d *Datum) readChunk(message []byte, left *int) error {
	return fields(message, func(f field) error {
		m, err := f.message()
		switch {
		case err != nil:
			return err
		case f.num == 2:
			d.Other = "an image"
		case f.num == 3:
			d.Other = "dmel"
		case f.num == 1:
			return fields(m, func(f field) error {
				if f.num != 1 {
					return nil
				}
				m, err := f.message()
				if err != nil {
					return err
				}
				tokens, err := intsOf(m)
				if *left -= len(tokens); err == nil && *left < 0 {
					err = tooMuch(fmt.Sprintf("more than %d numbers in a request", MaxElements))
				}
				d.Tokens = append(d.Tokens, tokens...)
				return err
			})
		}
		return nil
	})
}

// Append encodes the message, with maps in the order of their keys, so that equal requests have equal bytes.
func (r ForwardBackward) Append(b []byte) []byte {
	b = appendText(b, 1, r.ModelID)
	b = appendNumber(b, 2, r.SeqID)
	for _, d := range r.Data {
		b = appendMessage(b, 3, d.append(nil))
	}
	b = appendText(b, 4, r.Loss)
	b = appendDoubles(b, 5, r.Config)
	if r.ForwardOnly {
		b = appendNumber(b, 6, 1)
	}
	return b
}

func (d Datum) append(b []byte) []byte {
	b = appendMessage(b, 1, appendMessage(nil, 1, appendMessage(nil, 1, intBytes(d.Tokens))))
	if d.Other != "" {
		b = appendMessage(b, 1, appendMessage(nil, 2, nil))
	}
	for _, key := range slices.Sorted(maps.Keys(d.Inputs)) {
		m := appendText(nil, 1, key)
		b = appendMessage(b, 2, appendMessage(m, 2, d.Inputs[key].append(nil)))
	}
	return b
}

func appendDoubles(b []byte, num protowire.Number, values map[string]float64) []byte {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		b = appendMessage(b, num, appendDouble(appendText(nil, 1, key), 2, values[key]))
	}
	return b
}

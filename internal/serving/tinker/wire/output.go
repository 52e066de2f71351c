package wire

import (
	"encoding/binary"
	"slices"
)

// Output is the result of a forward_backward: the log-probabilities of the targets of each datum, and metrics.
type Output struct {
	LogProbs []Tensor // by datum: F32, of the shape of its targets
	Metrics  map[string]float64
}

// record is what the format calls the type of its outputs.
const record = "ArrayRecord"

// Append encodes the message. Consecutive datums of the same trailing shape become one record.
func (o Output) Append(b []byte) []byte {
	b = appendText(b, 1, record)
	for from := 0; from < len(o.LogProbs); {
		to := from + 1
		for to < len(o.LogProbs) && slices.Equal(rowShape(o.LogProbs[to]), rowShape(o.LogProbs[from])) {
			to++
		}
		b = appendMessage(b, 2, appendRecord(nil, o.LogProbs[from:to]))
		from = to
	}
	return appendDoubles(b, 3, o.Metrics)
}

func rowShape(t Tensor) []int64 { return t.Shape[1:] }

func appendRecord(b []byte, tensors []Tensor) []byte {
	var data []byte
	offsets := []int64{0}
	for _, t := range tensors {
		data = append(data, t.raw()...)
		offsets = append(offsets, int64(len(data)))
	}
	batched := appendMessage(nil, 1, data)
	batched = appendMessage(batched, 2, longBytes(offsets))
	batched = appendNumber(batched, 3, int64(F32))
	batched = appendPacked(batched, 4, rowShape(tensors[0]))
	b = appendText(b, 1, record)
	b = appendMessage(b, 2, appendMessage(appendText(nil, 1, "logprobs"), 2, batched))
	return appendNumber(b, 3, int64(len(tensors)))
}

// ReadOutput decodes the message.
func ReadOutput(body []byte) (o Output, err error) {
	return o, fields(body, func(f field) error {
		m, err := f.message()
		switch {
		case err != nil:
			return err
		case f.num == 2:
			return o.readRecord(m)
		case f.num == 3:
			return readSetting(&o.Metrics, f)
		}
		return nil
	})
}

func (o *Output) readRecord(message []byte) error {
	return fields(message, func(f field) error {
		if f.num != 2 {
			return nil
		}
		m, err := f.message()
		if err != nil {
			return err
		}
		key, value, err := entry(m)
		if err != nil || key != "logprobs" {
			return err
		}
		return o.readBatched(value.bytes)
	})
}

func (o *Output) readBatched(message []byte) error {
	var data, offsets []byte
	var shape []int64
	err := fields(message, func(f field) (err error) {
		switch f.num {
		case 1:
			data, err = f.message()
		case 2:
			offsets, err = f.message()
		case 4:
			shape, err = f.numbers(shape, maxDims)
		}
		return err
	})
	if err != nil {
		return err
	}
	width := int64(1)
	for _, d := range shape {
		width *= max(d, 1)
	}
	if len(offsets)%8 != 0 || width > MaxElements {
		return malformed("offsets of %d bytes, trailing shape %v", len(offsets), shape)
	}
	for i := 0; i+16 <= len(offsets); i += 8 {
		from, to := binary.LittleEndian.Uint64(offsets[i:]), binary.LittleEndian.Uint64(offsets[i+8:])
		if from > to || to > uint64(len(data)) {
			return malformed("a tensor from byte %d to %d of %d", from, to, len(data))
		}
		values, err := floatsOf(data[from:to])
		if err != nil {
			return err
		}
		t := Tensor{DType: F32, Shape: append([]int64{int64(len(values)) / width}, shape...), Floats: values}
		o.LogProbs = append(o.LogProbs, t)
	}
	return nil
}

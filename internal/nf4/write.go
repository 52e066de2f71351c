package nf4

import (
	"encoding/json"
	"io"
	"runtime"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// Sources are the parts of the weight as tensors of a file.
func (q *Weight) Sources(name string) []tensorfile.Source {
	return q.sources(name, tensorfile.FromBytes(name, q.Codes, len(q.Codes), 1))
}

// sources are the parts of the weight, with the given codes.
func (q *Weight) sources(name string, codes tensorfile.Source) []tensorfile.Source {
	s := state{Kind: "nf4", Block: q.Block, Type: "bfloat16", Shape: []int{q.Rows, q.Cols}}
	parts := []tensorfile.Source{codes, tensorfile.FromFloat32s(name+".quant_map", q.Values[:], len(q.Values))}
	if d := q.double; d != nil {
		offset := float64(d.offset)
		s.NestedBlock, s.NestedType, s.NestedOffset = nestedBlockSize, "float32", &offset
		parts = append(parts,
			tensorfile.FromBytes(name+".absmax", d.codes, len(d.codes)),
			tensorfile.FromFloat32s(name+".nested_absmax", d.scales, len(d.scales)),
			tensorfile.FromFloat32s(name+".nested_quant_map", dynamic, len(dynamic)))
	} else {
		parts = append(parts, tensorfile.FromFloat32s(name+".absmax", q.Scales, len(q.Scales)))
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain values can always be encoded
	}
	return append(parts, tensorfile.FromBytes(name+stateName, text, len(text)))
}

// quantised are the parts of a tensor's quantised form. The scales are computed at once, the codes when they are written:
// those of a whole model may not fit into memory.
func quantised(t tensorfile.Tensor, double bool, done func()) []tensorfile.Source {
	q := newWeight(t.Shape[0], t.Shape[1], scalesOf(t), double)
	bytes := (t.Len() + 1) / 2
	codes := tensorfile.Source{Name: t.Name, Plain: true, Shape: []int{bytes, 1}, Write: func(w io.Writer) error {
		defer done()
		return eachRun(t, encode, func(codes []byte) error { _, err := w.Write(codes); return err })
	}}
	return q.sources(t.Name, codes)
}

// runLength is how many weights a core processes at a time: whole blocks.
const runLength = 1 << 18

// eachRun calls compute for each run of a tensor on all cores, and take with the results in order.
func eachRun[T any](t tensorfile.Tensor, compute func(weights []float32) T, take func(T) error) error {
	size, n := t.Encoding.Size(), t.Len()
	answers := make([]T, runtime.GOMAXPROCS(0))
	for at := 0; at < n; {
		var wg sync.WaitGroup
		runs := 0
		for ; runs < len(answers) && at < n; runs++ {
			i, from, to := runs, at, min(at+runLength, n)
			wg.Go(func() {
				weights := make([]float32, to-from)
				tensorfile.Widen(weights, t.Encoding, t.Bytes[from*size:to*size])
				answers[i] = compute(weights)
			})
			at = to
		}
		wg.Wait()
		for _, a := range answers[:runs] {
			if err := take(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// decoded is a quantised weight, dequantised when it is written.
func decoded(m *Matrix, name string, done func()) tensorfile.Source {
	return tensorfile.Source{Name: name, Encoding: m.Type, Shape: []int{m.Rows, m.Cols}, Write: func(w io.Writer) error {
		defer done()
		_, err := w.Write(m.Encode())
		return err
	}}
}

package nf4

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// state is the JSON that describes how a weight was quantised. The nested fields are about the scales, if those are quantised too.
type state struct {
	Kind  string `json:"quant_type"`
	Block int    `json:"blocksize"`
	Type  string `json:"dtype"`
	Shape []int  `json:"shape"`

	NestedBlock  int      `json:"nested_blocksize,omitempty"`
	NestedType   string   `json:"nested_dtype,omitempty"`
	NestedOffset *float64 `json:"nested_offset,omitempty"`
}

// stateName is the suffix of the tensor with the state; other kinds of quantisation have other suffixes.
const (
	anyState  = ".quant_state.bitsandbytes__"
	stateName = anyState + "nf4"
)

// types are the encodings that a weight may have had.
var types = map[string]kernels.Encoding{
	"bfloat16": kernels.EncodedBF16, "float16": kernels.EncodedF16, "float32": kernels.EncodedF32,
}

func (s *state) encoding() kernels.Encoding { return types[s.Type] }
func (s *state) nested() bool               { return s.NestedBlock != 0 }

// maxState is a generous limit on the bytes of a state.
const maxState = 1 << 16

// readState reads the state of a weight, and reports whether there is one.
func readState(set *tensorfile.Set, name string) (s *state, quantised bool, err error) {
	part := name + stateName
	if !set.Has(part) {
		return nil, false, otherQuantisation(set, name)
	}
	text, _, err := set.Bytes(part)
	if err != nil {
		return nil, true, err
	}
	fail := func(format string, args ...any) (*state, bool, error) {
		return nil, true, badinput.Errorf("%s: %q: "+format, append([]any{set.Path(part), part}, args...)...)
	}
	if len(text) > maxState {
		return fail("it has %d bytes, expected a short JSON object", len(text))
	}
	s = &state{}
	if err := json.Unmarshal(text, s); err != nil {
		return fail("it is not the JSON of a state: %w", err)
	}
	switch {
	case s.Kind != "nf4":
		return fail("quant_type: found %q, expected \"nf4\"", s.Kind)
	case s.Block < 1 || s.Block > 1<<20 || s.Block%2 != 0:
		return fail("blocksize: found %d, expected an even number, such as 64", s.Block)
	case !slices.Contains([]string{"bfloat16", "float16", "float32"}, s.Type):
		return fail("dtype: found %q, supported: bfloat16, float16, float32", s.Type)
	case s.nested() && (s.NestedBlock < 1 || s.NestedBlock > 1<<20 || s.NestedOffset == nil):
		return fail("nested_blocksize and nested_offset: expected a positive number, such as 256, and an offset")
	case s.nested() && s.NestedType != "float32":
		return fail("nested_dtype: found %q, expected \"float32\"", s.NestedType)
	}
	return s, true, nil
}

// describe makes the matrix of a state, without codes and scales. It must have that shape.
func (s *state) describe(set *tensorfile.Set, name string, rows, cols int) (*Matrix, error) {
	if !slices.Equal(s.Shape, []int{rows, cols}) {
		return nil, badinput.Errorf("%s: %q: its state says shape %v, expected [%d %d]", set.Path(name), name, s.Shape, rows, cols)
	}
	m := &Matrix{Quantised: kernels.Quantised{Rows: rows, Cols: cols, Block: s.Block}, Type: s.encoding()}
	table, err := floats(set, name+".quant_map", len(m.Values))
	copy(m.Values[:], table)
	return m, err
}

// otherQuantisation refuses a weight that is quantised in another way, naming that.
func otherQuantisation(set *tensorfile.Set, name string) error {
	if _, _, err := set.Bytes(name); err != nil {
		return nil // not quantised, or missing, which reading it reports
	}
	kind := "without a state"
	for _, n := range set.Names() {
		if rest, ok := strings.CutPrefix(n, name+anyState); ok {
			kind = "of kind " + rest
		}
	}
	return badinput.Errorf("%s: %q is quantised (U8, %s); supported: nf4 as bitsandbytes writes it, with %q",
		set.Path(name), name, kind, name+stateName)
}

// scales are the scales of a weight's blocks, decoded if they were quantised.
func (s *state) scales(set *tensorfile.Set, name string, blocks int) ([]float32, error) {
	if !s.nested() {
		return floats(set, name+".absmax", blocks)
	}
	codes, shape, err := set.Bytes(name + ".absmax")
	if err != nil {
		return nil, err
	}
	if len(codes) != blocks {
		return nil, badinput.Errorf("%s: tensor %q has shape %v, expected [%d]", set.Path(name), name+".absmax", shape, blocks)
	}
	table, err := floats(set, name+".nested_quant_map", 256)
	if err != nil {
		return nil, err
	}
	outer, err := floats(set, name+".nested_absmax", (blocks+s.NestedBlock-1)/s.NestedBlock)
	if err != nil {
		return nil, err
	}
	offset := float32(*s.NestedOffset)
	scales := make([]float32, blocks)
	for i, c := range codes {
		scaled := float32(table[c] * outer[i/s.NestedBlock]) // rounded before the sum, as a fused multiply-add gives other bits
		scales[i] = scaled + offset
	}
	return scales, nil
}

package wire

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

func request() ForwardBackward {
	return ForwardBackward{ModelID: "s:train:0", SeqID: 1 << 40, Loss: "ppo", Config: map[string]float64{"a": 0.5, "b": -1}, Data: []Datum{
		{Tokens: []int32{1, 2, 3}, Inputs: map[string]Tensor{"target_tokens": Ints1([]int32{2, 3, 4}), "weights": Floats1([]float32{0, 1, -2})}},
		{Tokens: []int32{9}, Inputs: map[string]Tensor{"w": {DType: F32, Shape: []int64{1, 2}, Floats: []float32{3, 4}}}},
	}}
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	for _, forward := range []bool{false, true} {
		r := request()
		r.ForwardOnly = forward
		back, err := ReadForwardBackward(r.Append(nil))
		require.NoError(t, err)
		require.Equal(t, r, back)
	}
	o := Output{Metrics: map[string]float64{"loss:sum": math.Inf(1)}, LogProbs: []Tensor{
		Floats1([]float32{1, 2}), Floats1([]float32{3}), {DType: F32, Shape: []int64{1, 2}, Floats: []float32{4, 5}}, Floats1(make([]float32, 0)),
	}}
	back, err := ReadOutput(o.Append(nil))
	require.NoError(t, err)
	require.Equal(t, o, back)

	empty := Sequence{Tokens: []int32{}, LogProbs: []float32{}}
	s := Sampled{Sequences: []Sequence{{Length: true, Tokens: []int32{1, -1}, LogProbs: []float32{-1, -2}}, empty},
		Prompt: []float32{1, 2}, Top: &Top{K: 1, Tokens: []int32{7, 8}, LogProbs: []float32{Empty, -1}}, Cached: 3}
	sampled, err := ReadSampled(s.Append(nil))
	require.NoError(t, err)
	require.Equal(t, s, sampled)
	require.NoError(t, fields(Sampled{Top: &Top{K: 2, Tokens: make([]int32, 6)}}.Append(nil), func(top field) error {
		return fields(top.bytes, func(f field) error {
			require.True(t, f.num != 4 || f.bits == 3, "tokens of the prompt: %d", f.bits)
			return nil
		})
	}))
}

// The encoding follows the protobuf definition: one message, written out by hand.
func TestTheBytesOfAMessage(t *testing.T) {
	r := ForwardBackward{ModelID: "m", SeqID: 3, Loss: "l", Data: []Datum{{Tokens: []int32{258}}}}
	require.Equal(t, []byte{
		0x0a, 1, 'm', // 1: model_id
		0x10, 3, // 2: seq_id
		0x1a, 10, // 3: a datum
		0x0a, 8, // 1: a chunk
		0x0a, 6, // 1: of text
		0x0a, 4, 2, 1, 0, 0, // 1: tokens
		0x22, 1, 'l', // 4: loss_fn
	}, r.Append(nil))
}

// sparseTensor is a datum with one sparse matrix.
func sparseTensor(rows, cols, values []byte, shape ...int64) []byte {
	csr := appendMessage(appendMessage(appendMessage(nil, 1, values), 2, rows), 3, cols)
	m := appendPacked(appendNumber(appendMessage(nil, 2, csr), 3, int64(F32)), 4, shape)
	input := appendMessage(appendText(nil, 1, "weights"), 2, m)
	return appendMessage(nil, 3, appendMessage(nil, 2, input))
}

func someSparse() []byte {
	return sparseTensor(longBytes([]int64{0, 1, 1, 3}), longBytes([]int64{1, 0, 2}), floatBytes([]float32{5, 6, 7}), 3, 3)
}

func TestSparseTensorsAreWrittenOut(t *testing.T) {
	r, err := ReadForwardBackward(someSparse())
	require.NoError(t, err)
	require.Equal(t, Tensor{DType: F32, Shape: []int64{3, 3}, Floats: []float32{0, 5, 0, 0, 0, 0, 6, 0, 7}}, r.Data[0].Inputs["weights"])
}

func TestMessagesThatAreWrong(t *testing.T) {
	tensor := func(dtype, n int64, shape ...int64) []byte {
		m := appendPacked(appendNumber(appendMessage(nil, 1, make([]byte, n)), 3, dtype), 4, shape)
		return appendMessage(nil, 3, appendMessage(nil, 2, appendMessage(appendText(nil, 1, "x"), 2, m)))
	}
	text := func(tokens []byte) []byte {
		return appendMessage(nil, 1, appendMessage(nil, 1, appendMessage(nil, 1, tokens)))
	}
	one := longBytes([]int64{0, 1})
	all := sparseTensor(make([]byte, 8*(1<<12+1)), nil, nil, 1<<12, MaxElements>>12)
	var inputs, settings []byte
	for i := range maxInputs + 1 {
		name := appendText(nil, 1, string(rune('A'+i)))
		inputs = appendMessage(inputs, 2, appendMessage(name, 2, appendNumber(nil, 3, 1)))
		settings = appendMessage(settings, 5, appendDouble(name, 2, 1))
	}
	for want, body := range map[string][]byte{
		"unexpected EOF":                      {0x0a, 200},
		"field 1 is not a text":               {0x08, 1},
		"field 1 is not a text of at most":    appendText(nil, 1, string(make([]byte, maxName+1))),
		"field 2 is not a whole number":       {0x12, 0},
		"tensor of type 4":                    tensor(4, 8, 4),
		"tensor of 7 bytes for 2 numbers":     tensor(1, 7, 2),
		"shape [100000 100000]":               tensor(1, 8, 100000, 100000),
		"shape [-1]":                          tensor(1, 8, -1),
		"shape [4611686018427387904 4]":       tensor(1, 8, 1<<62, 4),
		"field 4 has more than 8 numbers":     tensor(1, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1),
		"array of 3 bytes":                    appendMessage(nil, 3, text(make([]byte, 3))),
		"with column 9 of 2":                  sparseTensor(one, longBytes([]int64{9}), make([]byte, 4), 1, 2),
		"with column -1 of 2":                 sparseTensor(one, longBytes([]int64{-1}), make([]byte, 4), 1, 2),
		"rows do not hold its 1":              sparseTensor(longBytes([]int64{0, 7}), longBytes([]int64{0}), make([]byte, 4), 1, 2),
		"with row 0 from 0 to -5":             sparseTensor(longBytes([]int64{0, -5, 1}), longBytes([]int64{0}), make([]byte, 4), 2, 2),
		"sparse tensor of shape [2]":          sparseTensor(one, longBytes([]int64{0}), make([]byte, 4), 2),
		"0 bytes of values, 0 of columns and": sparseTensor(nil, nil, nil, 1<<20, 2),
		"tensor of 12 bytes for 2 numbers":    tensor(1, 12, 2),
		"shape [0 4611686018427387904]":       tensor(1, 0, 0, 1<<62),
		"with column 2 of 2":                  sparseTensor(one, longBytes([]int64{2}), make([]byte, 4), 1, 2),
		"do not hold its 1 values":            sparseTensor(longBytes([]int64{1, 1}), longBytes([]int64{0}), make([]byte, 4), 1, 2),
		"shape [1], expected at most 8388608": append(all[:len(all):len(all)], tensor(1, 4, 1)...),
		"more than 8388608 numbers in a":      append(all[:len(all):len(all)], appendMessage(nil, 3, text(make([]byte, 4)))...),
		"more than 8192 datums":               bytes.Repeat(appendMessage(nil, 3, nil), MaxDatums+1),
		"more than 32 inputs of a datum":      appendMessage(nil, 3, inputs),
		"more than 32 settings":               settings,
	} {
		_, err := ReadForwardBackward(body)
		require.ErrorIs(t, err, ErrMalformed, want)
		require.ErrorContains(t, err, want)
		large := strings.Contains(want, "8388608") || strings.Contains(want, "8192")
		require.False(t, large && strings.Contains(err.Error(), "protobuf"), "a message that is too large is not called malformed protobuf")
	}
	for number, other := range map[protowire.Number]string{2: "an image", 3: "dmel"} {
		r, err := ReadForwardBackward(appendMessage(nil, 3, appendMessage(nil, 1, appendMessage(nil, number, nil))))
		require.NoError(t, err)
		require.Equal(t, other, r.Data[0].Other)
	}
	for _, body := range [][]byte{appendText(nil, 1, "m"), appendNumber(nil, 2, 1)} {
		_, err := ReadSeq(body)
		require.ErrorContains(t, err, "no model_id and seq_id")
	}
}

// JSON names match in any case, as in encoding/json; numbers keep their text.
func TestTheNamesAndNumbersOfJSON(t *testing.T) {
	require.NoError(t, CheckFields([]byte(`{"PATH":"x","Overwrite":true}`), new(Save)))
	require.ErrorContains(t, CheckFields([]byte(`{"pth":"x"}`), new(Save)), "did you mean path?")
	text, err := Canonical([]byte(`{"b":1.50,"a":9007199254740993}`))
	require.NoError(t, err)
	require.Equal(t, `{"a":9007199254740993,"b":1.50}`, string(text))
}

func FuzzForwardBackward(f *testing.F) {
	f.Add(request().Append(nil))
	f.Add(someSparse())
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ReadForwardBackward(body)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := ReadForwardBackward(r.Append(nil))
		require.NoError(t, err)
		require.Equal(t, r.Append(nil), again.Append(nil)) // NaN is not equal to itself
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add(Output{LogProbs: []Tensor{Floats1([]float32{1, 2})}}.Append(nil))
	f.Add(Sampled{Sequences: []Sequence{{Tokens: []int32{1}}}, Top: &Top{K: 1}}.Append(nil))
	f.Add(protowire.AppendTag(nil, 2, protowire.StartGroupType))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = ReadOutput(body)
		_, _ = ReadSampled(body)
	})
}

package model

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func FuzzDatum(f *testing.F) {
	f.Add([]byte(`{"tokens":[1,2,3],"ob_len":1,"logprobs":[0,-1],"advantage":0.5}`))
	f.Add([]byte(`{"tokens":[1],"ob_len":9,"logprobs":[],"advantage":1e40}`))
	f.Add([]byte(`{"tokens":[1,2,3,4],"ob_len":1,"spans":[[1,2],[3,4]],"logprobs":[0,-1,0],"advantage":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var d Datum
		if json.Unmarshal(text, &d) != nil {
			return
		}
		n := len(d.Tokens)
		require.Positive(t, n)
		for _, m := range []int{len(d.Targets), len(d.OldLogProbs), len(d.Advantages), len(d.Mask)} {
			require.Equal(t, n, m)
		}
	})
}

func TestDatumsAreReadAndChecked(t *testing.T) {
	var d Datum
	require.NoError(t, json.Unmarshal([]byte(`{"tokens":[5,6,7,8],"ob_len":2,"logprobs":[0,-1,-2],"advantage":0.5}`), &d))
	require.Equal(t, Datum{Tokens: []int32{5, 6, 7}, Targets: []int32{6, 7, 8}, OldLogProbs: []float32{0, -1, -2},
		Advantages: []float32{0, 0.5, 0.5}, Mask: []bool{false, true, true}}, d)
	require.Equal(t, 2, d.Trainable())
	require.NoError(t, json.Unmarshal([]byte(
		`{"tokens":[5,6,7,8,9],"ob_len":1,"spans":[[1,2],[3,5]],"logprobs":[-3,7,-1,-2],"advantage":0.5}`), &d))
	require.Equal(t, Datum{Tokens: []int32{5, 6, 7, 8}, Targets: []int32{6, 7, 8, 9}, OldLogProbs: []float32{-3, 7, -1, -2},
		Advantages: []float32{0.5, 0, 0.5, 0.5}, Mask: []bool{true, false, true, true}}, d)
	require.Equal(t, 3, d.Trainable())

	for message, text := range map[string]string{
		"tokens: found 1, expected at least 2":       `{"tokens":[1],"ob_len":1,"logprobs":[],"advantage":0}`,
		"logprobs: found 1 for 3 tokens, expected 2": `{"tokens":[1,2,3],"ob_len":1,"logprobs":[0],"advantage":0}`,
		"ob_len: found 0, expected 1 to 2":           `{"tokens":[1,2,3],"ob_len":0,"logprobs":[0,0],"advantage":0}`,
		"ob_len: found 3, expected 1 to 2":           `{"tokens":[1,2,3],"ob_len":3,"logprobs":[0,0],"advantage":0}`,
	} {
		require.EqualError(t, json.Unmarshal([]byte(text), &d), message)
	}
	for spans, message := range map[string]string{
		"[]":            "spans: found [], expected the first to begin at ob_len, 1",
		"[[2,3]]":       "spans: found [[2 3]], expected the first to begin at ob_len, 1",
		"[[1,2],[2,2]]": "spans: found [2 2] in place 1, expected [from, to] after the span before, up to the 3 tokens",
		"[[1,3],[2,3]]": "spans: found [2 3] in place 1, expected [from, to] after the span before, up to the 3 tokens",
		"[[0,2]]":       "spans: found [0 2] in place 0, expected [from, to] after the span before, up to the 3 tokens",
		"[[1,4]]":       "spans: found [1 4] in place 0, expected [from, to] after the span before, up to the 3 tokens",
		"[[1,2,3]]":     "spans: found [1 2 3] in place 0, expected [from, to] after the span before, up to the 3 tokens",
		"[[1]]":         "spans: found [1] in place 0, expected [from, to] after the span before, up to the 3 tokens",
	} {
		text := `{"tokens":[1,2,3],"ob_len":1,"spans":` + spans + `,"logprobs":[0,0],"advantage":0}`
		require.EqualError(t, json.Unmarshal([]byte(text), &d), message)
	}
	c := Config{Vocab: 10, MaxPositions: 3}
	good := func() Datum { return NewDatum([]int32{1, 2, 3, 4}, 1, []float32{-1, -1, -1}, 1) }
	require.NoError(t, good().Check(c))
	for message, spoil := range map[string]func(*Datum){
		"2 targets for 3 tokens":                   func(d *Datum) { d.Targets = d.Targets[:2] },
		"1 mask for 3 tokens":                      func(d *Datum) { d.Mask = d.Mask[:1] },
		"token 10 at position 1, expected 0 to 9":  func(d *Datum) { d.Tokens = []int32{1, 10, 2} },
		"target -2 at position 2, expected 0 to 9": func(d *Datum) { d.Targets = []int32{1, 2, -2} },
		"log-probability NaN and advantage 1 at position 0, expected finite numbers": func(d *Datum) {
			d.OldLogProbs[0] = float32(math.NaN())
		},
	} {
		d := good()
		spoil(&d)
		err := d.Check(c)
		require.EqualError(t, err, message)
		require.True(t, badinput.Is(err))
	}
	long := NewDatum(make([]int32, 5), 1, make([]float32, 4), 1)
	require.EqualError(t, long.Check(c), "sequence of 4 tokens, expected at most 3 positions")
}

func TestPackKeepsEveryTokenOnce(t *testing.T) {
	var datums []Datum
	for i, n := range []int{5, 3, 9, 2, 7, 20, 1} {
		tokens := make([]int32, n+1)
		for k := range tokens {
			tokens[k] = int32(100*i + k)
		}
		datums = append(datums, NewDatum(tokens, 1, make([]float32, n), 1))
	}
	for _, r := range []Reduction{Sum, TokenMean, SequenceMean} {
		seen := map[int32]int{}
		weight := 0.0
		for _, b := range Pack(datums, 10, r) {
			require.True(t, b.Rows() <= 10 || len(b.Sequences) == 1)
			for k := range b.Tokens {
				seen[b.Tokens[k]]++
				require.Equal(t, b.Tokens[k]+1, b.Targets[k])
				weight += float64(b.Weights[k])
			}
			for s, i := range b.Sequences {
				require.Equal(t, datums[i].Tokens, b.Tokens[b.Starts[s]:b.Starts[s+1]])
				require.Equal(t, int32(0), b.Positions[b.Starts[s]])
			}
		}
		require.Len(t, seen, 47)
		for token, n := range seen {
			require.Equal(t, 1, n, token)
		}
		require.InDelta(t, map[Reduction]float64{Sum: 47, TokenMean: 1, SequenceMean: 1}[r], weight, 1e-5)
	}
}

// Invalid arguments of a datum are refused by name, and do not cause an index error somewhere else.
func TestArgumentsThatMakeNoDatum(t *testing.T) {
	tokens, logprobs := []int32{1, 2, 3}, []float32{0, -1}
	for _, c := range []struct {
		want string
		call func()
	}{
		{"model.NewDatum: obLen is 0, expected 1 to 3", func() { NewDatum(tokens, 0, logprobs, 1) }},
		{"model.NewDatum: obLen is 4, expected 1 to 3", func() { NewDatum(tokens, 4, logprobs, 1) }},
		{"model.NewDatum: obLen is 0, expected 1 to 0", func() { NewDatum(nil, 0, nil, 1) }},
		{"model.NewConversation: the beginning of a span is 0, expected 1 to 2",
			func() { NewConversation(tokens, [][2]int{{0, 2}}, logprobs, 1) }},
		{"model.NewConversation: the end of a span is 4, expected 1 to 3", func() { NewConversation(tokens, [][2]int{{1, 4}}, logprobs, 1) }},
		{"model.NewConversation: the end of a span is 1, expected 2 to 3", func() { NewConversation(tokens, [][2]int{{2, 1}}, logprobs, 1) }},
	} {
		require.PanicsWithValue(t, c.want, c.call)
	}
	require.Zero(t, NewDatum(tokens, 3, logprobs, 1).Trainable(), "a completion of no tokens")
	require.ErrorContains(t, NewConversation(nil, nil, nil, 1).Check(Config{Vocab: 8}), "empty sequence")
}

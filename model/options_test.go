package model

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
)

// prompt is one sequence from its first row on, with the draws that draw returns for rows.
func prompt(tokens []int32, stride int, draw func(row int) *Draw) *Rows {
	r := &Rows{Tokens: tokens, Starts: []int32{0, int32(len(tokens))}}
	for p := range tokens {
		r.Positions = append(r.Positions, int32(p))
		if d := draw(p); d != nil {
			d.Row = p
			r.Draws = append(r.Draws, *d)
		}
	}
	for b := range stride {
		r.Tables = append(r.Tables, int32(b))
	}
	return r
}

// A decoder's log-probabilities of given tokens, of the most likely ones, and with a mask equal the scorer's, to the bit; requesting them
// changes no draw.
func TestWhatDrawsAreAskedForIsWhatScoreSays(t *testing.T) {
	inEveryPrecision(t, testOptions)
}

func testOptions(t *testing.T, b kernels.Backend, o Options) {
	p := openGolden(t, b, "qwen3-tied", "", o)
	alone, err := p.Twin()
	require.NoError(t, err)
	a := someAdapter(t, p, lora.Config{Rank: 2, Alpha: 6, Targets: lora.AllTargets()}, 1)
	require.NoError(t, alone.Attach(a))
	d, err := p.NewDecoder(DecoderSize{Blocks: 2, Rows: 32, Sequences: 1, TableStride: 2, Adapters: 1})
	require.NoError(t, err)
	served, err := d.Serve(a)
	require.NoError(t, err)
	tokens := []int32{5, 9, 11, 3, 2, 40, 7, 1, 30, 6}
	const temperature = 0.7
	// For each row: the next token at temperature 1, then a draw at another temperature, with the most likely tokens.
	wish := func(row int) Draw {
		return Draw{Uniform: float64(row) / 11, InvTemp: 1 / float32(temperature), TopP: 0.6}
	}
	r := prompt(tokens, 2, func(row int) *Draw {
		d := wish(row)
		d.Top = row % 4
		return &d
	})
	for row, next := range tokens[1:] {
		r.Draws = append(r.Draws, Draw{Row: row, InvTemp: 1, TopP: 1, Given: true, Target: next})
	}
	r.Adapters = []*Served{served}
	got := runAndCopy(t, d, r)

	scores, err := alone.Score(t.Context(), [][]int32{tokens}, 1)
	require.NoError(t, err)
	n := len(tokens)
	require.Equal(t, tokens[1:], got.Tokens[n:])
	require.Equal(t, scores[0], got.Raw[n:])
	require.Equal(t, scores[0], got.LogProbs[n:])
	wide := 3
	require.Len(t, got.TopTokens, wide*len(r.Draws))
	var said [][]int32 // the token after each row, by sequence
	var logps []float32
	for row := range tokens {
		tops := got.TopLogProbs[row*wide : (row+1)*wide]
		require.True(t, tops[0] > tops[1] && tops[1] > tops[2], "%v", tops)
		for i, token := range append([]int32{got.Tokens[row]}, got.TopTokens[row*wide:(row+1)*wide]...) {
			said = append(said, append(slices.Clone(tokens[:row+1]), token))
			logps = append(logps, append([]float32{got.Raw[row]}, tops...)[i])
		}
	}
	scores, err = alone.Score(t.Context(), said, temperature)
	require.NoError(t, err)
	for i, s := range scores {
		require.Equal(t, s[len(s)-1], logps[i], "%v", said[i])
	}

	testOptionsChangeNoDraw(t, d, got, func() *Rows {
		plain := prompt(tokens, 2, func(row int) *Draw { d := wish(row); return &d })
		plain.Adapters = r.Adapters
		return plain
	})
}

// testOptionsChangeNoDraw: rows draw the same with masks that allow everything, and without the options; if a mask allows one token, that
// one is drawn.
func testOptionsChangeNoDraw(t *testing.T, d *Decoder, asked Drawn, rows func() *Rows) {
	plain := rows()
	n := len(plain.Draws)
	bare := runAndCopy(t, d, plain)
	require.Nil(t, bare.Raw)
	require.Nil(t, bare.TopTokens)
	require.Equal(t, bare.Tokens, asked.Tokens[:n])
	require.Equal(t, bare.LogProbs, asked.LogProbs[:n])

	words := MaskWords(d.p.Vocab)
	plain.Masks, plain.Raw = make([]uint32, words*n), true
	for i := range plain.Masks {
		plain.Masks[i] = ^uint32(0)
	}
	clear(plain.Masks[2*words : 3*words])
	plain.Masks[2*words+1] = 1 << 5 // only token 37 is allowed after row 2
	masked := runAndCopy(t, d, plain)
	require.EqualValues(t, 37, masked.Tokens[2])
	require.Zero(t, masked.LogProbs[2])
	require.Less(t, masked.Raw[2], float32(0))
	masked.Tokens[2], masked.LogProbs[2], masked.Raw[2] = asked.Tokens[2], asked.LogProbs[2], asked.Raw[2]
	require.Equal(t, bare.Tokens, masked.Tokens)
	require.Equal(t, bare.LogProbs, masked.LogProbs)
	require.Equal(t, asked.Raw[:n], masked.Raw)
}

// runAndCopy runs rows, and copies the results, which the next run overwrites.
func runAndCopy(t *testing.T, d *Decoder, r *Rows) Drawn {
	t.Helper()
	got, err := d.Run(r)
	require.NoError(t, err)
	return Drawn{Tokens: slices.Clone(got.Tokens), LogProbs: slices.Clone(got.LogProbs), Raw: slices.Clone(got.Raw),
		TopTokens: slices.Clone(got.TopTokens), TopLogProbs: slices.Clone(got.TopLogProbs)}
}

// Invalid draws are refused, and the decoder works afterwards.
func TestDrawsThatCannotBe(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	p := openGolden(t, b, "qwen3-tied", "", Options{})
	d, err := p.NewDecoder(DecoderSize{Blocks: 1, Rows: 8, Sequences: 1, TableStride: 1})
	require.NoError(t, err)
	rows := func(of Draw) *Rows { return prompt([]int32{1, 2}, 1, func(int) *Draw { return &of }) }
	for words, r := range map[string]*Rows{
		"draw 0: the -1 most likely tokens, expected 0 to 128":  rows(Draw{Top: -1}),
		"draw 0: the 129 most likely tokens, expected 0 to 128": rows(Draw{Top: 129}),
		"draw 0: token -1 is given, expected 0 to":              rows(Draw{Given: true, Target: -1}),
		fmt.Sprintf("draw 0: token %d is given", p.Vocab):       rows(Draw{Given: true, Target: int32(p.Vocab)}),
		"words of masks for 2 draws": {Tokens: []int32{1}, Positions: []int32{0}, Starts: []int32{0, 1}, Tables: []int32{0},
			Draws: make([]Draw, 2), Masks: make([]uint32, MaskWords(p.Vocab))},
	} {
		_, err := d.Run(r)
		require.ErrorContains(t, err, words)
	}
	got, err := d.Run(rows(Draw{Top: MostTops, TopP: 1}))
	require.NoError(t, err)
	require.Len(t, got.TopTokens, 2*min(MostTops, p.Vocab))
}

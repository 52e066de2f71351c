package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
)

// An adapter that is none, or has numbers that are none, is attached and served nowhere: every token would be drawn from NaN.
func TestAdaptersThatAreRefused(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p, err := Random(b, "tiny/1", Options{})
	require.NoError(t, err)
	d, err := p.NewDecoder(DecoderSize{Blocks: 2, Rows: 2, Sequences: 1, TableStride: 1, Adapters: 1})
	require.NoError(t, err)
	l, err := lora.NewLayout(lora.Config{Rank: 2, Alpha: 2, Targets: lora.AllTargets()}, p.LoRADims())
	require.NoError(t, err)
	broken := lora.New(l)
	broken.Values[0] = float32(math.NaN())
	other, err := lora.NewLayout(lora.Defaults(), lora.Dims{Layers: 1, Hidden: 4, Q: 4, KV: 4, Intermediate: 8})
	require.NoError(t, err)
	for want, a := range map[string]*lora.Adapter{
		"the adapter has no layout; make it by lora.New":                                       {},
		"the adapter has 0 numbers, but its layout has":                                        {Layout: l},
		"the adapter has 3 numbers, but its layout has":                                        {Layout: l, Values: make([]float32, 3)},
		"has NaN at offset 0, in base_model.model.model.layers.0.self_attn.q_proj.lora_A":      broken,
		"the adapter is for a model of sizes {Layers:1 Hidden:4 Q:4 KV:4 Intermediate:8}, but": lora.New(other),
	} {
		require.ErrorContains(t, p.Attach(a), want)
		_, err = d.Serve(a)
		require.ErrorContains(t, err, want)
	}
	_, err = d.Serve(lora.New(l)) // those that were refused took no slot
	require.NoError(t, err)
}

// Rows that do not go together are refused, instead of computed with numbers of an earlier run.
func TestRowsThatDoNotGoTogether(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p, err := Random(b, "tiny/1", Options{})
	require.NoError(t, err)
	d, err := p.NewDecoder(DecoderSize{Blocks: 4, Rows: 8, Sequences: 2, TableStride: 2})
	require.NoError(t, err)
	for want, change := range map[string]func(r *Rows){
		"1 positions for 2 tokens, expected one for each":       func(r *Rows) { r.Positions = r.Positions[:1] },
		"1 blocks in the tables of 1 sequences, expected 2":     func(r *Rows) { r.Tables = r.Tables[:1] },
		"2 rows, and starts from 0 to 0; expected 0, then":      func(r *Rows) { r.Starts = r.Starts[:1] },
		"2 rows, and no starts; expected 0":                     func(r *Rows) { r.Starts = nil },
		"2 rows, and starts from 0 to 1; expected 0":            func(r *Rows) { r.Starts[1] = 1 },
		"sequence 1 is rows 3 to 2":                             func(r *Rows) { r.Starts, r.Tables = []int32{0, 3, 2}, []int32{0, 1, 2, 3} },
		"2 adapters for 1 runs of rows":                         func(r *Rows) { r.Adapters = make([]*Served, 2) },
		"draw 0 is {Row:2 Uniform:0":                            func(r *Rows) { r.Draws[0].Row = 2 },
		"draw 0 is {Row:-1 Uniform:0":                           func(r *Rows) { r.Draws[0].Row = -1 },
		"draw 0 is {Row:1 Uniform:1 InvTemp:0":                  func(r *Rows) { r.Draws[0].Uniform = 1 },
		"expected a row of 2, Uniform in [0, 1) and an InvTemp": func(r *Rows) { r.Draws[0].InvTemp = float32(math.NaN()) },
	} {
		rows := Rows{Tokens: []int32{1, 2}, Positions: []int32{0, 1}, Starts: []int32{0, 2}, Tables: []int32{0, 1},
			Draws: []Draw{{Row: 1, TopP: 1}}}
		_, err := d.Run(&rows)
		require.NoError(t, err)
		change(&rows)
		_, err = d.Run(&rows)
		require.ErrorContains(t, err, want)
	}
	require.PanicsWithValue(t, "model.Decoder.CopyBlocks: the length of from is 0, expected 1 to 1",
		func() { d.CopyBlocks([]int32{1}, nil) })
}

// A clip range that was left out would make every loss and gradient zero.
func TestALossWithoutItsClipRange(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p, err := Random(b, "tiny/1", Options{})
	require.NoError(t, err)
	for _, l := range []kernels.Loss{{Kind: kernels.PPO}, {Kind: kernels.CISPO}, {Kind: kernels.PPO, Low: 1.2, High: 0.8}} {
		_, err = p.Accumulate(t.Context(), nil, Objective{Loss: l, Temperature: 1})
		require.ErrorContains(t, err, "it bounds the ratio itself, as 0.8 and 1.2 do; kernels.ParseLoss gives the usual one")
	}
}

// Options out of their range are named.
func TestOptionsThatCannotBe(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	require.Panics(t, func() { _, _ = Random(b, "tiny/1", Options{MaxRows: -1}) })
	require.PanicsWithValue(t, "model.Options: a precision is 4, expected 0 to 3",
		func() { _, _ = Random(b, "tiny/1", Options{Cache: Auto + 1}) })
}

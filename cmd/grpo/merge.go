package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
)

func newMergeCmd() *cobra.Command {
	var flags policyFlags
	var out string
	place := func() destination.Place {
		return destination.Place{Flag: "--out", Path: out, IsDir: true, ReplaceEmpty: true}
	}
	cmd := &cobra.Command{
		Use:   "merge --model DIR --adapter DIR --out DIR",
		Short: "Merge an adapter into the weights of a model",
		Long: `Writes W + (alpha/rank)·B·A for every adapted weight, rounded once to the encoding of the model. Then it checks every number
that it wrote against that sum, within the rounding of the encoding, loads the model and compares log-probabilities. DIR appears
only if all agree. An adapter so small that rounding would lose nearly all of it is refused. Four-bit weights are first decoded
to bf16, and the result is in bf16. For the adapter of a run with quantize=nf4 give --quantize nf4: it is merged into the
weights that the run saw, so the result is the model that was trained.`,
		Example: `  grpo merge --model ~/Qwen3-0.6B --adapter runs/x/checkpoints/step_000060/adapter --out ~/Qwen3-0.6B-coder`,
		Args:    usage.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := merge(cmd.Context(), &flags, out)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), report)
			}
			return place().Failed(err)
		},
	}
	flags.register(cmd)
	usage.CheckBefore(cmd, func([]string) error { return place().Check() })
	cmd.Flags().StringVar(&out, "out", "", "`directory` to write; must be empty or not there yet")
	must(cmd.MarkFlagRequired("adapter"))
	must(cmd.MarkFlagRequired("out"))
	return cmd
}

// merge merges into a temporary folder, verifies, and then renames that to its destination.
func merge(ctx context.Context, f *policyFlags, out string) (report string, err error) {
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return "", badinput.Errorf("--out %s: not empty; expected a new directory", out)
	}
	var probe [][]int32
	var adapted, base [][]float32
	score := func(p *model.Policy, to *[][]float32) (err error) {
		*to, err = p.Score(ctx, probe, 1)
		return err
	}
	var adapter *lora.Adapter
	err = f.withModel(ctx, false, func(_ kernels.Backend, p *model.Policy) error {
		probe = probeSequences(p.Vocab, p.MaxPositions)
		if err := score(p, &base); err != nil {
			return err
		}
		if adapter, err = lora.Load(f.adapter, p.LoRADims()); err != nil {
			return err
		}
		if err := p.Attach(adapter); err != nil {
			return err
		}
		return score(p, &adapted)
	})
	if err != nil {
		return "", err
	}
	out = atomicfile.ResolveLink(out)
	beside, done, err := atomicfile.TempDir(out)
	if err != nil {
		return "", err
	}
	defer done()
	unchecked := filepath.Join(beside, "model")
	kept, note, err := mergeWeights(ctx, f, adapter, beside, unchecked)
	if err != nil {
		return "", err
	}
	check := *f
	check.model, check.adapter, check.quantize = unchecked, "", "none"
	var merged [][]float32
	if err := check.withModel(ctx, false, func(_ kernels.Backend, p *model.Policy) error { return score(p, &merged) }); err != nil {
		return "", fmt.Errorf("reload the merged model: %w", err)
	}
	if err := compareMerged(base, adapted, merged); err != nil {
		return "", err
	}
	if err := os.Remove(out); err != nil && !os.IsNotExist(err) {
		return "", err
	}
	if err := os.Rename(unchecked, out); err != nil {
		return "", err
	}
	if err := atomicfile.SyncDir(filepath.Dir(out)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %.1f %% of the adapter is in the rounded weights; "+
		"log-probabilities differ from the adapted model's by %.2g on average; the adapter changes them by %.2g%s",
		out, 100*kept, meanDifference(adapted, merged), meanDifference(adapted, base), note), nil
}

// mergeWeights writes the merged model and compares its weights. beside is a folder for temporary files.
func mergeWeights(ctx context.Context, f *policyFlags, adapter *lora.Adapter, beside, out string) (kept float64, note string, err error) {
	dir, note, err := f.dequantised(ctx, beside)
	if err != nil {
		return 0, "", err
	}
	if err := lora.MergeContext(ctx, dir, adapter, out); err != nil {
		return 0, "", err
	}
	if kept, err = lora.CheckMergeContext(ctx, dir, adapter, out); err != nil {
		return 0, "", fmt.Errorf("the merged model is not the adapted one, and nothing was written: %w", err)
	}
	return kept, note, nil
}

// dequantised is a model that an adapter can be added to: a dequantised copy if it has four-bit weights, or had while the
// adapter was trained. beside is a folder for temporary files.
func (f *policyFlags) dequantised(ctx context.Context, beside string) (dir, note string, err error) {
	quantised, err := nf4.IsModel(f.model)
	if err != nil || !quantised && f.quantize == "none" {
		return f.model, "", err
	}
	dir, codes := filepath.Join(beside, "numbers"), f.model
	if !quantised {
		codes = filepath.Join(beside, "codes")
		err = nf4.QuantiseModel(ctx, f.model, codes, true)
	}
	if err == nil {
		err = nf4.DequantiseModel(ctx, codes, dir)
	}
	return dir, "; the model's four-bit weights were decoded to bf16 first: the result is no longer quantised", err
}

// roundingNoise is how much rounding all weights to 16 bits may change a log-probability on average. It is no bound: the
// weights themselves have been compared, and this detects a model that computes something else.
const roundingNoise = 0.05

// compareMerged checks that the merged model is close to the adapted one, up to rounding: closer than the base model is,
// unless the adapter changes less than rounding does.
func compareMerged(base, adapted, merged [][]float32) error {
	off, moved := meanDifference(adapted, merged), meanDifference(adapted, base)
	if !(off <= roundingNoise && (off < moved/2 || moved < roundingNoise)) {
		return fmt.Errorf("the merged model is not the adapted one: log-probabilities differ by %.3g on average, "+
			"and the adapter changes them by %.3g; nothing was written", off, moved)
	}
	return nil
}

// probeSequences are tokens to compare models with.
func probeSequences(vocab, positions int) [][]int32 {
	rng := rand.New(rand.NewPCG(7, 11))
	probe := make([][]int32, 4)
	for i := range probe {
		probe[i] = make([]int32, min(64, positions))
		for k := range probe[i] {
			probe[i][k] = rng.Int32N(int32(vocab))
		}
	}
	return probe
}

func meanDifference(a, b [][]float32) float64 {
	sum, n := 0.0, 0
	for i := range a {
		for k := range a[i] {
			sum += math.Abs(float64(a[i][k]) - float64(b[i][k]))
			n++
		}
	}
	return sum / float64(n)
}

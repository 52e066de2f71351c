package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

func newQuantizeCmd() *cobra.Command {
	var from, out string
	var double, undo bool
	place := func() destination.Place {
		return destination.Place{Flag: "--out", Path: out, IsDir: true, ReplaceEmpty: true}
	}
	cmd := &cobra.Command{
		Use:   "quantize --model DIR --out DIR",
		Short: "Quantise a model to four bits per weight",
		Long: `Writes the layers' matrices of a bf16 model in NF4, in the format of bitsandbytes: a four-bit code for each weight and a
scale for each 64 weights, about 0.52 bytes a weight, or 0.56 with --double=false. The embedding, the head and the norms
stay as they are. The result is a model like any other: train an adapter on it, sample from it, merge into it.

With --undo it decodes such a model to bf16 again.`,
		Example: `  grpo quantize --model Qwen/Qwen3-4B --out ~/Qwen3-4B-nf4`,
		Args:    usage.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := grpo.ModelDir(cmd.Context(), from)
			if err == nil {
				err = provenance.CheckIntact(dir)
			}
			if err != nil {
				return err
			}
			if err := quantize(cmd.Context(), dir, out, double, undo); err != nil {
				return place().Failed(err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s of weights, %s before\n", out, weightsOf(out), weightsOf(dir))
			return nil
		},
	}
	usage.CheckBefore(cmd, func([]string) error { return place().Check() })
	cmd.Flags().StringVar(&from, "model", "", "Hugging Face model `directory`, name on the Hub, or tiny, the built-in model")
	cmd.Flags().StringVar(&out, "out", "", "`directory` to write; must be empty or not there yet")
	cmd.Flags().BoolVar(&double, "double", true, "quantise the scales, too, to eight bits")
	cmd.Flags().BoolVar(&undo, "undo", false, "decode a four-bit model to bf16")
	cmd.MarkFlagsMutuallyExclusive("double", "undo")
	must(cmd.MarkFlagRequired("model"))
	must(cmd.MarkFlagRequired("out"))
	return cmd
}

// quantize writes the model in dir, quantised or dequantised, to the folder out.
func quantize(ctx context.Context, dir, out string, double, undo bool) error {
	if err := checkOpens(dir, undo); err != nil {
		return err
	}
	if undo {
		return nf4.DequantiseModel(ctx, dir, out)
	}
	return atomicfile.WriteDir(out, func(unfinished string) error {
		if err := nf4.QuantiseModel(ctx, dir, unfinished, double); err != nil {
			return err
		}
		return provenance.WriteQuantised(dir, unfinished) // part of the model from the start
	})
}

// checkOpens refuses a model that could not be opened once it is written. It reads no weights.
func checkOpens(dir string, stored bool) error {
	b, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		return err
	}
	defer b.Close()
	o := model.Options{Quantise: model.NF4}
	if stored {
		o.Quantise = model.AsStored
	}
	_, err = model.Sketch(kernels.NewLedger(b), dir, false, o)
	return err
}

// weightsOf is the size of the weight files that are loaded, without other files beside them.
func weightsOf(dir string) string {
	bytes := int64(0)
	if set, err := tensorfile.OpenModel(dir); err == nil {
		for _, f := range set.Files() {
			if info, err := os.Stat(f.Path()); err == nil {
				bytes += info.Size()
			}
		}
		set.Close()
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/gguf"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Machine is what the command line provides to the verbs.
type Machine struct {
	// Open opens a device.
	Open func(ctx context.Context, device string, threads int) (kernels.Backend, error)
}

// The formats of a model.
const (
	formatSafetensors = "safetensors"
	formatGGUF        = "gguf"
)

// exportFlags are the flags of the verb export-model.
type exportFlags struct {
	origin
	machine           Machine
	out, format, kind string
	device            string
	threads           int
}

// ExportModel is the verb.
func ExportModel(m Machine) *cobra.Command {
	f := exportFlags{machine: m}
	cmd := &cobra.Command{
		Use:   "export-model RUN|--model DIR [--adapter DIR] --out DIR",
		Short: "Export a trained model to other programs: safetensors, or GGUF for llama.cpp and Ollama",
		Long: `Merges the adapter into the model, writes the model, loads the written files again, and compares log-probabilities
and greedy answers with those of the policy. DIR appears only if they agree; differences are printed.

  safetensors  a Hugging Face directory, for transformers, vLLM and grpo itself
  gguf         one file with tokenizer and chat template, for llama.cpp and programs based on it, and a Modelfile:
               type ollama create NAME -f DIR/Modelfile

--type is the number format of the weights: bf16 and f16 (16 bits) are exact for a model of the same type; q8_0 (8.5 bits) and
q4_0 (4.5), for GGUF only, cost accuracy: the last lines say how much. GGUF supports Qwen2, Qwen3, Llama, Mistral and Gemma 2.`,
		Example: `  grpo export-model runs/x --out ~/coder --format gguf
  grpo export-model runs/x --step 20 --out ~/coder-q8 --format gguf --type q8_0
  grpo export-model --model ~/Qwen3-0.6B --adapter ~/adapter --out ~/merged`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.place().Failed(f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	usage.CheckBefore(cmd, f.check)
	f.origin.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "`directory` to write; must be empty or not there yet")
	fl.StringVar(&f.format, "format", formatSafetensors, "`format`: safetensors or gguf")
	fl.StringVar(&f.kind, "type", "", "number format of the weights: `bf16` or f16; for gguf also q8_0, q4_0 or f32 "+
		"(default bf16, or f16 for a model in f16)")
	fl.StringVar(&f.device, "device", "auto", "device of the comparison: auto, cpu, or the card `cuda:N`")
	fl.IntVar(&f.threads, "threads", 0, "worker `threads`; 0: one per core")
	return cmd
}

func (f *exportFlags) place() destination.Place {
	return destination.Place{Flag: "--out", Path: f.out, IsDir: true, ReplaceEmpty: true, Run: f.origin.recorded}
}

// check checks the command line before anything is opened.
func (f *exportFlags) check(args []string) error {
	if err := f.origin.check("export-model", args); err != nil {
		return err
	}
	types := map[string][]string{formatSafetensors: {"bf16", "f16"}, formatGGUF: gguf.Types()}[f.format]
	switch {
	case types == nil:
		return badinput.Errorf("--format: found %q, expected safetensors or gguf", f.format)
	case f.out == "":
		return badinput.Errorf("--out is missing; type --out DIR")
	case f.kind != "" && !slices.Contains(types, f.kind) && slices.Contains(gguf.Types(), f.kind):
		return badinput.Errorf("--type %s is of GGUF; type --format gguf --type %[1]s, or --type bf16", f.kind)
	case f.kind != "" && !slices.Contains(types, f.kind):
		return badinput.Errorf("--type: found %q, expected %s", f.kind, strings.Join(types, ", "))
	}
	if err := configs.CheckThreads(f.threads); err != nil {
		return err
	}
	if err := f.place().Check(); err != nil {
		return err
	}
	if entries, err := os.ReadDir(f.out); err == nil && len(entries) > 0 {
		return badinput.Errorf("--out %s: not empty; choose a new directory", f.out)
	}
	return nil
}

// run merges, writes and compares.
func (f *exportFlags) run(ctx context.Context, args []string, out, talk io.Writer) (err error) {
	source, err := f.origin.find(ctx, talk)
	if err != nil {
		return err
	}
	if f.format == formatGGUF {
		source.positions = gguf.Positions
		if err := gguf.Check(source.dir); err != nil { // before merging, so that errors name the user's path
			return err
		}
	}
	if f.kind == "" {
		if f.kind, err = source.usualType(); err != nil {
			return err
		}
	}
	var want, got *probe
	if err := f.with(ctx, func(b kernels.Backend) (err error) {
		want, err = source.policyProbe(ctx, b)
		return err
	}); err != nil {
		return err
	}
	path, err := filepath.Abs(f.out)
	if err != nil {
		return err
	}
	beside, done, err := atomicfile.TempDir(path)
	if err != nil {
		return badinput.Errorf("--out: %w", err)
	}
	defer done()
	merged, kept, err := source.merged(ctx, beside)
	if err != nil {
		return err
	}
	var lines []string
	err = atomicfile.WriteDir(path, func(unfinished string) error {
		w := modelWriting{source: source, merged: merged, kind: f.kind, dir: unfinished}
		written, err := w.write(ctx, f.format)
		if err != nil {
			return err
		}
		if err := f.with(ctx, func(b kernels.Backend) (err error) {
			got, err = written.probe(ctx, b, want)
			return err
		}); err != nil {
			return fmt.Errorf("open what was written: %w", err)
		}
		verdict, err := compare(want, got, f.kind)
		lines = slices.Concat(written.lines(f.out), kept, verdict)
		return err
	})
	if err != nil {
		return err
	}
	done() // clean up first: a closed pipe may end the process when it prints
	_, err = fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// with opens a device and calls fn; closing it frees the memory of a model.
func (f *exportFlags) with(ctx context.Context, fn func(kernels.Backend) error) error {
	b, err := f.machine.Open(ctx, f.device, f.threads)
	if err != nil {
		return err
	}
	if _, err = kernels.Choose(b, "auto"); err == nil {
		err = fn(b)
	}
	return errors.Join(err, b.Close())
}

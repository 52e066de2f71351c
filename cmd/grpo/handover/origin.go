package handover

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
)

// origin is how a user names a policy: as a run, or as a model with an adapter.
type origin struct {
	recorded       string // the run's directory
	step           int
	model, adapter string
	quantize       string
}

func (o *origin) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&o.model, "model", "", "instead of a run: Hugging Face model `directory`, name on the Hub, or tiny, the built-in model")
	fl.StringVar(&o.adapter, "adapter", "", "PEFT adapter `directory`, with --model")
	fl.IntVar(&o.step, "step", -1, "use the checkpoint of this step of the run, not the last")
	fl.StringVar(&o.quantize, "quantize", "none", "quantisation that the adapter was trained with, with --model: none or `nf4`")
}

// check checks the flags before anything is opened.
func (o *origin) check(verb string, args []string) error {
	_, err := model.ParseQuantisation(o.quantize)
	switch {
	case len(args) > 1:
		return badinput.Errorf("found %q, which is one word too many; type grpo %s RUN --out DIR", args[1], verb)
	case len(args) == 0 && o.model == "":
		return badinput.Errorf("expected the directory of a run, or --model; type grpo %s RUN --out DIR", verb)
	case len(args) == 1 && (o.model != "" || o.adapter != "" || o.quantize != "none"):
		return badinput.Errorf("found the run %s beside --model, --adapter or --quantize; leave one of them out", args[0])
	case len(args) == 0 && o.step >= 0:
		return badinput.Errorf("--step needs a run; type grpo %s RUN --step %d --out DIR", verb, o.step)
	case err != nil:
		return badinput.Errorf("--quantize: %w", err)
	}
	if len(args) == 1 {
		o.recorded = args[0]
	}
	return nil
}

// source is a policy: a model's directory, and an adapter.
type source struct {
	name     string // for messages
	dir      string
	adapter  string // "": none
	quantise model.Quantisation
	tok      *tokenizer.Tokenizer // nil: the model has none
	renderer *chat.Renderer       // nil: it has no chat template
	stops    []int32              // stop tokens

	positions func(model.Config) int // positions of the written model; nil: those of the policy
}

// find opens everything of a policy except its weights.
func (o *origin) find(ctx context.Context, talk io.Writer) (s *source, err error) {
	if o.recorded != "" {
		return o.ofRun(ctx, talk)
	}
	s = &source{adapter: o.adapter}
	s.quantise, _ = model.ParseQuantisation(o.quantize) // validated by check
	if err = provenance.CheckIntact(s.adapter); err != nil {
		return nil, err
	}
	if s.dir, err = grpo.ModelDir(ctx, o.model); err != nil {
		return nil, err
	}
	if err = cmp.Or(provenance.CheckIntact(s.dir), provenance.CheckBase(s.adapter, s.dir)); err != nil {
		return nil, err
	}
	s.name = nameOf(o.model)
	if s.tok, err = loadTokenizer(s.dir); err != nil {
		return nil, err
	}
	var end []int32
	if s.tok != nil && s.tok.ChatTemplate() != "" {
		if s.renderer, err = chat.ForModel(s.tok, chat.Options{Date: templateDate}); err != nil {
			return nil, err
		}
		end = s.renderer.Stop()
	}
	s.stops, err = tokenizer.StopTokens(s.dir, s.tok, end...)
	return s, err
}

// templateDate is the date for chat templates that include one; any date does for a comparison.
const templateDate = "2024-07-26"

// ofRun is the policy of a run.
func (o *origin) ofRun(ctx context.Context, talk io.Writer) (*source, error) {
	saved, err := grpo.OpenSaved(o.recorded, o.step, screen.New(io.Discard, talk, true, false))
	if err != nil {
		return nil, err
	}
	language, err := saved.Language(ctx)
	if err != nil {
		return nil, err
	}
	s := &source{dir: language.Dir, adapter: saved.Trained(), tok: language.Tokenizer, renderer: language.Renderer, stops: language.Stops}
	if saved.Settings.Train == "full" {
		s.dir, s.adapter = saved.Trained(), ""
	}
	s.name = nameOf(saved.Settings.RunDir)
	s.quantise, err = model.ParseQuantisation(saved.Settings.Quantize)
	return s, err
}

// nameOf is the last part of a path, reduced to characters that are safe in file names; "model" if none are left.
func nameOf(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	name := strings.Trim(strings.Map(func(r rune) rune {
		if strings.ContainsRune("-._", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, filepath.Base(path)), ".-_")
	return cmp.Or(name, "model")
}

// loadTokenizer opens a model's tokenizer, which may not exist.
func loadTokenizer(dir string) (*tokenizer.Tokenizer, error) {
	if !isFile(filepath.Join(dir, "tokenizer.json")) {
		return nil, nil
	}
	return tokenizer.Load(dir)
}

// usualType is the default type of weights.
func (s *source) usualType() (kind string, err error) {
	set, err := tensorfile.OpenModel(s.dir)
	if err != nil {
		return "", err
	}
	defer set.Close()
	table, err := set.Tensor("model.embed_tokens.weight")
	if err == nil && table.Encoding == kernels.EncodedF16 {
		return "f16", nil
	}
	return "bf16", err
}

// merged is the model with the adapter merged into its weights, dequantised: its own directory if there is nothing to do,
// else one made in beside. lines report on the adapter.
func (s *source) merged(ctx context.Context, beside string) (dir string, lines []string, err error) {
	quantised, err := nf4.IsModel(s.dir)
	if err != nil {
		return "", nil, err
	}
	dir = s.dir
	if quantised || s.quantise == model.NF4 {
		if dir, err = dequantised(ctx, s.dir, quantised, beside); err != nil {
			return "", nil, err
		}
		lines = append(lines, "weights in four bits were decoded first")
	}
	if s.adapter == "" {
		return dir, lines, nil
	}
	cfg, err := model.ReadConfig(s.dir)
	if err != nil {
		return "", nil, err
	}
	adapter, err := lora.Load(s.adapter, cfg.LoRADims())
	if err != nil {
		return "", nil, err
	}
	to := filepath.Join(beside, "merged")
	if err := lora.MergeContext(ctx, dir, adapter, to); err != nil {
		return "", nil, err
	}
	kept, err := lora.CheckMergeContext(ctx, dir, adapter, to)
	if err != nil {
		return "", nil, fmt.Errorf("the merged model is not the adapted one, and nothing was written: %w", err)
	}
	return to, append(lines, fmt.Sprintf("adapter: %.1f %% of it is in the weights once these are rounded as the model's are", 100*kept)), nil
}

// dequantised dequantises the model in dir, which is quantised already, or is seen so by a run with quantize=nf4.
func dequantised(ctx context.Context, dir string, quantised bool, beside string) (decoded string, err error) {
	codes, decoded := dir, filepath.Join(beside, "numbers")
	if !quantised {
		codes = filepath.Join(beside, "codes")
		err = nf4.QuantiseModel(ctx, dir, codes, true)
	}
	if err == nil {
		err = nf4.DequantiseModel(ctx, codes, decoded)
	}
	return decoded, err
}

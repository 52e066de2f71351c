package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/rebuild"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/device"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
)

// policyFlags are the flags of every verb that opens a model.
type policyFlags struct {
	model, adapter string
	precision      string
	kv             string
	adapted        string // precision of the adapter
	quantize       string
	order          string
	kept           bool // the summation order is that of a run
	device         string
	threads        int
	rows           int
	learns         bool // the verb trains
}

func (f *policyFlags) register(cmd *cobra.Command) {
	f.registerAll(cmd)
	must(cmd.MarkFlagRequired("model"))
}

// registerAll is register for a verb to which a model is optional.
func (f *policyFlags) registerAll(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.model, "model", "", "Hugging Face model `directory`, name on the Hub, or tiny, the built-in model")
	cmd.Flags().StringVar(&f.adapter, "adapter", "", "PEFT adapter `directory`")
	f.registerSpeed(cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err = cmp.Or(f.check(), rebuild.ExecIfNeeded(cmd.Context(), f.device)); err != nil {
			return err
		}
		if f.model != "" {
			f.model, err = grpo.ModelDir(cmd.Context(), f.model)
			if err = cmp.Or(err, provenance.CheckIntact(f.model)); err != nil {
				return err
			}
		}
		return run(cmd, args)
	}
}

// registerSpeed adds the flags about the machine.
func (f *policyFlags) registerSpeed(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.precision, "precision", "auto", "rounding of activations before they are multiplied by a bf16 "+
		"weight: f32, none; `bf16`, faster on processors with bf16 instructions; int16, for four-bit weights on a processor; "+
		"auto, bf16 on a card, else f32")
	cmd.Flags().StringVar(&f.kv, "kv-cache-dtype", "auto",
		"number format of the KV cache: f32, `bf16`, or auto: that of --precision on a card and with --order tiles, else f32")
	cmd.Flags().StringVar(&f.adapted, "adapter-precision", "auto", "rounding of an adapter's matrices and their inputs in products: "+
		"f32, `bf16`, or auto, bf16 with --precision bf16 and --order tiles, else f32")
	cmd.Flags().StringVar(&f.quantize, "quantize", "none", "store the layers of a bf16 model in four bits per weight: none or `nf4`")
	cmd.Flags().StringVar(&f.order, "order", "auto", "order in which products are added: serial, one by one; `tiles`, that of a "+
		"processor's tile unit (AMX); auto, tiles if the processor has one. On a card only auto")
	registerDevice(cmd, &f.device)
	cmd.Flags().IntVar(&f.threads, "threads", 0, "worker `threads`; 0: one per core. Results do not depend on them")
	cmd.Flags().IntVar(&f.rows, "max-rows", 0, "tokens in a batch; 0: 512. Changes no scores, and only the last bits of gradients")
}

// registerDevice adds the flag --device.
func registerDevice(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "device", "auto",
		"device: cpu, the card `cuda:N`, or auto: the first card, or the processor if there is no card")
}

// openDevice returns a function that opens a device. If that is a GPU and this program has no GPU backend, the process
// restarts as one that has; nothing is open yet.
func openDevice(ctx context.Context) bench.Opener {
	return func(name string, threads int) (kernels.Backend, error) {
		if err := rebuild.ExecIfNeeded(ctx, name); err != nil {
			return nil, err
		}
		return device.Open(name, threads)
	}
}

// backend opens the device of the flags.
func (f *policyFlags) backend() (kernels.Backend, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.ordered(device.Open)(f.device, f.threads)
}

// ordered wraps open to set the summation order of the flags.
func (f *policyFlags) ordered(open bench.Opener) bench.Opener {
	return func(name string, threads int) (kernels.Backend, error) {
		b, err := open(name, threads)
		if err != nil || f.order == "" {
			return b, err
		}
		choose := kernels.Choose
		if f.kept {
			choose = kernels.Keep
		}
		if _, err = choose(b, f.order); err != nil {
			return nil, errors.Join(badinput.Errorf("--order: %w", err), b.Close())
		}
		return b, nil
	}
}

// check refuses contradicting flags.
func (f *policyFlags) check() error {
	if err := configs.CheckThreads(f.threads); err != nil {
		return err
	}
	if err := device.Check(f.device); err != nil {
		return badinput.Errorf("--device: %w", err)
	}
	if _, err := model.ParsePrecision(f.precision); err != nil {
		return badinput.Errorf("--precision: %w", err)
	}
	if _, err := model.ParseCache(f.kv); err != nil {
		return badinput.Errorf("--kv-cache-dtype: %w", err)
	}
	if _, err := model.ParseCache(f.adapted); err != nil {
		return badinput.Errorf("--adapter-precision: %w", err)
	}
	if _, err := model.ParseQuantisation(f.quantize); err != nil {
		return badinput.Errorf("--quantize: %w", err)
	}
	if err := kernels.CheckOrder(cmp.Or(f.order, "auto")); err != nil {
		return badinput.Errorf("--order: %w", err)
	}
	if f.rows < 0 {
		return badinput.Errorf("--max-rows: found %d, expected 0 or more", f.rows)
	}
	return nil
}

// options are the model's options in the flags.
func (f *policyFlags) options() model.Options {
	p, _ := model.ParsePrecision(f.precision) // validated by check
	c, _ := model.ParseCache(f.kv)
	a, _ := model.ParseCache(f.adapted)
	q, _ := model.ParseQuantisation(f.quantize)
	return model.Options{MaxRows: f.rows, Precision: p, Cache: c, AdapterPrecision: a, Quantise: q, SharePrefixes: true}
}

// checkAdapter refuses a damaged or wrong adapter before the model is loaded.
func (f *policyFlags) checkAdapter() error {
	if f.adapter == "" {
		return nil
	}
	if err := provenance.CheckIntact(f.adapter); err != nil {
		return err
	}
	shape, err := model.ReadConfig(f.model)
	if err == nil {
		_, err = lora.Check(f.adapter, shape.LoRADims())
	}
	if err == nil {
		err = provenance.CheckBase(f.adapter, f.model)
	}
	return err
}

// withPolicy opens the backend and the model, with its adapter if there is one, and calls fn.
func (f *policyFlags) withPolicy(ctx context.Context, fn func(b kernels.Backend, p *model.Policy) error) error {
	return f.withModel(ctx, false, func(b kernels.Backend, p *model.Policy) error {
		if f.adapter != "" {
			a, err := lora.Load(f.adapter, p.LoRADims())
			if err != nil {
				return err
			}
			if err := p.Attach(a); err != nil {
				return fmt.Errorf("%s: %w", f.adapter, err)
			}
		}
		return fn(b, p)
	})
}

// withModel opens the backend and the bare model, and calls fn.
func (f *policyFlags) withModel(ctx context.Context, trainable bool, fn func(b kernels.Backend, p *model.Policy) error) error {
	b, err := f.backend()
	if err != nil {
		return err
	}
	var p *model.Policy
	if err = f.checkAdapter(); err == nil {
		o := f.options()
		o.Frozen = !f.learns
		p, err = model.OpenContext(ctx, b, f.model, trainable, o)
	}
	if err == nil {
		err = fn(b, p)
	}
	if cerr := b.Close(); err == nil {
		err = cerr
	}
	return err
}

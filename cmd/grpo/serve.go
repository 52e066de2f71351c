package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/serve"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/rebuild"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

func newServeCmd() *cobra.Command {
	var f policyFlags
	var cmd *cobra.Command
	cmd = serve.Command(func(run *configs.Config) (kernels.Backend, model.Options, error) {
		if run != nil { // use the run's precision and order
			f.precision, f.kv, f.adapted = run.Precision, run.KVCacheDtype, run.AdapterPrecision
			f.quantize, f.order, f.kept = run.Quantize, run.Order, true
		}
		if err := rebuild.ExecIfNeeded(cmd.Context(), f.device); err != nil {
			return nil, model.Options{}, err
		}
		b, err := f.backend()
		return b, f.options(), err
	})
	f.registerSpeed(cmd)
	for _, own := range []string{"precision", "kv-cache-dtype", "adapter-precision", "quantize", "order"} {
		cmd.MarkFlagsMutuallyExclusive("run", own)
	}
	return cmd
}

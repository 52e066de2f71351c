package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/serve"
	"github.com/seed-7879b91d/grpo/internal/rebuild"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

func newServeCmd() *cobra.Command {
	var f policyFlags
	var cmd *cobra.Command
	cmd = serve.Command(func() (kernels.Backend, model.Options, error) {
		if err := rebuild.Here(cmd.Context(), f.device); err != nil {
			return nil, model.Options{}, err
		}
		b, err := f.backend()
		return b, f.options(), err
	})
	f.registerSpeed(cmd)
	return cmd
}

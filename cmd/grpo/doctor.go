package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/doctor"
	"github.com/seed-7879b91d/grpo/cmd/grpo/grading"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/internal/rebuild"
)

func newDoctorCmd() *cobra.Command {
	var flags grading.Sandbox
	var asJSON bool
	var name, servers string
	cmd := &cobra.Command{
		Use: "doctor",
		Example: `  grpo doctor
  grpo doctor --json
  grpo doctor --model ./Llama-3.1-8B-Instruct
  grpo doctor --mcp servers.json`,
		Short: "Check this machine: what it has, what is missing, and how to fix it",
		Long: `Builds a sandbox and attacks it: prints each protection with the result of an attack made just now, and
what is not protected. Then it lists the interpreter, processors, memory, disk and graphics cards, and
with --model the memory of its weights, as published and in four bits. The exit code is 0 if nothing that
grpo needs is missing.`,
		Args: usage.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cells, err := flags.Cells()
			if err != nil {
				return err
			}
			asked, err := doctor.ExamineModel(cmd.Context(), name)
			if err != nil {
				return err
			}
			if servers != "" {
				asked = append(asked, doctor.ExamineServers(cmd.Context(), servers)...)
			}
			// This may restart the process as the program with the GPU backend, so it comes first.
			rebuilt := rebuild.ExecIfNeeded(cmd.Context(), "auto")
			findings := append(doctor.Examine(cmd.Context(), cells, rebuilt), asked...)
			if err := cmd.Context().Err(); err != nil {
				return err // interrupted: nothing is known to be missing
			}
			out := cmd.OutOrStdout()
			if asJSON {
				if err := printJSON(out, findings); err != nil {
					return err
				}
			} else {
				findings.Write(out)
			}
			return findings.Missing()
		},
	}
	flags.Register(cmd)
	cmd.Flags().StringVar(&name, "model", "", "show the memory that the weights of this model need: its directory, or name on the Hub")
	cmd.Flags().StringVar(&servers, "mcp", "", "start the MCP servers of this file, and list their tools")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

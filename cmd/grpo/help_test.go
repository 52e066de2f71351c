package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// Every verb that does something has examples.
func TestEveryVerbHasExamples(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Name() != "help" && cmd.Name() != "completion" {
			if len(cmd.Commands()) == 0 || !cmd.HasParent() {
				require.NotEmpty(t, cmd.Example, cmd.CommandPath())
			}
			for _, sub := range cmd.Commands() {
				check(sub)
			}
		}
	}
	check(newRoot())
}

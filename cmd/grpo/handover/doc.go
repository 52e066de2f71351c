// Package handover has the verbs that hand the result of a run over: as a model for other programs (export-model), as one file
// that can be checked (package), and on the Hub (publish). What the file formats are, others know.
package handover

import "github.com/spf13/cobra"

// Commands are the verbs.
func Commands(m Machine) []*cobra.Command {
	return []*cobra.Command{ExportModel(m), Package(), Publish()}
}

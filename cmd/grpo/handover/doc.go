// Package handover has the verbs that hand over the result of a run: as a model for other programs (export-model), as a file
// that can be verified (package), and on the Hub (publish). The file formats are in other packages.
package handover

import "github.com/spf13/cobra"

// Commands are the verbs.
func Commands(m Machine) []*cobra.Command {
	return []*cobra.Command{ExportModel(m), Package(), Publish()}
}

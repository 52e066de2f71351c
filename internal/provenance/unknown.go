package provenance

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

// checkKnown refuses to resume a run with settings that this program does not know, as a later release may have written them:
// ignoring them would change the run.
func (r *Run) checkKnown() error {
	had := map[string]json.RawMessage{}
	if err := json.Unmarshal(r.first, &had); err != nil {
		return badinput.Errorf("%s: %w", r.Dir, err) // cannot happen: Read has parsed it
	}
	for _, start := range r.Manifest.Starts {
		maps.Copy(had, start.Settings)
	}
	for _, f := range configs.Describe() {
		delete(had, f.Key)
	}
	if len(had) == 0 {
		return nil
	}
	strange := slices.Sorted(maps.Keys(had))
	return badinput.Errorf("run %s has %s that this program does not know (%s): another release of grpo wrote it; use that one, "+
		"or type init_from=%s run_dir=DIR to start a new run without %s", r.Dir, plural.Pick(len(had), "a setting", "settings"),
		display.Line(strings.Join(strange, ", ")), display.ShellQuote(r.Dir), plural.Pick(len(had), "it", "them"))
}

package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Settings that changed when the run was resumed are listed with their earlier values, the latest first.
func TestSettingsThatChangedAreTold(t *testing.T) {
	files := small()
	require.NotContains(t, write(t, files), `id="changes"`)
	files["config.json"] = `{"learning_rate":1e-05,"stop":[],"eval_method":"","max_steps":3}`
	files["manifest.json"] = `{"starts":[{"after":0},{"after":3,"settings":{"max_steps":9,"learning_rate":0.001}},{"after":5},` +
		`{"after":4,"settings":{"max_steps":9,"learning_rate":"high\u202e","stop":["a","b"],"of_the_future":{"x": 1},"eval_method":"none"}}]}`
	root := parse(t, write(t, files))
	var told *element
	for _, s := range root.all("details", "") {
		if s.attr("id") == "changes" {
			told = s
		}
	}
	require.NotNil(t, told)
	require.Equal(t, []string{"setting when before from then on",
		"eval_method after step 4 empty none", "learning_rate after step 4 1e-5 high⟨U+202E⟩", "max_steps after step 4 3 9",
		`of_the_future after step 4 not set {"x":1}`, `stop after step 4 [] ["a","b"]`,
		"learning_rate after step 5 0.001 1e-5", "max_steps after step 5 9 3",
		"learning_rate after step 3 1e-5 0.001", "max_steps after step 3 3 9"}, readAll(told.all("tr", "")))
}

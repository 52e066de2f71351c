package mlflow

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rows"
)

var run = rows.Run{Name: "first", ID: "0123456789abcdef0123456789abcdef", Begun: time.Unix(1700000000, 0)}

// files are the contents of all files below a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = strings.ReplaceAll(string(text), dir, "STORE")
		return err
	}))
	return out
}

func row(step int, at time.Duration, pairs ...string) rows.Row {
	r := rows.Row{Step: step, Time: run.Begun.Add(at)}
	for i := 0; i < len(pairs); i += 2 {
		r.Cells = append(r.Cells, rows.Cell{Name: pairs[i], JSON: []byte(pairs[i+1])})
	}
	return r
}

func start(value string) rows.Start {
	cells := []rows.Cell{{Name: "model", JSON: []byte(value)}}
	return rows.Start{Settings: cells, Changed: cells}
}

func TestFilesOfAStore(t *testing.T) {
	root := filepath.Join(t.TempDir(), "mlruns")
	require.NoError(t, Check(root))
	s, err := New(root, run, "")
	require.NoError(t, err)
	require.NoError(t, s.Start(start(`"tiny"`)))
	require.NoError(t, s.Start(rows.Start{Changed: []rows.Cell{{Name: "empty", JSON: []byte(`""`)}}}))
	require.NoError(t, s.Row(row(0, 0, "evaluations/pass@1_greedy", "0.25", "evaluations/none", "null")))
	require.NoError(t, s.Row(row(1, time.Second, "steps/updated", "true", "steps/components.a/b,c", "1e-05", "steps/sha", `"ab"`)))
	require.NoError(t, s.Row(row(2, 2*time.Second, "steps/updated", "false")))
	require.NoError(t, s.End())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Close(), fs.ErrClosed, "as what else goes wrong with a file")
	require.ErrorIs(t, s.Row(row(3, 0, "steps/updated", "true")), fs.ErrClosed)
	const experiment = "528824917155904475"
	here := experiment + "/" + run.ID + "/"
	want := map[string]string{
		experiment + "/meta.yaml": `artifact_location: "file://STORE/` + experiment + `"
creation_time: 1700000000000
experiment_id: "` + experiment + `"
last_update_time: 1700000000000
lifecycle_stage: "active"
name: "grpo"
`,
		here + "meta.yaml": `artifact_uri: "file://STORE/` + here + `artifacts"
end_time: null
entry_point_name: ""
experiment_id: "` + experiment + `"
lifecycle_stage: "active"
run_id: "` + run.ID + `"
run_name: "first"
run_uuid: "` + run.ID + `"
source_name: "grpo"
source_type: 4
source_version: ""
start_time: 1700000000000
status: 1
tags: []
user_id: "grpo"
`,
		here + "params/model":                         "tiny",
		here + "params/empty":                         "",
		here + "tags/mlflow.runName":                  "first",
		here + "tags/mlflow.user":                     "grpo",
		here + "tags/mlflow.source.name":              "grpo",
		here + "tags/mlflow.source.type":              "LOCAL",
		here + "metrics/evaluations/pass_at_1_greedy": "1700000000000 0.25 0\n",
		here + "metrics/steps/updated":                "1700000001000 1 1\n1700000002000 0 2\n",
		here + "metrics/steps/components.a_b_c":       "1700000001000 1e-05 1\n",
	}
	require.Equal(t, want, files(t, root))
	require.NoError(t, Check(root))
	writtenAnew(t, root, here, want)
}

// writtenAnew makes the run go back, with another setting, and end. Undone values are gone.
func writtenAnew(t *testing.T, root, here string, want map[string]string) {
	s, err := New(root, run, "grpo")
	require.NoError(t, err)
	require.NoError(t, s.Start(start(`"other"`)))
	require.NoError(t, s.Row(row(0, 0, "evaluations/pass@1_greedy", "0.25")))
	require.NoError(t, s.Row(row(1, time.Second, "steps/updated", "true")))
	require.NoError(t, s.End())
	require.NoError(t, s.Row(row(2, 3*time.Second, "steps/late", "4")))
	require.NoError(t, s.End())
	require.NoError(t, s.Done(run.Begun.Add(3*time.Second)))
	require.NoError(t, s.Close())
	delete(want, here+"metrics/steps/components.a_b_c")
	want[here+"params/model"] = "other"
	want[here+"metrics/steps/updated"] = "1700000001000 1 1\n"
	want[here+"metrics/steps/late"] = "1700000003000 4 2\n"
	want[here+"meta.yaml"] = strings.NewReplacer("end_time: null", "end_time: 1700000003000", "status: 1", "status: 3").
		Replace(want[here+"meta.yaml"])
	require.Equal(t, want, files(t, root))
}

// An experiment made by MLflow is found by its name, whatever its folder.
func TestExperimentsAreFoundByName(t *testing.T) {
	root := filepath.Join(t.TempDir(), "runs[1]")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "17"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "17", "meta.yaml"), []byte("experiment_id: '17'\nname: mine\n"), 0o644))
	s, err := New(root, run, "mine")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, Check(root))
	names := slices.Sorted(maps.Keys(files(t, root)))
	require.Equal(t, "17/"+run.ID+"/meta.yaml", names[0])
	require.NotContains(t, strings.Join(names, " "), "528824917155904475")
	s, err = New(root, run, "17")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NotEqual(t, "17", s.experiment, "a number is an experiment's name, not its ID")
}

// If something cannot be written, as when a folder is in the way, the error says what.
func TestWhatCannotBeWrittenIsTold(t *testing.T) {
	here := "528824917155904475/" + run.ID
	for _, name := range []string{"528824917155904475/meta.yaml", here + "/meta.yaml", here + "/tags/mlflow.user", here + "/params/model",
		here + "/metrics/steps/late"} {
		root := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(root, name, "x"), 0o755))
		s, err := New(root, run, "")
		if err == nil {
			err = errors.Join(s.Start(start("1")), s.Row(row(1, 0, "steps/late", "4")), s.Close())
		}
		require.ErrorContains(t, err, name)
	}
}

func TestAFolderOfSomethingElseIsRefused(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, Check(root), "empty")
	require.NoError(t, os.WriteFile(filepath.Join(root, "thesis.txt"), nil, 0o644))
	err := Check(root)
	require.ErrorContains(t, err, "no store of MLflow")
	require.True(t, badinput.Is(err))
	require.True(t, badinput.Is(Check(filepath.Join(root, "thesis.txt"))))
}

// Every key is the name of a file in its folder.
func TestKeys(t *testing.T) {
	for name, want := range map[string]string{"model": "model", "steps/pass@1": "steps/pass_at_1", "steps/a/../b": "steps/a_.._b", "..": "__",
		"steps/": "steps/_", "steps/..": "steps/__", "é:": "__", "a b-c.d_e": "a b-c.d_e",
		"azAZ09": "azAZ09"} {
		require.Equal(t, want, Key(name))
	}
	require.Len(t, Key("steps/"+strings.Repeat("x", 999)), len("steps/")+200)
}

// An unexpanded ~, as in a file of settings, creates no store.
func TestATildeIsNoStore(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", "/home/ada")
	err := Check("~/mlruns")
	require.ErrorContains(t, err, "type /home/ada/mlruns, or './~/mlruns'")
	require.True(t, badinput.Is(err))
	require.NoError(t, Check("./~/mlruns"))
	require.NoError(t, os.MkdirAll("~/mlruns", 0o755))
	require.NoError(t, Check("~/mlruns"), "an existing folder named ~ is accepted")
}

package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/watch"
)

func TestBraille(t *testing.T) {
	require.Equal(t, []string{"⡠⠊"}, braille([]float64{0, 1, 2, 3}, 0, 3, 2, 1))
	require.Equal(t, []string{"⠀⡸", "⡸⠀"}, braille([]float64{0, 3, 4, 7}, 0, 7, 2, 2), "a step up is joined")
	require.Equal(t, []string{"⠈⠁"}, braille([]float64{math.NaN(), 1, 1, math.NaN()}, 0, 1, 2, 1), "unknown values leave a gap")
	require.Equal(t, []string{"⠤⠤"}, braille([]float64{5, 5}, 5, 5, 2, 1), "a constant curve is drawn in the middle")
	require.Equal(t, []float64{0.5, 2.5}, squeezed([]float64{0, 1, 2, 3}, 2))
	require.Equal(t, []float64{0, 0.5, 1, 1.5, 2}, squeezed([]float64{0, 1, 2}, 5))
	require.Equal(t, []float64{7, 7}, squeezed([]float64{7}, 2))
	low, high := valueRange([]float64{math.NaN(), 2, -1})
	require.Equal(t, []float64{-1, 2}, []float64{low, high})
}

// No line of a picture is longer than the terminal is wide, and the main facts are there.
func TestAPicture(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "first")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for name, text := range map[string]string{
		"config.json":   `{"model":"tiny","data":"tiny","max_steps":3}`,
		"manifest.json": `{"backend":"cpu"}`,
		"metrics.jsonl": `{"step":1,"mean_reward":0.1,"mean_correct":0.1,"entropy":0.5}` + "\n" +
			`{"step":2,"mean_reward":0.7,"mean_correct":0.25,"entropy":0.4}` + "\n",
		"train_log.jsonl": `{"step":2,"total_s":2,"sample_s":1,"score_s":0.25,"train_s":0.5}` + "\n",
		"run_log.jsonl":   `{"step":2,"rule":"truncation","finding":"60 % of completions end at max_tokens","try":"a larger max_tokens"}` + "\n",
		"rollouts.jsonl": `{"step":2,"group":0,"problem":"plus","text":"print(1)\n` +
			strings.Repeat("long ", 60) + `\u001b[31m","score":{"reward":1,"verdict":"AC"}}` + "\n" +
			`{"step":2,"group":0,"problem":"plus","text":"no","score":{"reward":0,"verdict":"WA"}}` + "\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	var out bytes.Buffer
	require.NoError(t, watchInTerminal(t.Context(), &out, []string{dir}, true))
	for _, says := range []string{"first · not running · 2 of 3 steps\n", "mean reward 0.700", "right 0.250", "entropy 0.4",
		"last step 2 s: sampling 50 %, scores 12 %, training 25 %, the rest 12 %\n",
		"! truncation: 60 % of completions end at max_tokens; try a larger max_tokens\n",
		"── plus: AC, reward 1", "── plus: WA, reward 0", "  print(1)\n"} {
		require.Contains(t, out.String(), says)
	}
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
		require.NotContains(t, line, "\x1b", "control characters must be escaped")
	}

	s, err := watch.New(watch.Options{Paths: []string{dir}})
	require.NoError(t, err)
	for columns := range 12 { // a window may be that small
		_, err := picture(s, "first", columns, 0)
		require.NoError(t, err)
	}
	require.NoError(t, os.Rename(dir, dir+"-away")) // not noticed yet
	gone, err := picture(s, "first", 80, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"the run no longer exists"}, gone)
	require.NoError(t, os.Rename(dir+"-away", dir))

	err = watchInTerminal(t.Context(), &out, []string{filepath.Join(dir, "none")}, true)
	require.True(t, badinput.Is(err))
	err = watchInTerminal(t.Context(), &out, []string{t.TempDir()}, true)
	require.ErrorContains(t, err, "there is no run yet")
	second := filepath.Join(t.TempDir(), "second")
	require.NoError(t, os.CopyFS(second, os.DirFS(dir)))
	err = watchInTerminal(t.Context(), &out, []string{dir, second}, true)
	require.ErrorContains(t, err, "type grpo watch "+dir+" --tui", "the suggested run exists")
}

// The address of a run's samples is valid whatever the name of the run.
func TestTheAddressOfSamples(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "50% run#2")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for _, name := range []string{"config.json", "manifest.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o644))
	}
	over, end := context.WithCancel(t.Context())
	end()
	var out bytes.Buffer
	require.NoError(t, Serve(over, &out, "127.0.0.1:0", []string{dir}, "samples/"))
	require.Regexp(t, `^samples of 50% run#2 at http://127.0.0.1:[0-9]+/samples/50%25%20run%232\n`, out.String())
}

// If problems were edited since, they are not shown as those of the run.
func TestAProblemIsTheOneOfTheRun(t *testing.T) {
	dir, tasks := t.TempDir(), filepath.Join(t.TempDir(), "tasks.jsonl")
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) }
	write(tasks, `{"id":"p","prompt":"Print 1.","tests":[{"input":"","output":"1"}]}`)
	set, err := dataset.Open(t.Context(), tasks, dataset.Options{Split: "train"})
	require.NoError(t, err)
	defer set.Close()
	cfg := configs.Defaults()
	cfg.Data, cfg.RunDir = tasks, "elsewhere"
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	write(filepath.Join(dir, "config.json"), string(text))
	write(filepath.Join(dir, "manifest.json"), `{"starts":[{"parts":{"data":{"sha256":"`+set.Manifest().SHA256+`"}}}]}`)
	require.Equal(t, "Print 1.", newRunSources(t.Context()).statement(dir, "p"))
	write(tasks, `{"id":"p","prompt":"Print 2.","tests":[{"input":"","output":"2"}]}`)
	require.Empty(t, newRunSources(t.Context()).statement(dir, "p"))
}

// Opening the data of a run, which may take long, does not block requests for another run.
func TestARunIsOpenedByItself(t *testing.T) {
	k := newRunSources(t.Context())
	opening := k.of("one")
	opening.Lock()
	defer opening.Unlock()
	require.Nil(t, k.find(t.TempDir(), "problem"))
	require.Nil(t, k.pieces(t.TempDir(), []int32{1}))
}

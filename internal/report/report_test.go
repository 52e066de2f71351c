package report

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// The files of a small run. Its first step made no update; its second one has a null.
var (
	//go:embed testdata/small/metrics.jsonl
	smallMetrics string
	//go:embed testdata/small/train_log.jsonl
	smallTimes string
	//go:embed testdata/small/run_log.jsonl
	smallAdvice string
	//go:embed testdata/small/rollouts.jsonl
	smallSamples string
	//go:embed testdata/small/config.json
	smallConfig string
	//go:embed testdata/small/manifest.json
	smallManifest string
	//go:embed testdata/small/checkpoints.jsonl
	smallCheckpoints string
)

func small() map[string]string {
	return map[string]string{
		"metrics.jsonl": smallMetrics, "train_log.jsonl": smallTimes, "run_log.jsonl": smallAdvice, "rollouts.jsonl": smallSamples,
		"config.json": smallConfig, "manifest.json": smallManifest, "checkpoints.jsonl": smallCheckpoints,
	}
}

// write writes the files of a run directory, and returns its page.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return rewrite(t, dir)
}

// Write draws the page at a fixed time.
func Write(dir string) error {
	p := Page{Dir: dir, clock: func() time.Time { return time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC) }}
	return p.Finish(nil)
}

func rewrite(t *testing.T, dir string) string {
	t.Helper()
	require.NoError(t, Write(dir))
	page, err := os.ReadFile(filepath.Join(dir, File))
	require.NoError(t, err)
	return string(page)
}

func TestPageSaysWhatTheFilesSay(t *testing.T) {
	root := parse(t, write(t, small()))
	require.Equal(t, []string{"Held-out pass@1 rose from 0.325 to 0.800"}, readAll(root.all("h1", "")))
	require.Equal(t, []string{"The 95 % intervals do not overlap."}, readAll(root.all("p", "detail")))
	require.Equal(t,
		[]string{"tiny cpu: avx512, 2 threads", "tiny 636 problems, 40 held out", "3 of 3 8 prompts × 8 completions each",
			"4.25 s evaluations not counted",
			"4,316 tokens 192 completions", "2026-11-20 15:50 UTC"}, readAll(root.all("dd", "")))
	require.Equal(t, []string{"before, step 0 [0.200, 0.475] 0.325", "after, step 3 [0.675, 0.900] 0.800"},
		readAll(root.all("div", "outcome")))
	require.Equal(t, "left:67.5%;width:22.5%", root.all("i", "interval")[1].attr("style"))
	require.Equal(t, []string{"0.212", "0.562", "0.525", "0.900", "1.000", "1.000"}, readAll(root.all("table", "numbers")[0].all("td", "")))
	require.Equal(t, []string{
		"max|Δlogp| on policy was exactly 0 at all 2 updates: trainer and sampler agree to the bit",
		"The sandbox did not fail on any of 192 completions",
		"9 of 24 groups gave no gradient, 38 %; 38 % of the sampled tokens were in them",
		"16 of 192 completions cut off at max_tokens, 8 %",
		"1 of 3 steps changed nothing: no group gave a gradient, or the gradient was non-finite",
	}, readAll(root.all("ul", "checks")[0].all("li", "")))

	var sections []string
	for _, s := range root.all("section", "") {
		if s.attr("id") != "" {
			sections = append(sections, s.attr("id"))
		}
	}
	require.Equal(t, []string{"held-out", "learning", "completions", "optimizer", "time", "advice", "samples", "origin"}, sections)
}

// values are the readouts of the charts, by title and series.
func values(root *element) map[string]string {
	out := map[string]string{}
	for _, f := range root.all("figure", "") {
		for _, key := range f.all("span", "key") {
			out[f.all("h3", "")[0].read()+"/"+strings.TrimSpace(key.Text)] = key.all("b", "")[0].attr("data-v")
		}
	}
	return out
}

// smallValues are the readouts of the small run.
var smallValues = map[string]string{
	"Share solved/pass@1, greedy":             "0.325 0.800",
	"Share solved/pass@1, sampled":            "0.212 0.562",
	"Share solved/pass@4":                     "0.525 0.900",
	"Mean reward/reward":                      "0.119 0.338 0.656",
	"Shares of completions/right":             "0.141 0.406 0.656",
	"Shares of completions/tests passed":      "0.150 – 0.700",
	"Shares of completions/has a program":     "0.781 0.844 0.984",
	"Groups with one outcome/all right":       "0.250 0.000 0.125",
	"Groups with one outcome/all wrong":       "0.500 0.000 0.000",
	"Groups with one outcome/otherwise equal": "0.250 0.000 0.000",
	"Verdicts/AC":                             "0.141 0.406 0.656",
	"Verdicts/WA":                             "0.297 0.000 0.281",
	"Verdicts/RTE":                            "0.281 0.000 0.031",
	"Verdicts/CE":                             "0.062 0.000 0.016",
	"Verdicts/TLE":                            "0.000 0.594 0.000",
	"Verdicts/not run":                        "0.219 0.000 0.016",
	"Completion length/mean":                  "22.4 23.4 21.6",
	"Cut off at max_tokens/truncated":         "0.250 0.000 0.000",
	"Gradient norm/gradient norm":             "– 16.2 25.9", // the first step made no update
	"Entropy/entropy":                         "– 0.175 0.0686",
	"KL from the reference/kl_ref":            "– 0.0001 0.002",
	"Seconds per step/sampling":               "0.25 0.5 0.5",
	"Seconds per step/waiting for scores":     "0.5 0.375 0.5",
	"Seconds per step/training":               "0 0.625 1",
	"Tokens per second/tokens/s sampled":      "5,744 3,000 2,760",
	"Tokens per second/tokens/s trained":      "– 2,400 1,180", // nothing was trained in the first step
}

func TestChartsHoldTheNumbersOfTheFiles(t *testing.T) {
	root := parse(t, write(t, small()))
	require.Equal(t, smallValues, values(root))
	// Stacked columns: all right 0.25, all wrong 0.5, otherwise equal 0.25; then nothing; then 0.125.
	var stacked []string
	for _, f := range root.all("figure", "") {
		if f.all("h3", "")[0].read() == "Groups with one outcome" {
			for _, path := range f.all("path", "column") {
				stacked = append(stacked, path.attr("class")+" "+path.attr("d"))
			}
		}
	}
	require.Equal(t, []string{
		"column c1 M23 1000V750H310V1000zM690 1000V875H977V1000z",
		"column c2 M23 750V250H310V750z",
		"column c7 M23 250V0H310V250z",
	}, stacked)

	still := root.all("p", "still")
	require.Len(t, still, 1)
	require.Equal(t, []string{"learning rate 0.001", "kl_v1 0", "kl_v2 0", "importance ratio 1", "max|Δlogp| on policy 0"},
		readAll(still[0].all("span", "")))

	// There are as many readouts and labels as positions.
	for _, s := range root.all("section", "") {
		if s.attr("data-at") == "" {
			continue
		}
		n := len(strings.Fields(s.attr("data-at")))
		require.Len(t, strings.Fields(s.attr("data-label")), n)
		for _, b := range s.all("b", "") {
			if v := b.attr("data-v"); v != "" {
				require.Len(t, strings.Split(v, " "), n, "%s", v)
			}
		}
	}
}

func TestAdviceAndSamples(t *testing.T) {
	root := parse(t, write(t, small()))
	require.Equal(t, []string{
		"truncation 2 times, steps 1 to 3; the last: 26 % of completions end at max_tokens. Try a larger max_tokens.",
		"time-outs step 2: 38 of 64 programs ran out of time. Try a larger reward_timeout.",
	}, readAll(root.all("ul", "rules")[0].all("li", "")))
	var samples []string
	for _, a := range root.all("article", "") {
		samples = append(samples, a.all("bdi", "")[0].read()+": "+strings.Join(readAll(a.all("pre", "")), " | "))
	}
	require.Equal(t, []string{"max-print: print(max(nums)) | unscored", "all-alike: print(1)"}, samples)
	require.NotContains(t, root.read(), "of-the-step-before")
	require.Contains(t, root.all("p", "score")[1].read(), "left out of its group: infra")
	require.Contains(t, root.all("div", "pair")[0].read(), "0.637")
}

// The autopilot's actions are listed, the latest first, and undone steps are drawn beside their replacements.
func TestThePageOfAPilotedRun(t *testing.T) {
	files := small()
	require.NotContains(t, parse(t, write(t, files)).read(), "Autopilot")
	files["autopilot.jsonl"] = `{"step":1,"did":"tries","rule":"policy hardly moves","why":"it <b>stands</b>",` +
		`"setting":"learning_rate","before":1e-05,"after":0.00016}` + "\n" +
		`{"step":3,"did":"goes back","to":1,"rule":"held-out score falls","why":"it changed by -0.3","setting":"learning_rate",` +
		`"before":0.00016,"after":1e-05,"score":0.1,"change":-0.3,"ci":[-0.4,-0.2],` +
		`"undone":[{"step":2,"reward":0.125,"kl":1},{"step":3,"reward":0.0625,"kl":1}]}` + "\n" +
		`{"step":3,"did":"goes on","rule":"x","why":"y"}` + "\nnot JSON\n"
	root := parse(t, write(t, files))
	var told *element
	for _, s := range root.all("section", "") {
		if s.attr("id") == "autopilot" {
			told = s
		}
	}
	require.NotNil(t, told)
	require.Equal(t, []string{
		"goes on step 3 x: y.",
		"went back to step 1, 2 steps undone; learning_rate 0.00016 → 1e-5 step 3 held-out score falls: it changed by -0.3; " +
			"score 0.100, -0.300 [-0.400, -0.200].",
		"tried learning_rate 1e-5 → 0.00016 step 1 policy hardly moves: it <b>stands</b>.",
	}, readAll(told.all("li", "")))
	require.Contains(t, root.read(), "undone 0.062")
	require.Contains(t, root.read(), "autopilot.jsonl (1 line)")
}

func TestSameRunSamePage(t *testing.T) {
	dir := t.TempDir()
	for name, text := range small() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	first := rewrite(t, dir)
	require.Equal(t, first, rewrite(t, dir))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, len(small())+1, "nothing but the page is left behind")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(strings.Replace(smallConfig, "tiny", "other", 1)), 0o644))
	require.NotEqual(t, first, rewrite(t, dir))
}

func TestPageNeedsNothingButItself(t *testing.T) {
	page := write(t, small())
	require.NotRegexp(t, regexp.MustCompile(`https?:|//[a-z]|src=|href=|@import|url\(`), strings.ReplaceAll(page, script, ""))
	root := parse(t, page)
	scripts := root.all("script", "")
	require.Len(t, scripts, 1)
	require.Equal(t, script, scripts[0].Text)
	require.Contains(t, page,
		`content="default-src 'none'; style-src 'unsafe-inline'; script-src '`+strings.ReplaceAll(display.ScriptHash(script), "+", "&#43;")+`'"`)
}

func TestWhatIsMissingIsLeftOut(t *testing.T) {
	lines := strings.SplitAfter(smallMetrics, "\n")
	for name, c := range map[string]struct {
		files    map[string]string
		sentence string
		says     string
	}{
		"an empty directory": {nil, "No step is done yet", ""},
		"a run that just began": {map[string]string{"config.json": smallConfig, "manifest.json": smallManifest}, "No step is done yet",
			"0 of 3"},
		"a run that goes on with other settings": {map[string]string{"config.json": smallConfig,
			"manifest.json": `{"starts":[{"after":0},{"after":3,"settings":{"max_steps":9}}]}`}, "No step is done yet", "0 of 9"},
		"one evaluation": {map[string]string{"metrics.jsonl": lines[0]},
			"Held-out pass@1 is 0.325 before the first step", "so far, step 0"},
		"a step, half written": {map[string]string{"metrics.jsonl": lines[0] + lines[1][:70]},
			"Held-out pass@1 is 0.325 before the first step", ""},
		"a step": {map[string]string{"metrics.jsonl": lines[1]}, "Mean reward is 0.119 after 1 step", "does not show whether"},
		"one evaluation, a step": {map[string]string{"metrics.jsonl": lines[0] + lines[1]}, "Mean reward is 0.119 after 1 step",
			"The only evaluation, at step 0, found held-out pass@1 0.325."},
		"a damaged line": {map[string]string{"metrics.jsonl": lines[1] + "{\"step\":\n" + "{}\n" + lines[2]},
			"Mean reward is 0.338 after 2 steps", "metrics.jsonl (2 lines)"},
		"another type": {map[string]string{"metrics.jsonl": `{"step":1,"mean_reward":"high","verdicts":[],"entropy":0.5}` + "\n"},
			"1 step done; no completion has been scored", "entropy 0.5"},
		"an old evaluation": {map[string]string{"metrics.jsonl": `{"kind":"evaluation","step":0,"pass@1_greedy":0.1}` + "\n" +
			`{"kind":"evaluation","step":9,"pass@1_greedy":0.3}` + "\n"}, "Held-out pass@1 rose from 0.100 to 0.300", "after, step 9"},
		"a kind of the future": {map[string]string{"metrics.jsonl": `{"kind":"weather","step":4}` + "\n" + lines[1]},
			"Mean reward is 0.119 after 1 step", ""},
		"damaged documents":   {map[string]string{"config.json": "{", "manifest.json": "[1]"}, "No step is done yet", "config.json"},
		"times without steps": {map[string]string{"train_log.jsonl": smallTimes}, "No step is done yet", ""},
		"only completions":    {map[string]string{"rollouts.jsonl": smallSamples}, "No step is done yet", "max-print"},
		"a resumed run": {map[string]string{"metrics.jsonl": lines[1] + lines[2] + lines[3] + lines[2]},
			"Mean reward is 0.338 after 2 steps", ""},
	} {
		t.Run(name, func(t *testing.T) {
			page := write(t, c.files)
			root := parse(t, page)
			require.Equal(t, []string{c.sentence}, readAll(root.all("h1", "")))
			require.Contains(t, root.read(), c.says)
			require.NotContains(t, page, "NaN")
			require.NotContains(t, page, "Inf")
			require.NotRegexp(t, `d="[^"]*\d{5}`, page, "a path leaves the chart")
		})
	}
}

func TestHostileTextStaysText(t *testing.T) {
	const hostile = "</pre></bdi></script><script>alert(1)</script><img " +
		"onerror=alert(2)>{{.}}&amp;\"'`<!--]]>\x00\x1b[31m\u202egpj\u2066\ufffe\u0085"
	const shown = "</pre></bdi></script><script>alert(1)</script><img " +
		"onerror=alert(2)>{{.}}&amp;\"'`<!--]]>␀␛[31m⟨U+202E⟩gpj⟨U+2066⟩⟨U+FFFE⟩⟨U+0085⟩"
	quoted := fmt.Sprintf("%q", hostile)
	quoted = strings.NewReplacer(`\x00`, `\u0000`, `\x1b`, `\u001b`).Replace(quoted)
	files := map[string]string{
		"rollouts.jsonl": fmt.Sprintf(`{"step":1,"group":0,"sample":0,"problem":%[1]s,"text":%[1]s,"score":{"reward":1,`+
			`"verdict":%[1]s,"note":%[1]s},"advantage":1}`, quoted) + "\n",
		"run_log.jsonl":     fmt.Sprintf(`{"step":1,"rule":%[1]s,"finding":%[1]s,"try":%[1]s,"fatal":true}`, quoted) + "\n",
		"config.json":       fmt.Sprintf(`{"model":%[1]s,"data":%[1]s}`, quoted),
		"manifest.json":     fmt.Sprintf(`{"created":%[1]s,"backend":%[1]s}`, quoted),
		"checkpoints.jsonl": fmt.Sprintf(`{"batch":1,"name":%[1]s,"state_path":%[1]s}`, quoted) + "\n",
		"metrics.jsonl":     fmt.Sprintf(`{"step":1,"mean_reward":1,"completions":1,"verdicts":{%[1]s:1}}`, quoted) + "\n",
	}
	root := parse(t, write(t, files))
	require.Len(t, root.all("script", ""), 1)
	require.Equal(t, script, root.all("script", "")[0].Text)
	require.Empty(t, root.all("img", ""))
	require.Equal(t, shown, root.all("article", "")[0].all("pre", "")[0].Text)
	require.Equal(t, shown, root.all("article", "")[0].all("bdi", "")[0].Text)
	require.Equal(t, shown, root.all("dd", "")[0].all("bdi", "")[0].Text)
	require.Contains(t, root.all("ul", "rules")[0].read(), shown)
	require.Contains(t, root.all("ul", "checks")[0].read(), "The run was stopped at step 1: "+shown)
}

func TestFailingDiskIsAnError(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	err := Write(gone)
	require.ErrorContains(t, err, gone)
	require.True(t, badinput.Is(err), "%v", err)

	taken := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(taken, File, "in the way"), 0o755))
	require.Error(t, Write(taken))

	unreadable := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(unreadable, "metrics.jsonl"), 0o755))
	err = Write(unreadable)
	require.ErrorContains(t, err, "metrics.jsonl")
	require.False(t, badinput.Is(err), "%v", err)
}

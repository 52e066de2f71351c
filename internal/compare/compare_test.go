package compare

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// writtenRun is a run to be written.
type writtenRun struct {
	heldOut, model string // hashes
	change         func(c *configs.Config)
	resumed, again int // again: starts of the finished run
	own            []string
	steps          int
	evaluations    []stats.Judged
}

// write writes the run's directory.
func (m writtenRun) write(t *testing.T, dir string) string {
	t.Helper()
	cfg := configs.Defaults()
	cfg.MaxSteps, cfg.EvalSamples, cfg.EvalK = 4, 2, 2
	if m.change != nil {
		m.change(&cfg)
	}
	start := provenance.Start{Parts: provenance.Parts{"test_data": {SHA256: m.heldOut}, "model": {SHA256: m.model}}, Own: m.own}
	manifest := provenance.Manifest{Created: "2026-01-01T00:00:00Z", Problems: 30, Starts: []provenance.Start{start}}
	for range m.resumed {
		manifest.Resumed = append(manifest.Resumed, "2026-01-02T00:00:00Z")
	}
	for range m.again {
		manifest.Resumed = append(manifest.Resumed, "2026-01-03T00:00:00Z")
		manifest.Starts = append(manifest.Starts, provenance.Start{After: cfg.MaxSteps, Parts: start.Parts})
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	put := func(name string, lines ...any) {
		var text []byte
		for _, line := range lines {
			one, err := json.Marshal(line)
			require.NoError(t, err)
			text = append(append(text, one...), '\n')
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	put("config.json", cfg)
	put("manifest.json", manifest)
	var metrics, times, judged []any
	for _, j := range m.evaluations {
		metrics = append(metrics, map[string]any{"kind": "evaluation", "step": j.Step, "problems": len(j.Problems), "k": 2,
			"pass@1_greedy": stats.Mean(j.Correct), "pass@1_greedy_ci": stats.Interval(j.Correct, 0), "pass@1": 0.25, "pass@k": nil})
		judged = append(judged, j)
	}
	for step := 1; step <= m.steps; step++ {
		metrics = append(metrics, map[string]any{"step": step, "mean_reward": 0.1 * float64(step), "updated": step > 1, "entropy": 0.5,
			"kl_pre_post_v1": 0.01, "completion_length_mean": 20, "completion_tokens": 100})
		times = append(times, map[string]any{"step": step, "total_s": 1.5})
	}
	put("metrics.jsonl", metrics...)
	put("train_log.jsonl", times...)
	put("evaluations.jsonl", judged...)
	return dir
}

// judged is an evaluation of problems p0, p1, …
func judged(step int, correct ...float64) stats.Judged {
	j := stats.Judged{Step: step, Correct: correct}
	for i := range correct {
		j.Problems = append(j.Problems, fmt.Sprintf("p%d", i))
	}
	return j
}

// written compares runs written to disk; the first is the base.
func written(t *testing.T, all ...writtenRun) *Comparison {
	t.Helper()
	folder := t.TempDir()
	var dirs []string
	for i, m := range all {
		dirs = append(dirs, m.write(t, filepath.Join(folder, string(rune('a'+i)))))
	}
	runs, err := Open(dirs)
	require.NoError(t, err)
	c, err := New(runs, 0, -1)
	require.NoError(t, err)
	return c
}

// exactInterval is the 95 % interval of the mean of n gains over all n^n equally likely resamplings, in integer arithmetic. It requires
// that sampling cannot miss a quantile.
func exactInterval(t *testing.T, gains []int) [2]float64 {
	t.Helper()
	n := len(gains)
	counts, total := map[int]int{0: 1}, 1
	for range n {
		next := map[int]int{}
		for sum, ways := range counts {
			for _, g := range gains {
				next[sum+g] += ways
			}
		}
		counts, total = next, total*n
	}
	var ends [2]float64
	sums, below := []int{}, 0
	for sum := range counts {
		sums = append(sums, sum)
	}
	slices.Sort(sums)
	for _, sum := range sums {
		from, to := float64(below)/float64(total), float64(below+counts[sum])/float64(total)
		for i, q := range []float64{0.025, 0.975} {
			if from <= q && q < to {
				require.True(t, q-from > 0.006 && to-q > 0.006, "%v: quantile %v is at an edge", gains, q)
				ends[i] = float64(sum) / float64(n)
			}
		}
		below += counts[sum]
	}
	require.Equal(t, total, below)
	return ends
}

// The intervals are those over all resamplings of the problems.
func TestIntervalsAreThoseOfAllResamplings(t *testing.T) {
	pairOf := func(gains []int) *Side {
		var before, after []float64
		for _, g := range gains {
			before, after = append(before, float64(max(0, -g))), append(after, float64(max(0, g)))
		}
		c := written(t, writtenRun{heldOut: "h", model: "m", steps: 4, evaluations: []stats.Judged{judged(4, before...)}},
			writtenRun{heldOut: "h", model: "m", steps: 4, evaluations: []stats.Judged{judged(4, after...)}})
		require.Empty(t, c.Pairs[0].Refused)
		return c.Pairs[0].Greedy
	}
	// Of 27 resamplings of (1, 1, 0), 1 has the mean 0 (3.7 %), and 8 have the mean 1.
	hand := pairOf([]int{1, 1, 0})
	require.Equal(t, [2]float64{0, 1}, hand.Change.CI)
	require.InDelta(t, 2.0/3, hand.Change.Mean, 1e-15)
	// Of 27 of (1, 0, -1), one has the mean -1 and one the mean 1, 3.7 % each.
	require.Equal(t, [2]float64{-1, 1}, pairOf([]int{1, 0, -1}).Change.CI)
	for _, gains := range [][]int{{1, 1, 0}, {1, 0, -1}, {1, 1, 1, 0, -1}, {1, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0, -1}} {
		got := pairOf(gains).Change.CI
		want := exactInterval(t, gains)
		require.InDelta(t, want[0], got[0], 1e-12, "%v", gains)
		require.InDelta(t, want[1], got[1], 1e-12, "%v", gains)
	}
	// Without any change, all resamplings are equal: Wilson's bound of 0 of n is z²/(n+z²).
	z2 := 1.959963984540054 * 1.959963984540054
	require.InDelta(t, z2/(4+z2), pairOf([]int{0, 0, 0, 0}).Change.CI[1], 1e-12)
}

func TestProblemsChangeHands(t *testing.T) {
	a, b := judged(4, 1, 1, 0, 0), judged(4, 1, 0, 1, 0)
	a.Sampled = &stats.Tried{Problems: []string{"p0", "p1", "p2"}, Judged: []int{2, 2, 0}, Right: []int{0, 2, 0}}
	b.Sampled = &stats.Tried{Problems: []string{"p0", "p1", "p2"}, Judged: []int{2, 2, 2}, Right: []int{1, 0, 1}}
	c := written(t, writtenRun{heldOut: "h", model: "m", steps: 4, evaluations: []stats.Judged{judged(0, 0, 0, 0, 0), a}},
		writtenRun{heldOut: "h", model: "m", steps: 4, evaluations: []stats.Judged{b}, change: func(c *configs.Config) { c.LearningRate = 1e-3 }})
	p := c.Pairs[0]
	require.Equal(t, []string{"p2"}, p.Greedy.Won)
	require.Equal(t, []string{"p1"}, p.Greedy.Lost)
	require.Equal(t, []string{"p0"}, p.Sampled.Won, "p2 was not judged of the first")
	require.Equal(t, []string{"p1"}, p.Sampled.Lost)
	require.InDelta(t, (0.5-1)/2, p.Sampled.Change.Mean, 1e-15)
	require.Empty(t, c.Notes)
	require.Len(t, c.Settings, 1)
	require.Equal(t, Setting{"learning_rate", []string{c.Settings[0].Values[0], "0.001"}}, c.Settings[0])
}

// If runs cannot be compared, the reason is given, and nothing is compared.
func TestWhatIsOutOfTheOrdinaryIsSaid(t *testing.T) {
	good := writtenRun{heldOut: "h", model: "m", steps: 4, evaluations: []stats.Judged{judged(4, 1, 0)}}
	for said, change := range map[string]func(m *writtenRun){
		"b is unfinished, with 2 of 4 steps":                     func(m *writtenRun) { m.steps = 2 },
		"b is unfinished, with 4 of 6 steps; grpo sft run_dir=":  func(m *writtenRun) { m.change = warmedUp(3) },
		"b was interrupted and resumed 2 times":                  func(m *writtenRun) { m.resumed, m.again = 2, 1 },
		"-2507@01234567, not Qwen/Qwen3-4B-Instruct-2507@m":      func(m *writtenRun) { m.model = "0123456789abcdef" },
		"b may have another model than a: not both recorded":     func(m *writtenRun) { m.model = "" },
		"other held-out problems than a":                         func(m *writtenRun) { m.heldOut = "other" },
		"the run did not record which held-out problems":         func(m *writtenRun) { m.heldOut = "" },
		"it was not evaluated":                                   func(m *writtenRun) { m.evaluations = nil },
		"a was evaluated last after step 4, b after step 2":      func(m *writtenRun) { m.evaluations = []stats.Judged{judged(2, 1, 0)} },
		"b has 2 of its 3 held-out problems in common with the ": func(m *writtenRun) { m.evaluations = []stats.Judged{judged(4, 1, 0, 0)} },
		"prompted or judged differently, which also changes scores: max_tokens": func(m *writtenRun) {
			m.change = func(c *configs.Config) { c.MaxTokens++ }
		},
		"prompted or judged differently, which also changes scores: tools, mcp": func(m *writtenRun) {
			m.change = func(c *configs.Config) { c.Tools, c.MCP = []string{"python"}, "servers.json" }
		},
	} {
		other := good
		change(&other)
		c := written(t, good, other)
		require.Contains(t, strings.Join(c.Notes, "\n"), said)
		refused := slices.Contains([]string{"", "other"}, other.heldOut) || other.evaluations == nil
		require.Equal(t, refused, c.Pairs[0].Greedy == nil, said)
		require.Contains(t, strings.Join(strings.Fields(c.Text()), " "), said)
	}
}

// several are runs with long values in every column.
func several(t *testing.T) *Comparison {
	var all []writtenRun
	for i := range 4 {
		j := judged(4, 1, 0, 0, 1, float64(i%2))
		j.Sampled = &stats.Tried{Problems: j.Problems, Judged: []int{2, 2, 2, 2, 2}, Right: []int{i % 3, 1, 0, 2, 1}}
		all = append(all, writtenRun{heldOut: "h", model: "m", steps: 4, resumed: i, evaluations: []stats.Judged{judged(0, 0, 0, 0, 0, 0), j},
			change: func(c *configs.Config) {
				c.Seed, c.LearningRate, c.RewardWeights = uint64(i), 1e-4*float64(1+i/2), strings.Repeat("correct=1,", i*5)
				c.PromptTemplate = "<script>|" + strings.Repeat("x", i)
			}})
	}
	return written(t, all...)
}

func TestTablesFit(t *testing.T) {
	c := several(t)
	for _, text := range []string{c.Text(), Summarize(c.Runs).Text()} {
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), columns, line)
		}
	}
	text, err := c.Table(true).Write("csv")
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 5)
	require.Equal(t, "", rows[1][slices.Index(rows[0], "pass@k")], "unknown is empty")
	require.Equal(t, "0.2", rows[2][slices.Index(rows[0], "greedy_change")])
	require.Equal(t, "6", rows[1][slices.Index(rows[0], "seconds")])
	require.NotContains(t, c.Table(false).Header, "seconds")
	text, err = c.Table(true).Write("markdown")
	require.NoError(t, err)
	bars := -1
	for line := range strings.Lines(string(text)) {
		n := strings.Count(line, "|") - strings.Count(line, `\|`)
		require.True(t, bars < 0 || n == bars, line)
		bars = n
	}
	text, err = c.JSON()
	require.NoError(t, err)
	var back struct {
		Base     string
		Settings []Setting
		Runs     []map[string]any
		Pairs    []struct{ Greedy struct{ Won []string } }
	}
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, "a", back.Base)
	require.Nil(t, back.Runs[0]["pass@k"])
	require.Equal(t, []string{"p4"}, back.Pairs[0].Greedy.Won)
	require.NoError(t, CheckFormat("csv"))
	require.ErrorContains(t, CheckFormat("xml"), "expected csv, markdown or json")
}

// The page is valid XML, has a curve of each run in each chart, and texts of runs are escaped.
func TestThePageHasEveryRun(t *testing.T) {
	c := several(t)
	text, err := c.Page().HTML()
	require.NoError(t, err)
	require.Contains(t, string(text[:1500]), PageMark)
	require.Equal(t, []string{"a", "b", "c", "d"}, c.Page().Names, "the headline has whole names")
	require.NotContains(t, string(text), "<script>|")
	dec := xml.NewDecoder(strings.NewReader(string(text)))
	lines := map[string]int{}
	for {
		token, err := dec.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "path" {
			for _, a := range e.Attr {
				if a.Name.Local == "class" && strings.HasPrefix(a.Value, "line ") {
					lines[a.Value]++
				}
			}
		}
	}
	require.Len(t, lines, 4)
	again, err := c.Page().HTML()
	require.NoError(t, err)
	require.Equal(t, text, again)
}

func TestSeedsAreSummarized(t *testing.T) {
	var runs []*Run
	folder := t.TempDir()
	for i, share := range []float64{0.4, 0.5, 0.6, 0.1} {
		j := stats.Judged{Step: 4}
		for k := range 10 {
			j.Problems, j.Correct = append(j.Problems, fmt.Sprint(k)), append(j.Correct, 0)
			if float64(k) < 10*share-1e-9 {
				j.Correct[k] = 1
			}
		}
		m := writtenRun{heldOut: "h", model: "m", steps: 4, evaluations: []stats.Judged{j}, change: func(c *configs.Config) {
			c.Seed, c.Threads = uint64(i), i // threads do not change results
			if i == 3 {
				c.LearningRate = 1e-2
			}
		}}
		r, err := Read(m.write(t, filepath.Join(folder, fmt.Sprint(i))))
		require.NoError(t, err)
		runs = append(runs, r)
	}
	s := Summarize(runs)
	require.Len(t, s.Groups, 2)
	require.Equal(t, "learning_rate=0.01", s.Groups[1].Name)
	f := s.Groups[0].Figures[0]
	require.Equal(t, "pass@1_greedy", f.Name)
	require.InDelta(t, 0.5, f.Mean(), 1e-15)
	require.InDelta(t, 0.1, f.Deviation(), 1e-15)
	require.InDelta(t, 0.1/math.Sqrt(3), f.Error(), 1e-15)
	require.True(t, math.IsNaN(s.Groups[1].Figures[0].Deviation()))
	require.Equal(t, []string{"learning_rate=0.01: one run has no standard deviation"}, s.Notes)
	text, err := s.JSON()
	require.NoError(t, err)
	require.Contains(t, string(text), `"seeds": [`)
	runs[1].Settings.Seed = 0
	require.Contains(t, strings.Join(Summarize(runs).Notes, "\n"), "the same seed and settings")
}

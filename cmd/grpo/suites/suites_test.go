package suites

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/suite"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

const excerpts = "../../../data/suite/testdata"

func plan(t *testing.T, name string, style suite.Style) *Plan {
	t.Helper()
	s, err := suite.Find(name)
	require.NoError(t, err)
	o := suite.Options{Source: filepath.Join(excerpts, name+".jsonl"), Style: style, CacheDir: t.TempDir()}
	if name == "gsm8k" && style == suite.Completion {
		s, o.Shots = mustFind("gsm8k"), 1
		text, err := os.ReadFile(o.Source)
		require.NoError(t, err)
		o.Source = t.TempDir()
		for _, split := range []string{"train", "test"} {
			require.NoError(t, os.WriteFile(filepath.Join(o.Source, split+".jsonl"), text, 0o644))
		}
	}
	b, err := s.Build(t.Context(), o)
	require.NoError(t, err)
	return &Plan{Built: b, flags: &Flags{}, changed: func(string) bool { return false }}
}

func mustFind(name string) *suite.Suite {
	s, err := suite.Find(name)
	if err != nil {
		panic(err)
	}
	return s
}

// The reference solutions of the sets are judged right, however the problems are asked, and wrong ones are not. By default one set is
// asked in both ways.
func TestOracle(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("SANDBOX_URL", "")
	cfg := configs.Defaults()
	cfg.SandboxSlots = 1
	for name, n := range map[string]int{"humaneval": 3, "mbpp": 4, "mbpp-sanitized": 2, "gsm8k": 2} {
		for _, style := range race.FirstOnly(suite.Chat, suite.Completion) {
			if style == suite.Completion && (name == "mbpp-sanitized" || name != "humaneval" && !testvariants.Exhaustive) {
				continue
			}
			j, err := plan(t, name, style).Oracle(t.Context(), &cfg)
			if badinput.Is(err) {
				t.Skip(err)
			}
			require.NoError(t, err)
			require.Equal(t, []any{n, n, n, 1.0}, []any{j.Problems, j.Solutions, j.Right, j.Score}, "%s %s: %v", name, style, j.Wrong)
		}
	}
	_, err := plan(t, "livecodebench", suite.Chat).Oracle(t.Context(), &cfg)
	require.ErrorContains(t, err, "has no solutions")
	judgeContests(t, &cfg)
}

// judgeContests judges the solutions beside the excerpt of LiveCodeBench, and a program that prints the first test's answer.
func judgeContests(t *testing.T, cfg *configs.Config) {
	p := plan(t, "livecodebench", suite.Chat)
	set, err := dataset.Open(t.Context(), p.Tasks, dataset.Options{Strict: true})
	require.NoError(t, err)
	defer set.Close()
	text, err := os.ReadFile(filepath.Join(excerpts, "solutions.jsonl"))
	require.NoError(t, err)
	var answers []reward.Completion
	for line := range strings.Lines(string(text)) {
		var solution struct{ ID, Code string }
		require.NoError(t, json.Unmarshal([]byte(line), &solution))
		for i := range set.Problems() {
			if q := &set.Problems()[i]; q.ID == solution.ID {
				answers = append(answers, reward.Completion{Problem: q, Text: "```python\n" + solution.Code + "\n```"})
			}
		}
	}
	require.Len(t, answers, 4)
	wrong := answers[0]
	wrong.Text = "```python\nprint(2)\n```"
	j := &OracleResult{}
	require.NoError(t, j.judge(t.Context(), cfg, append(answers, wrong)))
	require.Equal(t, []any{5, 4}, []any{j.Solutions, j.Right})
	require.Equal(t, []FailedSolution{{Problem: "lamp_a", Verdict: reward.WA}}, j.Wrong)
}

func TestSettle(t *testing.T) {
	p := &Plan{Built: &suite.Built{Suite: mustFind("livecodebench")}}
	given := map[string]bool{"temperature": true}
	p.changed = func(flag string) bool { return given[flag] }
	samples, k, tokens, temperature := 4, 0, 0, 1.0
	p.ApplyDefaults(Requested{&samples, &k, &tokens, &temperature})
	require.Equal(t, []any{10, 5, 2000, 1.0}, []any{samples, k, tokens, temperature})
	given, samples = map[string]bool{"samples": true}, 3
	p.ApplyDefaults(Requested{&samples, &k, &tokens, &temperature})
	require.Equal(t, []any{3, 3, 0.2}, []any{samples, k, temperature})
}

// A run's prompt settings do not apply to a suite; settings of the user override everything.
func TestConfigure(t *testing.T) {
	cfg := configs.Defaults()
	cfg.Env, cfg.HealTemplate, cfg.MaxTests, cfg.PromptTemplate, cfg.Comparator = "heal", "x", 3, "own.tmpl", "tolerant"
	cfg.EvalTopK, cfg.EvalMinP = 20, 0.1
	p := plan(t, "humaneval", suite.Completion)
	p.Configure(&cfg)
	require.Zero(t, cfg.EvalTopK)
	require.Zero(t, cfg.EvalMinP)
	require.Equal(t, []any{"none", "", 0, p.Template, "exact", "plain", 0.95},
		[]any{cfg.Env, cfg.HealTemplate, cfg.MaxTests, cfg.PromptTemplate, cfg.Comparator, cfg.Renderer, cfg.EvalTopP})
	require.Contains(t, cfg.Stop, "\ndef ")
	p.words = []string{"eval_top_p=0.5", "prompt_template=own.tmpl", "renderer=qwen3"}
	cfg.EvalTopP, cfg.PromptTemplate, cfg.Renderer = 0.5, "own.tmpl", "qwen3"
	p.Configure(&cfg)
	require.Equal(t, []any{"own.tmpl", "qwen3", 0.5}, []any{cfg.PromptTemplate, cfg.Renderer, cfg.EvalTopP})

	cfg.EvalTopK, cfg.EvalMinP, cfg.EvalSamples = 20, 0.1, 1
	card := Card{}
	card.deviations(p, &cfg)
	require.Subset(t, card.Deviations, []string{"top_k 20, none in the suite", "min_p 0.1, none in the suite"})
}

func scored(right ...float64) (all []grpo.Scored) {
	for _, r := range right {
		s := grpo.Scored{Score: reward.Score{Components: reward.Components{Correct: r}}}
		if r < 0 {
			s.Score.Excluded = reward.ExcludedInfra
		}
		if r == 0 {
			s.Finish = sampler.Length
		}
		all = append(all, s)
	}
	return all
}

func TestResults(t *testing.T) {
	e := &grpo.Evaluation{Sampled: &grpo.Sampled{K: 2}, Greedy: 0.5}
	for i, g := range []struct {
		difficulty, date string
		greedy           float64
		samples          []float64
	}{
		{"hard", "2024-09-03", 0, []float64{0, 0, 0, 1}},
		{"easy", "2024-08-01", 1, []float64{1, 1, 1, 1}},
		{"easy", "2024-09-30", 1, []float64{1, 0, -1, 1}},
		{"medium", "2024-08-02", -1, []float64{-1, -1, -1, -1}},
	} {
		meta, err := json.Marshal(suite.About{Difficulty: g.difficulty, Date: g.date})
		require.NoError(t, err)
		p := data.Problem{ID: fmt.Sprint(i), Metadata: meta}
		e.GreedyTry.Groups = append(e.GreedyTry.Groups, grpo.Group{Prompt: grpo.Prompt{Problem: p}, Rollouts: scored(g.greedy)})
		e.SampledTry.Groups = append(e.SampledTry.Groups, grpo.Group{Prompt: grpo.Prompt{Problem: p}, Rollouts: scored(g.samples...)})
	}
	r := results(e, 1)
	require.Equal(t, 0.25, r.Truncated)
	require.InDelta(t, 4.0/16, *r.SampledTruncated, 1e-12)
	require.Len(t, r.PassAt, 2) // of 1 and 2: no problem has 5 samples
	require.InDelta(t, (0.25+1+2.0/3)/3, r.PassAt[0].Value, 1e-12)
	require.InDelta(t, (0.5+1+1)/3, r.PassAt[1].Value, 1e-12)
	require.Equal(t, 3, r.PassAt[1].Problems)
	var names []string
	for _, g := range r.Groups {
		names = append(names, g.By+" "+g.Name)
	}
	require.Equal(t, []string{"difficulty easy", "difficulty medium", "difficulty hard", "month 2024-08", "month 2024-09"}, names)
	require.Equal(t, 2, r.Groups[0].Problems)
	require.InDelta(t, (1+2.0/3)/2, *r.Groups[0].Sampled, 1e-12)
	require.Nil(t, r.Groups[1].Sampled, "the machine failed")
	require.Equal(t, 0.5, r.Groups[4].Greedy)

	var b strings.Builder
	card := Card{Results: r}
	card.figures(func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) })
	require.Contains(t, b.String(), "| easy | 2 | 1.000 | ")
	require.Contains(t, b.String(), "| medium | 1 | not judged |  |  |")
}

// Contamination compares the problems, not the prompts; each problem counts once, as its closest match.
func TestContamination(t *testing.T) {
	long := strings.Repeat("count the lamps of every street that has a name with as many letters as it has houses ", 3)
	held := []data.Problem{{ID: "a", Statement: "Add two numbers.", Kind: data.Call, FuncName: "f"}, {ID: "b", Statement: long + "one"},
		{ID: "c", Statement: "Nothing like it."}}
	path := filepath.Join(t.TempDir(), "train.jsonl")
	rows := `{"messages":[{"role":"user","content":"Add  two\nnumbers."},{"role":"assistant","content":"no"}]}
{"task_id":7,"text":"` + long + ` two"}
{"id":"z","question":"Add two numbers."}
{"x":1}` + "\n"
	require.NoError(t, os.WriteFile(path, []byte(rows), 0o644))
	a, problems, err := open(t.Context(), path, "train")
	require.NoError(t, err)
	require.Len(t, problems, 3)
	require.NotEmpty(t, a.SHA256)
	c := &Contamination{Against: []SearchedData{{Source: path, Problems: 3}}}
	c.count(append(similarQuestions("other", problems[1:2], held), similarQuestions(path, problems, held)...))
	require.Equal(t, []int{1, 1, 2}, []int{c.Same, c.Near, len(c.Worst)})
	require.Equal(t, []string{"a", path + ":1", "b", "7"},
		[]string{c.Worst[0].Problem, c.Worst[0].Other, c.Worst[1].Problem, c.Worst[1].Other})
	require.Contains(t, c.String(), "1 problem is among the 3 of "+path+", and 1 nearly (a is 100 % of")
	c.Worst = []Overlap{{Problem: "b", Other: "7", Share: 0.998}}
	require.Contains(t, c.String(), "(b is 99 % of 7)", "99.8 % is not rounded to 100 %")
	c.Worst[0].Problem = "a|b\nc"
	require.Contains(t, (&Card{Contamination: c}).Markdown(), "\n| a\\|b c | 7 |  | 0.99 |\n", "a row of a table stays one row")
	_, _, err = open(t.Context(), filepath.Join(excerpts, "solutions.jsonl"), "train")
	require.ErrorContains(t, err, "no row says what is asked")
	require.NoError(t, os.WriteFile(path, []byte("{\"question\":\"Add two numbers.\"}\n{\n"), 0o644))
	flags := &Flags{against: []string{path}}
	require.NoError(t, flags.checkAgainst(t.Context()), "only rows up to the first with a problem's text are read")
	c, err = (&Plan{flags: flags}).contamination(t.Context(), CardInput{})
	require.NoError(t, err, "an evaluation is not lost")
	require.Contains(t, c.String(), "contamination: unknown, as "+path+" cannot be read: ")
	_, problems, err = open(t.Context(), "tiny", "train")
	require.NoError(t, err)
	require.NotEmpty(t, problems)
}

func TestStrings(t *testing.T) {
	p := &Plan{Built: &suite.Built{Suite: mustFind("livecodebench")}}
	p.Options.From = time.Date(2024, 8, 1, 0, 0, 0, 0, time.UTC)
	p.Options.Difficulty = "hard"
	require.Equal(t, "LiveCodeBench, code generation, 2024-08-01 to the last, hard", p.String())
	require.Equal(t, "````\na\n```python\nx\n```\n````", fencedBlock("a\n```python\nx\n```\n"))
	var out strings.Builder
	require.NoError(t, (&OracleResult{Refused: 1}).Print(&out))
	require.Contains(t, out.String(), "\n1 problem left out, whose tests fit no known shape\n")
}

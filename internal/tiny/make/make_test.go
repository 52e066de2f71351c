package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/racing"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
)

// The embedded problems are those that this command makes.
func TestProblemsAreReproduced(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, run(t.Context(), dir, 1, 0, true))
	for _, name := range []string{"train.jsonl", "heldout.jsonl"} {
		want, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s is another now: run make tiny-model", name)
	}
}

func TestHeldOutFamiliesRecombineWhatIsTrained(t *testing.T) {
	w := newWorld()
	trained, parts := map[string]bool{}, map[string]bool{}
	for _, f := range w.train {
		trained[f.String()], parts[f.op.name], parts[f.output.name] = true, true, true
	}
	require.Greater(t, len(w.heldOut), 40)
	require.Greater(t, len(w.validation), 15)
	for _, f := range slices.Concat(w.heldOut, w.validation) {
		require.False(t, trained[f.String()], f)
		require.True(t, parts[f.op.name], f)
		require.True(t, parts[f.output.name], f)
	}
}

// spaceless is a text without white space: what has it word for word, however it is laid out, has this.
func spaceless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// Neither a held-out problem nor a program that solves one is in anything that the model or its tokenizer is trained
// on, nor among the problems of a training run. The same holds for the validation split.
func TestNoAnswerIsInTheCorpus(t *testing.T) {
	racing.Alone(t)
	w := newWorld()
	s := w.problems()
	var statements, programs []string
	for _, p := range slices.Concat(s.heldOut, s.validation) {
		statements, programs = append(statements, spaceless(p.statement())), append(programs, spaceless(p.program(p.right())))
	}
	require.Greater(t, len(programs), 300)
	found := func(list []string, text string) (n int) {
		text = spaceless(text)
		for _, l := range list {
			if strings.Contains(text, l) {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1, found(programs, s.heldOut[0].solution())) // so the search finds what is there
	c := newCorpus(w, s)
	programsFound, statementsFound, texts := 0, 0, 0
	for p, answer := range c.all(trainingSteps) {
		programsFound += found(programs, answer)
		statementsFound += found(statements, p.statement())
		texts++
	}
	for _, p := range s.train {
		programsFound += found(programs, p.solution())
		statementsFound += found(statements, p.statement())
	}
	t.Logf("%d programs, %d completions and %d problems to train on", len(programs), texts, len(s.train))
	require.Equal(t, trainingSteps*batch+tokenizerTexts, texts)
	require.Zero(t, programsFound)
	require.Zero(t, statementsFound)
}

// judge runs programs as a training run does.
func judge(t *testing.T) *reward.Judge {
	t.Helper()
	j, err := reward.Open(t.Context(), reward.Config{Timeout: 2 * time.Second, Sandbox: "local"})
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}

// Every expected result has been computed twice: by the eval of an op in Go, and by its code in Python. And a problem
// that is misread gives a program that is wrong, but for some that are none the worse for it. One family of each op is
// tried.
func TestAnswersAgainstTheTests(t *testing.T) {
	j := judge(t)
	w := newWorld()
	c := newCorpus(w, w.problems())
	rng := rand.New(rand.NewPCG(5, 5))
	var right, wrong []reward.Completion
	for i, of := range byOp() {
		f := of[i%len(of)]
		p := f.instance(rng)
		r := p.record(f.String(), testsTrain, rng)
		require.Len(t, r.Tests, testsTrain, f)
		task := r.Problem.WithTests(r.Tests...)
		right = append(right, reward.Completion{Problem: &task, Text: p.solution()})
		for range 8 {
			if misread := c.misread(p, rng); misread.program(misread.right()) != p.program(p.right()) {
				wrong = append(wrong, reward.Completion{Problem: &task, Text: misread.program(misread.right()), Bare: true})
			}
		}
	}
	require.Greater(t, len(wrong), 100)
	scores, err := reward.All(context.Background(), j, append(right, wrong...))
	require.NoError(t, err)
	passed := 0
	for i, s := range scores {
		if i < len(right) {
			assert.Equal(t, reward.AC, s.Verdict, "%s: %s\n%s", right[i].Problem.Statement, s.Note, right[i].Text)
		} else if s.Verdict == reward.AC {
			passed++
			t.Logf("passes all the same: %s\n%s", wrong[i-len(right)].Problem.Statement, wrong[i-len(right)].Text)
		}
	}
	t.Logf("%d right programs pass; of %d wrong ones %d do", len(right), len(wrong), passed)
	require.Less(t, passed, len(wrong)/20)
}

// The corpus is as noisy as its authors: what is right, what has no program, and what is fenced badly.
func TestAnswersAreAMixture(t *testing.T) {
	w := newWorld()
	c := newCorpus(w, w.problems())
	right, talk, bare, open := 0, 0, 0, 0
	const n = 4000
	for i := range n {
		p, answer := c.example(i)
		fence, program := strings.HasPrefix(answer, "```python\n"), strings.Contains(answer, "\n")
		switch {
		case answer == p.solution():
			right++
		case !program:
			talk++
		case !fence:
			bare++
		case !strings.HasSuffix(answer, "```"):
			open++
		}
	}
	t.Logf("right %d, without a program %d, without a fence %d, not closed %d of %d", right, talk, bare, open, n)
	require.InDelta(t, 0.38, float64(right)/n, 0.05)
	require.InDelta(t, talks, float64(talk)/n, 0.02)
	require.InDelta(t, (1-talks)*leavesNoFence, float64(bare)/n, 0.02)
	require.InDelta(t, (1-talks)*leavesItOpen, float64(open)/n, 0.02)
}

// A slip falls on any token, changes the program, and is of its own for every completion: no input, op or output draws
// more of them than its length does.
func TestSlipsFallAnywhere(t *testing.T) {
	racing.Alone(t)
	const code = "a = list(map(int, input().split()))\nprint(\"got:\", sum(x for x in a if x > 4))\n"
	rng := rand.New(rand.NewPCG(6, 6))
	changed := map[string]int{}
	const n = 20000
	for range n {
		slipped := slip(code, rng)
		at := 0
		for at < min(len(code), len(slipped)) && code[at] == slipped[at] {
			at++
		}
		changed[code[:at]]++
	}
	require.NotContains(t, changed, code, "a slip that changes nothing")
	places := len(tokens.FindAllString(code, -1))
	require.Greater(t, len(changed), places*2/3)
	for before, times := range changed { // neighbours may begin to differ at the same place
		require.Less(t, float64(times)/n, 4/float64(places), before)
	}
}

// A few steps of the whole: two models of the same seed are equal to the byte, on any number of
// threads, and open.
func TestModelsRepeat(t *testing.T) {
	w := newWorld()
	corpus := newCorpus(w, w.problems())
	var files [2]string
	for i, threads := range []int{1, 2} {
		b, err := cpu.New(cpu.Options{Threads: threads})
		require.NoError(t, err)
		dir := filepath.Join(t.TempDir(), "model")
		require.NoError(t, makeModel(t.Context(), b, corpus, dir, filepath.Join("..", "prompt.tmpl"), 2))
		_, err = model.Open(b, dir, false, model.Options{})
		require.NoError(t, errors.Join(err, b.Close()))
		for _, name := range []string{"model.safetensors", "tokenizer.json", "config.json"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			files[i] += string(text)
		}
	}
	require.True(t, files[0] == files[1], "two runs made different models")
}

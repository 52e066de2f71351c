package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	train, heldOut := split(rand.New(rand.NewPCG(problemSeed, 0)))
	seen := map[string]bool{}
	for _, f := range train {
		seen[f.String()], seen[f.op.name], seen[f.output.name] = true, true, true
	}
	require.Greater(t, len(heldOut), 40)
	for _, f := range heldOut {
		require.False(t, seen[f.String()], f)
		require.True(t, seen[f.op.name], f)
		require.True(t, seen[f.output.name], f)
	}
	c := corpus{families: train, taken: map[string]bool{}}
	for i := range 2000 {
		p, _ := c.example(i)
		require.True(t, seen[p.family.String()])
	}
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

// Every expected result has been computed twice: by the eval of an op in Go, and by its code in Python.
// And a piece that is wrong makes an answer that is wrong, but for some that are none the worse for it:
// the first words of a line need not be numbers to be printed. One family of each op is tried.
func TestAnswersAgainstTheTests(t *testing.T) {
	j := judge(t)
	rng := rand.New(rand.NewPCG(5, 5))
	var right, wrong []reward.Completion
	for i, of := range byOp() {
		f := of[i%len(of)]
		p := f.instance(rng)
		r := p.record(f.String(), rng)
		require.GreaterOrEqual(t, len(r.Tests), 4, f)
		task := r.Problem.WithTests(r.Tests...)
		right = append(right, reward.Completion{Problem: &task, Text: p.solution()})
		if i%5 != 0 {
			continue // every fifth will do
		}
		try := func(use parts) {
			wrong = append(wrong, reward.Completion{Problem: &task, Text: p.program(use), Bare: true})
		}
		for _, w := range p.op.wrong {
			use := p.right()
			use.code = w
			try(use)
		}
		for _, w := range p.output.wrong {
			use := p.right()
			use.give = w
			try(use)
		}
		for _, w := range inputs[p.in].wrong {
			use := p.right()
			use.read = w
			if !p.call {
				try(use)
			}
		}
	}
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

// What goes wrong in the corpus goes wrong in known ways, and often enough of it goes right.
func TestAnswersAreAMixture(t *testing.T) {
	train, _ := split(rand.New(rand.NewPCG(problemSeed, 0)))
	c := corpus{families: train, taken: map[string]bool{}}
	right, unfenced, open := 0, 0, 0
	const n = 4000
	for i := range n {
		p, answer := c.example(i)
		switch {
		case answer == p.solution():
			right++
		case !strings.HasPrefix(answer, "```python\n"):
			unfenced++
		case !strings.HasSuffix(answer, "```"):
			open++
		}
	}
	t.Logf("right %d, without a fence %d, not closed %d of %d", right, unfenced, open, n)
	require.InDelta(t, 0.25, float64(right)/n, 0.05)
	require.InDelta(t, (1-formatOften)/2, float64(unfenced)/n, 0.02)
	require.InDelta(t, (1-formatOften)/2, float64(open)/n, 0.02)
}

// A few steps of the whole: two models of the same seed are equal to the byte, on any number of
// threads, and open.
func TestModelsRepeat(t *testing.T) {
	train, _ := split(rand.New(rand.NewPCG(problemSeed, 0)))
	var files [2]string
	for i, threads := range []int{1, 2} {
		b, err := cpu.New(cpu.Options{Threads: threads})
		require.NoError(t, err)
		dir := filepath.Join(t.TempDir(), "model")
		c := &corpus{families: train, taken: map[string]bool{}}
		require.NoError(t, makeModel(t.Context(), b, c, dir, filepath.Join("..", "prompt.tmpl"), 2))
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

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

	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
)

// The command makes exactly the problems that are embedded.
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
	w := newFamilySplit()
	require.Len(t, w.heldOut, heldOutFamilies)
	require.Len(t, w.validation, validationFamilies)
	require.Len(t, w.train, len(ops)*len(outputs)-heldOutFamilies-validationFamilies)
	trained, parts := map[string]bool{}, map[string]int{}
	for _, f := range w.train {
		trained[f.String()] = true
		parts["op "+f.op.name]++
		parts["output "+f.output.name]++
	}
	require.Len(t, trained, len(w.train))
	require.Len(t, parts, len(ops)+len(outputs))
	for part, times := range parts {
		require.GreaterOrEqual(t, times, 10, part)
	}
	for _, f := range slices.Concat(w.heldOut, w.validation) {
		require.False(t, trained[f.String()], f)
		trained[f.String()] = true // nor in both
	}
}

// spaceless removes white space, so that texts are found whatever their layout.
func spaceless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// No held-out problem, and no program that solves one, is in the training data of the model or its tokenizer, or among the problems of a
// training run, and no problem of a held-out family is posed. The same holds for the validation split.
func TestNoAnswerIsInTheCorpus(t *testing.T) {
	race.SkipSerial(t)
	w := newFamilySplit()
	s := w.problems()
	var statements, programs []string
	for _, p := range slices.Concat(s.heldOut, s.validation) {
		statements, programs = append(statements, spaceless(p.statement())), append(programs, spaceless(p.program()))
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
	require.Equal(t, 1, found(programs, s.heldOut[0].solution())) // the search does find a program
	c, steps := newCorpus(w, s), testvariants.Limit(300, trainingSteps)
	back := map[string]bool{}
	for _, f := range slices.Concat(w.heldOut, w.validation) {
		back[f.String()] = true
	}
	programsFound, statementsFound, texts, taken := 0, 0, 0, 0
	for p, dialogues := range c.examples(steps) {
		for _, d := range dialogues {
			programsFound += found(programs, d.first.text)
			if d.second != "" {
				programsFound += found(programs, d.second)
			}
			if back[d.first.reading.family.String()] {
				taken++
				require.NotEqual(t, p.solution(), d.first.text)
			}
			texts++
		}
		require.False(t, back[p.family.String()], p.family)
		statementsFound += found(statements, p.statement())
	}
	for _, p := range s.train {
		require.False(t, back[p.family.String()], p.family)
		programsFound += found(programs, p.solution())
		statementsFound += found(statements, p.statement())
	}
	t.Logf("%d programs, %d completions, %d of a family that is held back, and %d problems to train on",
		len(programs), texts, taken, len(s.train))
	require.Equal(t, (steps*batch+tokenizerTexts)*authors, texts)
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

// The code of each op in Python passes the tests whose results its eval in Go has computed, and the program for a misread problem fails
// them, with few exceptions where both do the same on the inputs drawn. One family of each op is tested.
func TestAnswersAgainstTheTests(t *testing.T) {
	j := judge(t)
	w := newFamilySplit()
	c := newCorpus(w, w.problems())
	rng := rand.New(rand.NewPCG(5, 5))
	var right, wrong []reward.Completion
	for i, of := range familiesByOp() {
		f := of[i%len(of)]
		p := f.instance(rng)
		r := p.record(f.String(), testsTrain, rng)
		require.Len(t, r.Tests, testsTrain, f)
		task := r.Problem.WithTests(r.Tests...)
		right = append(right, reward.Completion{Problem: &task, Text: p.solution()})
		for range 8 {
			if misread := c.guess(p, nil, mostlyGuessed, rng); misread.program() != p.program() {
				wrong = append(wrong, reward.Completion{Problem: &task, Text: misread.program(), Bare: true})
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

// The corpus has each kind of answer as often as intended: right ones, ones without a program, badly fenced ones, and second ones. A right
// first answer has no second one, and no second answer repeats the first.
func TestAnswersAreAMixture(t *testing.T) {
	w := newFamilySplit()
	c := newCorpus(w, w.problems())
	for _, lesson := range []struct {
		name          string
		from          int
		right, mended float64
	}{{"fair", 0, 0.36, 0.48}, {"poor", firstLessonSteps * batch, 0.11, 0.27}} {
		n, right, talk, bare, open, again, mended := 0, 0, 0, 0, 0, 0, 0
		for i := range 700 {
			p, dialogues := c.example(lesson.from + i)
			require.Len(t, dialogues, authors)
			for _, d := range dialogues {
				n++
				fence, program := strings.HasPrefix(d.first.text, "```python\n"), strings.Contains(d.first.text, "\n")
				switch {
				case d.first.text == p.solution():
					right++
					require.Empty(t, d.second)
				case !program:
					talk++
					require.Nil(t, d.shown, "an answer without a program is not shown a test")
				case !fence:
					bare++
				case !strings.HasSuffix(d.first.text, "```"):
					open++
				}
				if d.second != "" {
					again++
					require.NotEqual(t, d.first.text, d.second)
					if d.second == p.solution() {
						mended++
					}
				}
			}
		}
		t.Logf("%s: right %d, without a program %d, without a fence %d, not closed %d of %d; again %d, right then %d",
			lesson.name, right, talk, bare, open, n, again, mended)
		require.InDelta(t, lesson.right, float64(right)/float64(n), 0.04)
		require.InDelta(t, lesson.mended, float64(mended)/float64(again), 0.08)
		require.InDelta(t, secondAnswer, float64(again)/float64(n-right), 0.04)
		require.InDelta(t, noProgram, float64(talk)/float64(n), 0.02)
		require.InDelta(t, (1-noProgram)*noFence, float64(bare)/float64(n), 0.02)
		require.InDelta(t, (1-noProgram)*openFence, float64(open)/float64(n), 0.02)
	}
}

// A guess needs no number or label that the statement lacks, and a second guess does not repeat a wrong first one.
func TestGuessesWantNothingElse(t *testing.T) {
	w := newFamilySplit()
	c := newCorpus(w, w.problems())
	rng := rand.New(rand.NewPCG(7, 7))
	for _, f := range w.train {
		p := f.instance(rng)
		for range 4 {
			g := c.guess(p, nil, mostlyGuessed, rng)
			require.True(t, placeholdersWithin(g.op.code, p.op.code) && placeholdersWithin(g.output.code, p.output.code), "%s for %s", g.family, f)
			again := c.guess(p, &g, mostlyGuessed, rng)
			require.True(t, g.op.name == p.op.name || again.op.name != g.op.name || again.family.String() == f.String(),
				"%s twice for %s", g.family, f)
		}
	}
}

// A slip always changes the program, and no token gets many more slips than others.
func TestSlipsFallAnywhere(t *testing.T) {
	race.SkipSerial(t)
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
	for before, times := range changed { // neighbours may begin to differ at the same position
		require.Less(t, float64(times)/n, 4/float64(places), before)
	}
}

// After one step of each lesson, models of the same seed are equal to the byte, with any number of threads, and can be opened.
func TestModelsRepeat(t *testing.T) {
	race.SkipSerial(t)
	w := newFamilySplit()
	corpus := newCorpus(w, w.problems())
	var files [2]string
	for i, threads := range []int{2, 1} {
		b, err := cpu.New(cpu.Options{Threads: threads})
		require.NoError(t, err)
		dir := filepath.Join(t.TempDir(), "model")
		require.NoError(t, makeModel(t.Context(), b, corpus, dir, 2))
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

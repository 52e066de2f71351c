package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
)

// base are settings that no word changes.
var base = func() []byte {
	c := configs.Defaults()
	return c.Marshal()
}()

func grid(t *testing.T, words ...string) [][]string {
	t.Helper()
	axes, err := Parse(words)
	require.NoError(t, err)
	all, err := Grid(axes)
	require.NoError(t, err)
	return all
}

func TestWordsBecomeAGrid(t *testing.T) {
	require.Equal(t, [][]string{
		{"learning_rate=1e-4", "seed=0", "max_steps=40"}, {"learning_rate=1e-4", "seed=1", "max_steps=40"},
		{"learning_rate=2e-4", "seed=0", "max_steps=40"}, {"learning_rate=2e-4", "seed=1", "max_steps=40"},
	}, grid(t, "learning_rate=1e-4,2e-4", "seed=0..1", "max_steps=40"))
	require.Equal(t, [][]string{
		{"lora_targets=[q_proj,v_proj]", "reward_weights=correct=1,format=0.1"}, {"lora_targets=[q_proj,v_proj]", "reward_weights=correct=1"},
		{"lora_targets=o_proj", "reward_weights=correct=1,format=0.1"}, {"lora_targets=o_proj", "reward_weights=correct=1"},
	}, grid(t, "lora_targets=[q_proj,v_proj],o_proj", "reward_weights=[correct=1,format=0.1],correct=1"), "brackets hold commas together")
	require.Equal(t, [][]string{{"judge_score=[0-9]+"}, {"judge_score="}}, grid(t, "judge_score=[[0-9]+],"))
	require.Equal(t, [][]string{{"prompt_template=../x"}}, grid(t, "prompt_template=../x"), "only numbers have ranges")
	require.Equal(t, []string{"learning_rate=1e-4,prompt_template=a_b", "learning_rate=1e-4,prompt_template=c", "run-003"},
		Names([][]string{{"seed=1", "learning_rate=1e-4", "prompt_template=a/b"}, {"seed=1", "learning_rate=1e-4", "prompt_template=c"},
			{"seed=1", "learning_rate=2e-4", "prompt_template=" + strings.Repeat("x", 200)}}))
}

func TestWordsThatCannotBeMeant(t *testing.T) {
	for word, says := range map[string]string{
		"seed": "expected key=value", "run_dir=x": "type --dir", "seed=0..1,5": "a range among values", "seed=2..1": "the smaller number first",
		"seed=0.5..1": `"0.5" in a range`, "lora_targets=[a,b": "brackets do not match", "stop=a]": "brackets do not match",
		"seed=1,1": "1 is there twice", "learning_rate=1e-4..nan": `"nan" in a range`,
		"seed=0..18446744073709551615": "expected numbers up to 9007199254740991",
		"seed=-9007199254740993000..1": "expected numbers up to 9007199254740991",
	} {
		_, err := Parse([]string{word})
		require.ErrorContains(t, err, says, word)
	}
	_, err := Parse([]string{"seed=1", "seed=2"})
	require.ErrorContains(t, err, "there twice")
	for word, says := range map[string]string{"learning_rate=1e-5..1e-3": "--random N", "seed=0..99999999": "--random N"} {
		axes, err := Parse([]string{word})
		require.NoError(t, err)
		_, err = Grid(axes)
		require.ErrorContains(t, err, says)
	}
}

// Too many combinations are refused, however they are specified.
func TestRandomHasAnEnd(t *testing.T) {
	_, err := Open(t.TempDir(), &Plan{Words: []string{"learning_rate=1e-5..1e-3"}, Random: 1 << 40})
	require.ErrorContains(t, err, "--random: found 1099511627776, expected 10000 combinations at the most")
}

// Drawn values depend on the seed only, are in their range, and a log-uniform rate is equally likely in each decade.
func TestRandomCombinations(t *testing.T) {
	axes, err := Parse([]string{"learning_rate=1e-5..1e-3", "seed=0..2", "temperature=0.5..1", "loss=ppo,cispo"})
	require.NoError(t, err)
	all := Random(axes, 400, 7)
	require.Len(t, all, 400)
	require.Equal(t, all[:50], Random(axes, 50, 7))
	require.NotEqual(t, all[:50], Random(axes, 50, 8))
	low := 0
	for _, words := range all {
		rate, err := strconv.ParseFloat(strings.TrimPrefix(words[0], "learning_rate="), 64)
		require.NoError(t, err)
		require.True(t, rate >= 1e-5 && rate <= 1e-3, rate)
		if rate < 1e-4 {
			low++
		}
	}
	require.InDelta(t, 200, low, 60, "log-uniform draws are often low: of uniform ones there would be 36")
	axes, err = Parse([]string{"seed=0..2"})
	require.NoError(t, err)
	require.Len(t, Random(axes, 10, 0), 3, "each combination is drawn once")
	axes, err = Parse([]string{"adam_beta2=0.99991..0.99994", "learning_rate=1.23456e-5..1.23458e-5"})
	require.NoError(t, err)
	for _, words := range Random(axes, 20, 0) {
		for i, word := range words {
			v, err := strconv.ParseFloat(strings.TrimPrefix(word, axes[i].Key+"="), 64)
			require.NoError(t, err)
			require.True(t, v >= axes[i].Range.Low && v <= axes[i].Range.High, word)
		}
	}
}

// fakeCommand is a fake of the command: a run makes the requested steps, and its score depends on its seed.
type fakeCommand struct {
	t     *testing.T
	j     *Journal
	mu    sync.Mutex
	calls []string
	fails map[string]error
	stop  func(calls int)
}

func (p *fakeCommand) run(ctx context.Context, e Entry, words []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	steps := configs.Word(words, "max_steps")
	p.calls = append(p.calls, e.Name+" to "+steps)
	if p.stop != nil {
		p.stop(len(p.calls))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := p.fails[e.Name]; err != nil {
		return err
	}
	seed, err := strconv.Atoi(configs.Word(words, "seed"))
	require.NoError(p.t, err)
	dir := p.j.RunDir(e.Name)
	require.NoError(p.t, os.MkdirAll(dir, 0o755))
	put := func(name, text string) {
		require.NoError(p.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	put("config.json", fmt.Sprintf(`{"version":1,"seed":%d,"max_steps":%s}`, seed, steps))
	put("manifest.json", `{"created":"x","starts":[{"after":0,"parts":{"test_data":{"sha256":"h"}}}]}`)
	score := []string{"0", "1", "0.5", "0.25"}[seed%4]
	if seed == unjudged {
		score = "null"
	}
	put("metrics.jsonl", fmt.Sprintf(`{"step":%s,"mean_reward":0.5}
{"kind":"evaluation","step":%[1]s,"problems":1,"pass@1_greedy":%s}
`, steps, score))
	return nil
}

func (p *fakeCommand) drive(t *testing.T, dir string, atOnce int, words []string, rungs []int) (*Journal, error) {
	t.Helper()
	plan := &Plan{Words: words, Rungs: rungs}
	plan.SetBase(base)
	j, err := Open(dir, plan)
	require.NoError(t, err)
	require.NoError(t, j.Begin())
	defer j.Close()
	p.t, p.j = t, j
	d := Driver{Journal: j, AtOnce: atOnce, Run: p.run, Say: func(string, ...any) {}}
	return j, d.Drive(context.Background())
}

func results(t *testing.T, j *Journal) string {
	t.Helper()
	_, table, err := j.Results()
	require.NoError(t, err)
	text, err := table.Write("csv")
	require.NoError(t, err)
	return string(text)
}

func TestARunThatFailsStopsNoOther(t *testing.T) {
	dir := t.TempDir()
	p := &fakeCommand{fails: map[string]error{"seed=1": errors.New("no memory")}}
	j, err := p.drive(t, dir, 2, []string{"seed=0..3", "max_steps=4"}, nil)
	require.NoError(t, err)
	require.Len(t, p.calls, 4)
	require.Equal(t, []string{Failed, "no memory"}, []string{j.Runs[1].State, j.Runs[1].Why})
	require.Contains(t, results(t, j), "seed=1,failed,,")
	failed, may := j.Failures()
	require.Equal(t, []int{1, 1}, []int{failed, may})
	j, err = (&fakeCommand{fails: map[string]error{"seed=1": ErrDiverged}}).drive(t, dir, 1, []string{"seed=0..3", "max_steps=4"}, nil)
	require.NoError(t, err)
	failed, may = j.Failures()
	require.Equal(t, []int{1, 0}, []int{failed, may}, "a run that broke its policy is not tried again")
	again := &fakeCommand{}
	j, err = again.drive(t, dir, 1, []string{"seed=0..3", "max_steps=4"}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"seed=1 to 4"}, again.calls, "only failed runs are repeated")
	plain := &fakeCommand{}
	want, err := plain.drive(t, t.TempDir(), 1, []string{"seed=0..3", "max_steps=4"}, nil)
	require.NoError(t, err)
	require.Equal(t, results(t, want), results(t, j))
}

// At each rung the worse half is eliminated; after an interruption at any moment, the next process completes the sweep, with the same
// results.
func TestHalvingGoesOnAfterAnyInterruption(t *testing.T) {
	words, rungs := []string{"seed=0..3", "max_steps=8"}, Rungs(8, 3)
	require.Equal(t, []int{2, 4, 8}, rungs)
	require.Equal(t, []int{1, 2, 3}, Rungs(3, 3))
	require.Equal(t, []int{1, 2}, Rungs(2, 3), "each rung occurs once")
	whole := &fakeCommand{}
	j, err := whole.drive(t, t.TempDir(), 1, words, rungs)
	require.NoError(t, err)
	require.Equal(t, []string{"seed=0 to 2", "seed=1 to 2", "seed=2 to 2", "seed=3 to 2", "seed=1 to 4", "seed=2 to 4", "seed=1 to 8"},
		whole.calls)
	want := results(t, j)
	require.Contains(t, want, "seed=1,done,8")
	require.Contains(t, want, "seed=2,left behind,4")
	for at := 1; at <= len(whole.calls); at++ {
		dir := t.TempDir()
		first := &fakeCommand{}
		ctx, cancel := context.WithCancel(context.Background())
		plan := &Plan{Words: words, Rungs: rungs}
		plan.SetBase(base)
		j, err := Open(dir, plan)
		require.NoError(t, err)
		require.NoError(t, j.Begin())
		first.t, first.j, first.stop = t, j, func(calls int) {
			if calls == at {
				cancel()
			}
		}
		d := Driver{Journal: j, AtOnce: 1, Run: first.run, Say: func(string, ...any) {}}
		require.ErrorIs(t, d.Drive(ctx), context.Canceled)
		require.NoError(t, j.Close())
		second := &fakeCommand{}
		j, err = second.drive(t, dir, 1, words, rungs)
		require.NoError(t, err)
		require.Len(t, second.calls, len(whole.calls)-at+1, "stopped in call %d", at)
		require.Equal(t, want, results(t, j))
	}
}

func TestAJournalIsOfOneSweep(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir, nil)
	require.ErrorContains(t, err, "no sweep to resume")
	p := &fakeCommand{}
	_, err = p.drive(t, dir, 1, []string{"seed=0..1", "max_steps=1"}, nil)
	require.NoError(t, err)
	j, err := Open(dir, nil)
	require.NoError(t, err)
	require.Equal(t, base, j.Base())
	other := &Plan{Words: []string{"seed=0..2"}}
	other.SetBase(base)
	_, err = Open(dir, other)
	require.ErrorContains(t, err, "other settings")
	require.NoError(t, os.WriteFile(j.BasePath(), []byte("edited"), 0o644))
	_, err = Open(dir, nil)
	require.ErrorContains(t, err, "was changed since the sweep wrote it")
	require.NoError(t, os.WriteFile(filepath.Join(dir, File), []byte("{"), 0o644))
	_, err = Open(dir, nil)
	require.ErrorContains(t, err, "not the journal of a sweep")
}

// A sweep begun by an older release continues: settings that did not exist then have their old behaviour, also in runs that have not
// begun.
func TestASweepOfAnOlderReleaseGoesOn(t *testing.T) {
	dir, line := t.TempDir(), regexp.MustCompile(`(?m)^(share_prefixes|adapter_precision|speculate): .*\n`)
	require.Len(t, line.FindAll(base, -1), 3)
	plan := &Plan{Words: []string{"seed=0..1", "max_steps=1"}}
	plan.SetBase(line.ReplaceAll(base, nil))
	text, err := json.Marshal(Journal{Version: 1, Plan: *plan, Runs: []Entry{{Name: "seed=0", State: Done}, {Name: "seed=1", State: Running}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, File), text, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, BaseFile), plan.base, 0o644))
	for range 2 {
		j, err := Open(dir, nil)
		require.NoError(t, err)
		require.NoError(t, j.Begin())
		got, err := configs.Load(configs.Source{File: j.SettingsPath()})
		require.NoError(t, err)
		want := configs.Defaults()
		want.SharePrefixes, want.AdapterPrecision = false, "f32"
		require.Equal(t, want, *got)
		text, err := os.ReadFile(j.SettingsPath())
		require.NoError(t, err)
		require.Equal(t, text, j.Base())
		text, err = os.ReadFile(j.BasePath())
		require.NoError(t, err)
		require.Equal(t, plan.base, text, "it stays as the sweep began with it")
		require.NoError(t, j.Close())
		again := &Plan{Words: plan.Words}
		again.SetBase(got.Marshal())
		_, err = Open(dir, again)
		require.NoError(t, err, "its words are typed again, where what came since changes nothing")
		again.SetBase(base)
		_, err = Open(dir, again)
		require.ErrorContains(t, err, "other settings", "today's settings differ")
	}
}

// Failures of the machine do not eliminate runs: the rung waits for missing ones, and the sweep ends as without failures.
func TestARaceWaitsForAMachineThatFails(t *testing.T) {
	words, rungs := []string{"seed=0..3", "max_steps=8"}, Rungs(8, 3)
	j, err := (&fakeCommand{}).drive(t, t.TempDir(), 1, words, rungs)
	require.NoError(t, err)
	want := results(t, j)
	for _, name := range []string{"seed=0", "seed=1", "seed=2"} {
		dir := t.TempDir()
		for range 2 {
			j, err = (&fakeCommand{fails: map[string]error{name: errors.New("no room")}}).drive(t, dir, 2, words, rungs)
			require.ErrorContains(t, err, "1 of 4 runs failed before step 2, and the race waits for it; the logs are in "+filepath.Join(dir, "logs")+
				"; type grpo sweep --dir "+dir+" to try it again")
			require.False(t, slices.ContainsFunc(j.Runs, func(e Entry) bool { return e.State == Eliminated || e.State == Done }))
		}
		j, err = (&fakeCommand{}).drive(t, dir, 2, words, rungs)
		require.NoError(t, err)
		require.Equal(t, want, results(t, j), name)
	}
	dir := t.TempDir() // and at a higher rung, and at the last one
	for _, steps := range []string{"4", "8"} {
		p := &fakeCommand{}
		fails := func(calls int) {
			if p.fails = nil; strings.HasSuffix(p.calls[calls-1], " to "+steps) {
				p.fails = map[string]error{"seed=1": errors.New("no room")}
			}
		}
		p.stop = fails
		j, err = p.drive(t, dir, 1, words, rungs)
		require.Equal(t, steps != "8", err != nil)
		failed, again := j.Failures()
		require.Equal(t, []int{1, 1}, []int{failed, again})
	}
	j, err = (&fakeCommand{}).drive(t, dir, 1, words, rungs)
	require.NoError(t, err)
	require.Equal(t, want, results(t, j))
}

// Of an odd number of runs the middle one stays; a run that lost its policy stays eliminated, however often the sweep is resumed.
func TestARaceOfThreeAndOneThatFails(t *testing.T) {
	words, rungs := []string{"seed=0..3", "max_steps=4"}, Rungs(4, 2)
	dir := t.TempDir()
	p := &fakeCommand{fails: map[string]error{"seed=1": fmt.Errorf("step 1: %w", ErrDiverged)}}
	j, err := p.drive(t, dir, 1, words, rungs)
	require.NoError(t, err)
	require.Equal(t, []string{"seed=0 to 2", "seed=1 to 2", "seed=2 to 2", "seed=3 to 2", "seed=2 to 4", "seed=3 to 4"}, p.calls)
	again := &fakeCommand{}
	later, err := again.drive(t, dir, 1, words, rungs)
	require.NoError(t, err)
	require.Empty(t, again.calls)
	require.Equal(t, results(t, j), results(t, later))
}

package rollouts

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/conversation"
	"github.com/seed-7879b91d/grpo/sampler"
)

// step are the completions of a step: two groups of two, the last one a conversation with advantages of its own.
func step(number int) (lines []Line) {
	for i := range 4 {
		lines = append(lines, Line{Step: number, Group: i / 2, Sample: i % 2, Problem: fmt.Sprintf("p%d", number), Prompt: []int32{1, 2},
			Tokens: []int32{5, 6, 7, 8}, LogProbs: []float32{-1, -2, 0, -0.5}, Text: "a\nb", Finish: sampler.Stop, Advantage: float64(i) - 1.5})
	}
	lines[3].Conversation = &conversation.Record{Turns: []sampler.Turn{{Start: 0, End: 2, Finish: sampler.Stop}, {Start: 3, End: 4,
		Finish: sampler.Length}}, Most: 2}
	lines[3].Advantages = []float64{1, 2, 3}
	return lines
}

// recorded writes steps into dir, in the format of the settings.
func recorded(t *testing.T, dir, word string, steps ...int) {
	t.Helper()
	cfg, err := configs.Load(configs.Source{Preset: "defaults", Overrides: []string{word}})
	require.NoError(t, err)
	for _, number := range steps {
		w := NewWriter(cfg, number, func(name string) io.Writer {
			require.Contains(t, Logs(cfg, dir), name)
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			return f
		})
		for _, l := range step(number) {
			w.Add(l)
		}
		require.NoError(t, w.End())
	}
}

// Recorded completions are read in groups and in the order of steps, from whichever file.
func TestWhatIsRecordedIsRead(t *testing.T) {
	dir := t.TempDir()
	recorded(t, dir, "record_rollouts=none", 1)
	recorded(t, dir, "record_rollouts=all", 2, 3)
	recorded(t, dir, "compress_rollouts=true", 4, 5)
	recorded(t, dir, "record_rollouts=3", 6, 7)
	var order []int
	require.NoError(t, Each(dir, func(line []byte) error {
		at, err := stepOf(line)
		order = append(order, at)
		return err
	}))
	require.Equal(t, []int{2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6}, order)
	s, err := Read(dir, 3, 5)
	require.NoError(t, err)
	require.Len(t, s.Groups, 3)
	for number, groups := range s.Groups {
		want := step(number)
		require.Equal(t, [][]Line{want[:2], want[2:]}, groups)
	}
	cfg, err := configs.Load(configs.Source{Preset: "defaults"})
	require.NoError(t, err)
	require.ErrorContains(t, s.MissingError(7, cfg), "recorded: 2 to 6;")
	cfg.Method = "sft"
	require.ErrorContains(t, s.MissingError(7, cfg), "step 7 is one of a warm-up, which records nothing to take again")
}

// A line out of place, or with other numbers of tokens and values, is refused by its file, its line and its completion.
func TestDamagedRecords(t *testing.T) {
	for want, damage := range map[string]func(all []Line){
		"":                                       func([]Line) {},
		":4: sample 0 of group 1 of step 8 is":   func(all []Line) { all[3].Sample = 0 },
		":2: sample 1 of group 1 of step 8 is":   func(all []Line) { all[1].Group = 1 },
		":1: sample 0 of group -1 of step 8 is":  func(all []Line) { all[0].Group = -1 },
		":4: sample 1 of group 0 of step 8 is":   func(all []Line) { all[3].Group = 0 },
		":3: sample 0 of group 1 of step 8: the": func(all []Line) { all[2].Prompt = nil },
		":1: sample 0 of group 0 of step 8: 4 tokens, 4 of them drawn, have 3 log-probabilities and 0": func(all []Line) {
			all[0].LogProbs = all[0].LogProbs[1:]
		},
		":4: sample 1 of group 1 of step 8: 4 tokens, 3 of them drawn, have 4 log-probabilities and 4": func(all []Line) {
			all[3].Advantages = append(all[3].Advantages, 1)
		},
		"group 1 of step 8: the turns of its conversation do not stand in its 4 tokens": func(all []Line) {
			all[3].Conversation.Turns[1], all[3].Advantages = sampler.Turn{Start: 4, End: 3}, nil
		},
		"the turns of its conversation do not stand in its 4 tokens": func(all []Line) { all[3].Conversation.Turns[1].End = 5 },
	} {
		dir, all := t.TempDir(), step(8)
		damage(all)
		var text []byte
		for _, l := range all {
			line, err := json.Marshal(l)
			require.NoError(t, err)
			text = append(append(text, line...), '\n')
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, PlainFile), text, 0o644))
		_, err := Read(dir, 8, 8)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, filepath.Join(dir, PlainFile))
		require.True(t, badinput.Is(err))
		_, err = Read(dir, 9, 9)
		require.NoError(t, err, "who wants another step is not kept from it")
	}
	for _, line := range []string{`{"step":8,"prompt":[1],"text":5}`, `{"step":"8"}`, `{`} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, PlainFile), []byte(line+"\n"), 0o644))
		_, err := Read(dir, 8, 8)
		require.True(t, badinput.Is(err), line)
		require.ErrorContains(t, err, PlainFile+":1: ")
	}
}

// A batch sampled ahead has the scores of its conversations.
func TestConversationsAheadHaveTheirScores(t *testing.T) {
	g := twoGroups().Groups[1]
	g.Conversations[0].Score.Reward = 0.75
	require.Equal(t, 0.75, g.Conversation(0).Score.Reward)
	require.Nil(t, twoGroups().Groups[0].Conversation(1))
}

func TestStepsAreListed(t *testing.T) {
	for want, steps := range map[string][]int{
		"none": nil, "5": {5}, "5, 10": {5, 10}, "1, 2, 4 to 6, 9": {1, 2, 4, 5, 6, 9},
		"5, 10, 15, 20, …, 50, 55, 60": {5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60},
	} {
		require.Equal(t, want, list(steps))
	}
}

// Package rollouts is what a run keeps of each completion: a line of JSON.
package rollouts

import (
	"encoding/json"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Line is one completion with what came of it.
type Line struct {
	Step      int                  `json:"step"`
	Group     int                  `json:"group"`
	Sample    int                  `json:"sample"`
	Problem   string               `json:"problem"`
	Prompt    []int32              `json:"prompt"`
	Tokens    []int32              `json:"tokens"`
	LogProbs  []float32            `json:"logprobs"`
	Text      string               `json:"text"`
	Finish    sampler.FinishReason `json:"finish_reason"`
	Score     reward.Score         `json:"score"`
	Advantage float64              `json:"advantage"`
}

// Read reads the completions of steps from to to: by step, in groups, by sample.
func Read(path string, from, to int) (map[int][][]Line, error) {
	steps := map[int][][]Line{}
	err := jsonl.Whole(path, func(line []byte) error {
		var at struct{ Step int }
		if err := json.Unmarshal(line, &at); err != nil || at.Step < from || at.Step > to {
			return err
		}
		var l Line
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		groups := steps[l.Step]
		if l.Group == len(groups) {
			groups = append(groups, nil)
		}
		if l.Group != len(groups)-1 || l.Sample != len(groups[l.Group]) {
			return badinput.Errorf("sample %d of group %d of step %d is not in its place", l.Sample, l.Group, l.Step)
		}
		groups[l.Group] = append(groups[l.Group], l)
		steps[l.Step] = groups
		return nil
	})
	return steps, err
}

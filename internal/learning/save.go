package learning

import (
	"encoding/json"
	"io"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/model"
)

// savedDatum is a datum for grpo replay --datums, which does not read Advantages: these are of tokens that differ in their advantages.
type savedDatum struct {
	Tokens     []int32   `json:"tokens"`
	ObLen      int       `json:"ob_len"`
	Spans      [][2]int  `json:"spans"`
	LogProbs   []float32 `json:"logprobs"`
	Advantage  *float32  `json:"advantage,omitempty"`
	Advantages []float32 `json:"advantages,omitempty"`
}

// Save writes datums into a file, one to a line, and reports whether grpo replay --datums can read it.
func Save(path string, datums []model.Datum) (readable bool, err error) {
	readable = true
	err = atomicfile.Write(path, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		for _, d := range datums {
			s := toSaved(d)
			readable = readable && s.Advantage != nil
			if err := enc.Encode(s); err != nil {
				return err
			}
		}
		return nil
	})
	return readable, err
}

func toSaved(d model.Datum) savedDatum {
	n := len(d.Tokens)
	s := savedDatum{Tokens: append(d.Tokens[:n:n], d.Targets[n-1]), LogProbs: d.OldLogProbs, Spans: [][2]int{}}
	for i, sampled := range d.Mask {
		if !sampled {
			continue
		}
		if i == 0 || !d.Mask[i-1] {
			s.Spans = append(s.Spans, [2]int{i + 1, i + 1})
		}
		s.Spans[len(s.Spans)-1][1] = i + 2
		if s.Advantage == nil {
			s.Advantage = &d.Advantages[i]
		}
		if d.Advantages[i] != *s.Advantage {
			s.Advantages = d.Advantages
		}
	}
	if len(s.Spans) > 0 {
		s.ObLen = s.Spans[0][0]
	}
	if s.Advantages != nil {
		s.Advantage = nil
	}
	return s
}

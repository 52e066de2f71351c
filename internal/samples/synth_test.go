package samples

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// record is a synthetic record of completions, of any size, from a seed.
type record struct {
	problems, groups, samples int // of the run, of a step, of a group
	tokens                    int // of a completion, about
	seed                      uint64
}

var smallRecord = record{problems: 7, groups: 3, samples: 4, tokens: 12, seed: 1}

// line is a completion. Numbers are drawn from a counter, so that lines can be made in any order.
func (r record) line(step, group, sample int) []byte {
	lots := rand.New(rand.NewPCG(r.seed, uint64(step)<<32|uint64(group)<<16|uint64(sample)))
	problem := (step*r.groups + group) * 5 % r.problems
	n := 1 + r.tokens/2 + lots.IntN(r.tokens)
	tokens, logprobs := make([]int, n), make([]float32, n)
	for i := range tokens {
		tokens[i], logprobs[i] = lots.IntN(384), -lots.Float32()
	}
	right := float64(lots.IntN(2))
	score := map[string]any{"reward": right - lots.Float64()/8, "verdict": []string{"WA", "AC"}[int(right)], "passed": 1, "total": 2,
		"tests": []string{"AC", []string{"WA", "AC"}[int(right)]}, "components": map[string]any{"format": 0, "correct": right}}
	if lots.IntN(17) == 0 {
		score["reward"], score["excluded"] = nil, "infra"
	}
	said := struct {
		Step      int            `json:"step"`
		Group     int            `json:"group"`
		Sample    int            `json:"sample"`
		Problem   string         `json:"problem"`
		Prompt    []int          `json:"prompt"`
		Tokens    []int          `json:"tokens"`
		LogProbs  []float32      `json:"logprobs"`
		Text      string         `json:"text"`
		Finish    string         `json:"finish_reason"`
		Score     map[string]any `json:"score"`
		Advantage float64        `json:"advantage"`
	}{step, group, sample, fmt.Sprintf("tasks/\"%d\" ü", problem), []int{1, 2}, tokens, logprobs,
		strings.Repeat("print(\"}]\\\" \x01\")\n", n/6), "stop", score, right - 0.5}
	text, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

// step are the lines of a step.
func (r record) step(step int) (text []byte) {
	for g := range r.groups {
		for s := range r.samples {
			text = append(text, r.line(step, g, s)...)
		}
	}
	return text
}

// pack writes lines as a frame.
func pack(t testing.TB, to io.Writer, lines []byte) {
	t.Helper()
	f, err := jsonl.NewFrame(to)
	require.NoError(t, err)
	for line := range bytes.Lines(lines) {
		require.NoError(t, f.Append(json.RawMessage(bytes.TrimSpace(line))))
	}
	require.NoError(t, f.Close())
}

// write writes lines of at least the given size: a few different steps, repeated with other numbers. It returns the number of steps.
func (r record) write(t testing.TB, path string, size int64) (steps int) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<20)
	var models [4][][]byte // the rest of the line after the step's number
	for i := range models {
		for line := range bytes.Lines(r.step(i)) {
			models[i] = append(models[i], line[len(fmt.Sprintf(`{"step":%d`, i)):])
		}
	}
	var text []byte
	for written := int64(0); written < size; steps++ {
		text = text[:0]
		for _, rest := range models[steps%len(models)] {
			text = append(fmt.Appendf(text, `{"step":%d`, steps), rest...)
		}
		written += int64(len(text))
		if filepath.Ext(path) == jsonl.PackedSuffix {
			pack(t, out, text)
			continue
		}
		_, err := out.Write(text)
		require.NoError(t, err)
	}
	require.NoError(t, out.Flush())
	return steps
}

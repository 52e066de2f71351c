package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/output"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// tokenLine is a sequence in a verb's input.
type tokenLine struct {
	Tokens jsonl.List[int32] `json:"tokens"`
}

func newScoreCmd() *cobra.Command {
	var flags policyFlags
	var temperature float32
	cmd := &cobra.Command{
		Use:   "score --model DIR [--adapter DIR] [--temperature T]",
		Short: "Compute log-probabilities of token sequences",
		Long: `Reads JSON Lines {"tokens":[…]} from standard input and writes, in the same order, {"logprobs":[…]}:
len(tokens)-1 natural logarithms, logprobs[i] = log p(tokens[i+1] | tokens[..i]), at the sampling
temperature. The numbers of a sequence do not depend on the others.`,
		Example: `  echo '{"tokens":[9707,11,1879,0]}' | grpo score --model ~/Qwen3-0.6B
  grpo score --model ~/Qwen3-0.6B --adapter runs/x/checkpoints/step_000060/adapter --temperature 0.7 < sequences.jsonl`,
		Args: usage.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := sampler.CheckTemperature(temperature); err != nil || temperature == 0 {
				return cmp.Or(err, badinput.Errorf("--temperature: found 0, expected a number above 0"))
			}
			return flags.withPolicy(cmd.Context(), func(_ kernels.Backend, p *model.Policy) error {
				s := scorer{p: p, temperature: temperature, out: bufio.NewWriter(cmd.OutOrStdout())}
				return s.run(cmd.Context(), cmd.InOrStdin())
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().Float32Var(&temperature, "temperature", 1, "divides the logits")
	return cmd
}

// scorer scores its input in groups of lines, so that short sequences share a batch, and memory does not grow with the
// input.
type scorer struct {
	p           *model.Policy
	temperature float32
	out         *bufio.Writer

	pending [][]int32
	tokens  int
}

// groupTokens is the size of a group.
const groupTokens = 8192

func (s *scorer) run(ctx context.Context, in io.Reader) error {
	err := jsonl.Each(in, "standard input", func(line int, v tokenLine) error {
		if err := s.p.CheckSequence(v.Tokens); err != nil {
			return err
		}
		s.pending = append(s.pending, v.Tokens)
		if s.tokens += len(v.Tokens); s.tokens < groupTokens {
			return nil
		}
		return s.flush(ctx)
	})
	if err == nil {
		err = s.flush(ctx)
	}
	if ferr := s.out.Flush(); err == nil && ferr != nil {
		err = fmt.Errorf("standard output: %w", ferr)
	}
	return err
}

func (s *scorer) flush(ctx context.Context) error {
	scores, err := s.p.Score(ctx, s.pending, s.temperature)
	if err != nil {
		return err
	}
	lines := output.NewJSONLines(s.out)
	for _, logprobs := range scores {
		if err := lines.Write(map[string][]float32{"logprobs": logprobs}); err != nil {
			return err
		}
	}
	s.pending, s.tokens = nil, 0
	return nil
}

package grading

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/input"
	"github.com/seed-7879b91d/grpo/cmd/grpo/output"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/cmd/grpo/sets"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/reward"
)

// Command is grpo reward.
func Command() *cobra.Command {
	var f flags
	var source sets.Flags
	var problems, completions string
	var program bool
	cmd := &cobra.Command{
		Use:   "reward --problems FILE --completions FILE [--program]",
		Short: "Score completions by running their programs on the tests of their problems",
		Long: `Reads JSON Lines {"problem":"id","completion":"…"} and writes for each, in the same order,
{"problem","reward","format","correct","passed","total","verdict","tests":[…],"cpu_ms"}.

Verdicts are AC, WA, TLE, MLE, OLE, RTE and CE; the verdict is "" for a test that was not run, and for a completion without a program.
INFRA means that the sandbox or the reward file failed: the reward is then null, never 0. A line may have "truncated":true for a
completion that was cut off. A reward file with compute_rewards gets all completions of a problem together, in the order of their lines.
--judge-url lets a model judge each completion: --reward weights --reward-weights judge=1.`,
		Example: `  grpo reward --problems tasks.jsonl --completions answers.jsonl
  grpo reward --problems tasks.jsonl --completions - --program --reward fraction < programs.jsonl
  grpo reward --problems tasks.jsonl --completions answers.jsonl --reward weights --reward-weights judge=1 \
    --judge-url http://127.0.0.1:8000/v1 --judge-model NAME`,
		Args: usage.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if problems == "" || completions == "" {
				return badinput.Errorf("--problems and --completions are needed (see '%s --help')", cmd.CommandPath())
			}
			in, name, err := input.Open(completions, cmd.InOrStdin())
			if err != nil {
				return badinput.Errorf("--completions: %w", err)
			}
			defer in.Close()
			source.KeepColumns = f.cfg.File != ""
			return sets.WithSet(&source, false, func(cmd *cobra.Command, set *dataset.Set, source string) error {
				f.cfg.Answers = data.AllAnswers(set.Problems())
				judge, err := f.open(cmd.Context())
				if err != nil {
					return err
				}
				defer judge.Close()
				problems, err := usable(cmd, judge, set.Problems())
				if err != nil {
					return err
				}
				s := rewarder{judge: judge, byID: byID(problems), source: source, bare: program, custom: f.cfg.File != "",
					asks: f.judge.JudgeURL != ""}
				return s.run(cmd.Context(), in, name, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})(cmd, []string{problems})
		},
	}
	cmd.Flags().StringVar(&problems, "problems", "", "JSON Lines of problems, or another SOURCE as in 'grpo data'")
	cmd.Flags().StringVar(&completions, "completions", "", "JSON Lines of completions; - for standard input")
	cmd.Flags().BoolVar(&program, "program", false, "completions are bare programs, without prose or code fences")
	source.Register(cmd, "all")
	f.register(cmd)
	return cmd
}

// usable tries the judge, and returns the problems with a usable checker.
func usable(cmd *cobra.Command, judge *reward.Judge, problems []data.Problem) ([]data.Problem, error) {
	faults, err := judge.CheckerFaults(cmd.Context(), problems)
	if err != nil {
		return nil, err
	}
	kept := slices.Clone(problems)
	for _, f := range slices.Backward(faults) {
		screen.PrintLine(cmd.ErrOrStderr(), fmt.Sprintf("problem %s is refused: its checker cannot be used: %s", problems[f.Index].ID, f.Why))
		kept = slices.Delete(kept, f.Index, f.Index+1)
	}
	if len(kept) == 0 {
		return nil, badinput.Errorf("--problems: none has a checker that can be used")
	}
	return kept, judge.Try(cmd.Context(), &kept[0])
}

func byID(problems []data.Problem) map[string]*data.Problem {
	m := make(map[string]*data.Problem, len(problems))
	for i := range problems {
		m[problems[i].ID] = &problems[i]
	}
	return m
}

// rewarder scores completions as they come.
type rewarder struct {
	judge  *reward.Judge
	byID   map[string]*data.Problem
	source string
	bare   bool // completions are bare programs
	custom bool // there is a reward file
	asks   bool // there is a model judge
}

// completionLine is a completion in the input.
type completionLine struct {
	Problem    *string `json:"problem"`
	Completion *string `json:"completion"`
	Truncated  bool    `json:"truncated"`
}

// scoreLine is a score in the output.
type scoreLine struct {
	Problem  string           `json:"problem"`
	Reward   *float64         `json:"reward"`
	Format   float64          `json:"format"`
	Correct  float64          `json:"correct"`
	Passed   int              `json:"passed"`
	Total    int              `json:"total"`
	Verdict  reward.Verdict   `json:"verdict"`
	Tests    []reward.Verdict `json:"tests"`
	CPU      float64          `json:"cpu_ms"`
	Custom   *float64         `json:"custom,omitempty"`
	Judge    *float64         `json:"judge,omitempty"`
	Excluded reward.Exclusion `json:"excluded,omitempty"`
	Note     string           `json:"note,omitempty"`
}

// concurrentCompletions is how many completions are judged at once: enough to keep every slot busy.
const concurrentCompletions = 64

func (r *rewarder) run(ctx context.Context, in io.Reader, name string, out, errOut io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read, ahead := make(chan reward.Completion), concurrentCompletions
	var readErr error
	if r.judge.Whole() {
		all, err := r.groups(in, name)
		if err != nil {
			return err
		}
		read, ahead = all, max(len(all), 1) // completions of a problem are judged together
	} else {
		r.read(ctx, in, name, read, &readErr)
	}
	lines := output.NewJSONLines(out)
	verdicts := map[reward.Verdict]int{}
	for g, err := range reward.Stream(ctx, r.judge, read, ahead) {
		if err != nil {
			return err
		}
		verdicts[g.Score.Verdict]++
		if err := lines.Write(r.line(g)); err != nil {
			return err
		}
	}
	if readErr != nil { // set before the channel was closed
		return readErr
	}
	summarise(errOut, verdicts, r.judge)
	return nil
}

// groups reads all completions, so that those of a problem can be judged together.
func (r *rewarder) groups(in io.Reader, name string) (chan reward.Completion, error) {
	var all []reward.Completion
	places := map[*data.Problem]int{}
	err := jsonl.EachLoose(in, name, func(_ int, v completionLine) error {
		c, err := r.completion(v)
		if err == nil {
			c.Place = places[c.Problem]
			places[c.Problem]++
			all = append(all, c)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	peers := map[*data.Problem]*reward.Peers{}
	for problem, n := range places {
		peers[problem] = reward.NewPeers(n)
	}
	queue := make(chan reward.Completion, len(all))
	for _, c := range all {
		c.Peers = peers[c.Problem]
		queue <- c
	}
	close(queue)
	return queue, nil
}

// read reads completions as they come. readErr is set before the channel is closed.
func (r *rewarder) read(ctx context.Context, in io.Reader, name string, read chan<- reward.Completion, readErr *error) {
	go func() {
		defer close(read)
		*readErr = jsonl.EachLoose(in, name, func(_ int, v completionLine) error {
			c, err := r.completion(v)
			if err != nil {
				return err
			}
			select {
			case read <- c:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
}

func (r *rewarder) completion(v completionLine) (c reward.Completion, err error) {
	if v.Problem == nil || v.Completion == nil {
		return c, badinput.Errorf(`expected {"problem":"id","completion":"…"}`)
	}
	p, ok := r.byID[*v.Problem]
	if !ok {
		return c, badinput.Errorf("problem %q is not in %s, or was refused; see 'grpo data inspect --refused %s'",
			*v.Problem, r.source, r.source)
	}
	return reward.Completion{Problem: p, Text: *v.Completion, Bare: r.bare, Truncated: v.Truncated}, nil
}

func (r *rewarder) line(g reward.Graded) scoreLine {
	s := g.Score
	line := scoreLine{
		Problem: g.Problem.ID, Reward: &s.Reward, Format: s.Components.Format, Correct: s.Components.Correct,
		Passed: s.Passed, Total: s.Total, Verdict: s.Verdict, Tests: append([]reward.Verdict{}, s.Tests...),
		CPU: float64(s.CPU.Microseconds()) / 1000, Excluded: s.Excluded, Note: s.Note,
	}
	if s.Excluded != "" {
		line.Reward = nil
	}
	if r.asks && s.Excluded == "" {
		line.Judge = &s.Components.Judge
	}
	if r.custom && s.Excluded != reward.ExcludedCustom {
		line.Custom = &s.Components.Custom
	}
	return line
}

// summarise prints the numbers of verdicts, and failures other than the programs'.
func summarise(w io.Writer, verdicts map[reward.Verdict]int, judge *reward.Judge) {
	fmt.Fprintf(w, "%s:", plural.Of(int(judge.Stats().Graded), "completion"))
	for _, v := range []reward.Verdict{reward.AC, reward.WA, reward.TLE, reward.MLE, reward.OLE, reward.RTE, reward.CE, reward.INFRA} {
		if n := verdicts[v]; n > 0 {
			fmt.Fprintf(w, " %d %s", n, v)
		}
	}
	if n := verdicts[""]; n > 0 {
		fmt.Fprintf(w, " %d not run", n)
	}
	fmt.Fprintln(w)
	for _, warning := range judge.Warnings() {
		fmt.Fprintln(w, warning)
	}
}

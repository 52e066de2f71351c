// Command grpo trains code-writing language models with GRPO on one machine.
//
// Each verb has a file: its flags and its help, what it asks of the packages of the module, and how it
// prints the answer. What verbs share is in main.go (signals, exit codes, errors), policy.go (a backend
// and a model), source.go (data sets), cells.go (sandboxes and rewards), prompts.go (conversations),
// input.go and output.go (lines of JSON, tables). What a person is shown meanwhile is in the package screen,
// what an evaluation found in outcome, the sets that papers report on in suites, tables of a run in export, mistakes
// on the command line and what a shell completes in usage, what this machine has in doctor, the server in serve, tools
// of a model in tools, pages of man(1) in manual, warm-ups in warmup, what is handed over to others in handover, several
// runs in compare and sweep, runs while they go on in watch, what they wrote in samples, and benchmarks are in bench and load.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/compare"
	"github.com/seed-7879b91d/grpo/cmd/grpo/export"
	"github.com/seed-7879b91d/grpo/cmd/grpo/grading"
	"github.com/seed-7879b91d/grpo/cmd/grpo/handover"
	"github.com/seed-7879b91d/grpo/cmd/grpo/input"
	"github.com/seed-7879b91d/grpo/cmd/grpo/manual"
	"github.com/seed-7879b91d/grpo/cmd/grpo/samples"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/cmd/grpo/serve"
	"github.com/seed-7879b91d/grpo/cmd/grpo/sets"
	"github.com/seed-7879b91d/grpo/cmd/grpo/sweep"
	"github.com/seed-7879b91d/grpo/cmd/grpo/tools"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/cmd/grpo/warmup"
	"github.com/seed-7879b91d/grpo/cmd/grpo/watch"
	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/notice"
	"github.com/seed-7879b91d/grpo/internal/rebuild"
	"github.com/seed-7879b91d/grpo/internal/version"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/device"
)

// Exit codes: 0 done, 1 a failure of the machine, 2 wrong input, 130 interrupted.
const (
	exitFailed      = 1
	exitBadInput    = 2
	exitInterrupted = 130
)

// savesOnInterrupt is set while the current verb saves its state when it is interrupted.
var savesOnInterrupt atomic.Bool

func main() {
	ctx := interruptible()
	device.Tell = func(line string) { screen.PrintLine(os.Stderr, line) }
	ctx = rebuild.WithOptions(ctx, rebuild.Options{Say: device.Tell, Progress: screen.BuildProgress(os.Stderr)})
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// sameSignal is how long repeated signals count as one: timeout(1) signals a process and its whole group.
const sameSignal = 300 * time.Millisecond

// interruptible returns a context that ends with the first signal to stop, including SIGHUP and SIGXCPU of batch systems. It tells
// the user first. If SIGHUP is ignored (nohup), it stays so.
func interruptible() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM, syscall.SIGXCPU)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(asked, syscall.SIGHUP)
	}
	go func() {
		for <-asked == syscall.SIGHUP && serve.RereadsKeys.Load() {
		}
		signal.Ignore(syscall.SIGHUP) // both a terminal and its shell send it
		if savesOnInterrupt.Load() {
			fmt.Fprintln(os.Stderr, "\ngrpo: stopping; once more to stop without saving")
		} else {
			fmt.Fprintln(os.Stderr, "\ngrpo: stopping; once more to stop at once")
		}
		cancel()
		time.Sleep(sameSignal)
		signal.Stop(asked) // a second signal has its default effect
	}()
	return ctx
}

// run executes a command line and returns its exit code; tests call it instead of starting a process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(input.ContextReader(ctx, stdin))
	out := &checkedOutput{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	usage.AddHelpers(root)
	started := false
	noteStart(root, &started)
	ctx = hub.WithProgress(ctx, screen.DownloadProgress(stderr))
	ctx = notice.WithHandler(ctx, screen.WarnOnce(stderr))
	verb, err := root.ExecuteContextC(ctx)
	if out.err != nil && (err == nil || !started) {
		started, err = true, fmt.Errorf("standard output: %w", out.err)
	}
	if err == nil {
		return 0
	}
	if !started {
		err = usage.Explain(verb, err)
	}
	err = interruptedError(ctx, verb, err)
	fmt.Fprintf(stderr, "grpo: %s\n", display.Visible(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")))
	switch {
	case errors.Is(err, context.Canceled), ctx.Err() != nil:
		return exitInterrupted
	case badinput.Is(err) || !started:
		return exitBadInput
	}
	return exitFailed
}

// interruptedError words the error of an interrupted verb. If a verb saves nothing, the errors of its parts are dropped: they may
// mislead, such as that of a child process that was interrupted too.
func interruptedError(ctx context.Context, verb *cobra.Command, err error) error {
	var said stoppedError
	switch {
	case errors.As(err, &said):
		return err
	case verb.HasParent() && (ctx.Err() != nil || errors.Is(err, context.Canceled)):
		return stoppedError("stopped before the end of " + verb.CommandPath() + ", without a result")
	case !errors.Is(err, context.Canceled):
		return err
	}
	lines := []string{"stopped before the first step"}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasSuffix(line, context.Canceled.Error()) {
			lines = append(lines, line)
		}
	}
	return stoppedError(strings.Join(lines, "\n"))
}

// noteStart makes every verb record that it has started: an error before that is a mistake on the command line.
func noteStart(cmd *cobra.Command, started *bool) {
	if verb := cmd.RunE; verb != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			if err := usage.CheckFlags(cmd); err != nil {
				return err
			}
			return verb(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		noteStart(sub, started)
	}
}

// sweepProgram is what the verbs of sweeps need of this package.
var sweepProgram = sweep.Program{
	Open: openDevice, Stopped: func(said string) error { return stoppedError(said) }, Saves: savesOnInterrupt.Store,
}

// newRoot is the command tree, with a file for each verb.
func newRoot() *cobra.Command {
	var train trainFlags
	root := &cobra.Command{
		Use: "grpo [key=value …]",
		Example: `  grpo
  grpo --preset tiny_smoke seed=7
  grpo --config-file my.yaml learning_rate=1e-4 --dry-run`,
		Short:         "Train code-writing language models with GRPO on one machine",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          trainArgs,
		RunE:          train.run,
		Version:       version.Line(cpu.Variants()),
	}
	root.ValidArgsFunction = usage.Settings
	train.register(root)
	must(root.RegisterFlagCompletionFunc("preset", usage.Presets))
	root.SetFlagErrorFunc(usage.BadFlag)
	root.AddCommand(newScoreCmd(), newReplayCmd(), newMergeCmd(), newQuantizeCmd(), newSampleCmd(), newEvalCmd(), newBenchCmd(),
		newTokenizeCmd(), sets.Command(), grading.Command(), newDoctorCmd(), newServeCmd(), export.Command(), tools.Command(), manual.Command(),
		compare.Command(), compare.Summarize(), sweep.Command(sweepProgram), sweep.Checkpoints(sweepProgram), watch.Command(), samples.Command())
	open := func(ctx context.Context, name string, threads int) (kernels.Backend, error) {
		return openDevice(ctx)(name, threads)
	}
	root.AddCommand(handover.Commands(handover.Machine{Open: open})...)
	root.AddCommand(warmup.Commands(warmup.Machine{Args: trainArgs, Saves: &savesOnInterrupt, Open: open,
		Stopped: func(what string) error { return stoppedError(what) }})...)
	return root
}

// must panics on errors that only a bug in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

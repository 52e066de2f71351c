package sweep

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/footprint"
	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/sweep"
)

// mostPlanned is for how many runs the memory is planned; others are similar.
const mostPlanned = 16

// describe prints the plan, and returns the settings for runs in parallel. A sweep that does not fit is refused.
func (f *flags) describe(ctx context.Context, out io.Writer, j *sweep.Journal, all []*configs.Config, open bench.Opener) ([]string, error) {
	cores := runtime.NumCPU()
	if f.atOnce > cores {
		return nil, badinput.Errorf("--at-once %d: this machine has %s; type --at-once %d", f.atOnce, plural.Of(cores, "core"), cores)
	}
	bytes, room, known, err := planMemory(ctx, all, open)
	if err != nil {
		return nil, err
	}
	if known && float64(f.atOnce)*float64(bytes) > 0.95*float64(room.Bytes) && f.atOnce > 1 {
		fits := max(1, int(0.95*float64(room.Bytes)/float64(bytes)))
		return nil, badinput.Errorf("--at-once %d: %d runs of %s each do not fit into %s; type --at-once %d", f.atOnce, f.atOnce,
			memory.GB(bytes), room, fits)
	}
	done := 0
	for _, e := range j.Runs {
		if e.State == sweep.Done || e.State == sweep.Eliminated {
			done++
		}
	}
	fmt.Fprintf(out, "sweep: %s in %s", plural.Of(len(j.Runs), "run"), display.Line(f.dir))
	if done > 0 {
		fmt.Fprintf(out, ", %d of them done", done)
	}
	if taken := len(j.RemovedRuns()); taken > 0 {
		fmt.Fprintf(out, ", %d taken out", taken)
	}
	fmt.Fprintf(out, "\nsettings: %s\n", strings.Join(j.Plan.Words, " "))
	if len(j.Plan.Rungs) > 0 {
		fmt.Fprintf(out, "halving: after steps %s the better half by held-out pass@1 continues\n", strings.Trim(fmt.Sprint(j.Plan.Rungs), "[]"))
	}
	share := []string(nil)
	if f.atOnce > 1 {
		threads := max(1, cores/f.atOnce)
		for _, key := range []string{"threads", "sandbox_slots"} {
			share = append(share, fmt.Sprintf("%s=%d", key, threads))
		}
		fmt.Fprintf(out, "%d runs at once, %d of %d cores each, and about %s of memory each", f.atOnce, threads, cores, memory.GB(bytes))
	} else {
		fmt.Fprintf(out, "one after another; a run takes about %s of memory", memory.GB(bytes))
	}
	if known {
		fmt.Fprintf(out, "; free: %s", room)
	}
	fmt.Fprintln(out)
	for i, e := range j.Runs {
		if i == mostPlanned {
			fmt.Fprintf(out, "  and %d more\n", len(j.Runs)-i)
			break
		}
		fmt.Fprintf(out, "  %s: %s\n", e.Name, e.State)
	}
	return share, nil
}

// planMemory returns the memory of the largest run, and what is free.
func planMemory(ctx context.Context, all []*configs.Config, open bench.Opener) (bytes int, room memory.Room, known bool, err error) {
	b, err := open(all[0].Device, all[0].Threads)
	if err != nil {
		return 0, room, false, err
	}
	defer b.Close()
	room, known = b.Free()
	for _, cfg := range all[:min(len(all), mostPlanned)] {
		dir, err := grpo.ModelDir(ctx, cfg.Model)
		if err != nil {
			return 0, room, known, err
		}
		settings := *cfg
		p, err := footprint.Estimate(footprint.Run{Config: &settings, Backend: b, Dir: dir, Trains: true, LocalSandbox: cfg.Sandbox != "fusion"})
		if err != nil {
			return 0, room, known, err
		}
		bytes = max(bytes, p.Bytes())
	}
	return bytes, room, known, nil
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// The seeds of all random draws.
const (
	problemSeed    = 1
	corpusSeed     = 2
	modelSeed      = 3
	heldOutSeed    = 4
	validationSeed = 5
)

func main() {
	out := flag.String("out", "internal/tiny", "`folder` of the package that embeds what is made")
	threads := flag.Int("threads", 0, "worker `threads`; 0: one per core. The files do not depend on it")
	steps := flag.Int("steps", trainingSteps, "optimizer `steps`")
	problemsOnly := flag.Bool("problems", false, "make the problems and leave the model")
	validation := flag.String("validation", "", "write the validation split to this `file`, and nothing else")
	reported := flag.Bool("report", false, "print pass@k by kind of problem, of the files that grpo eval --out wrote, and make nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *reported:
		err = report(os.Stdout, flag.Args())
	case *validation != "":
		err = writeRecords(*validation, records(newFamilySplit().problems().validation, testsHeldOut, validationSeed))
	default:
		err = run(ctx, *out, *threads, *steps, *problemsOnly)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string, threads, steps int, problemsOnly bool) error {
	w := newFamilySplit()
	s := w.problems()
	fmt.Printf("%d families to train on, %d held out, %d for validation; problems: %d, %d and %d\n",
		len(w.train), len(w.heldOut), len(w.validation), len(s.train), len(s.heldOut), len(s.validation))
	if err := writeRecords(filepath.Join(out, "train.jsonl"), records(s.train, testsTrain, problemSeed)); err != nil {
		return err
	}
	if err := writeRecords(filepath.Join(out, "heldout.jsonl"), records(s.heldOut, testsHeldOut, heldOutSeed)); err != nil {
		return err
	}
	if problemsOnly {
		return nil
	}
	b, err := cpu.New(cpu.Options{Threads: threads})
	if err != nil {
		return err
	}
	defer b.Close()
	return makeModel(ctx, b, newCorpus(w, s), filepath.Join(out, "model"), steps)
}

func writeRecords(path string, set []data.Record) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		lines := json.NewEncoder(w)
		lines.SetEscapeHTML(false)
		for _, r := range set {
			if err := lines.Encode(r); err != nil {
				return err
			}
		}
		return nil
	})
}

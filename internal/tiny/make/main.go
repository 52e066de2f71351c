package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// The seeds of everything that is drawn.
const (
	problemSeed = 1
	corpusSeed  = 2
	modelSeed   = 3
	chanceSeed  = 4
)

func main() {
	out := flag.String("out", "internal/tiny", "`folder` of the package that embeds what is made")
	threads := flag.Int("threads", 0, "worker `threads`; 0: one per core. The files do not depend on it")
	steps := flag.Int("steps", trainingSteps, "optimizer `steps`")
	problemsOnly := flag.Bool("problems", false, "make the problems and leave the model")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, *threads, *steps, *problemsOnly); err != nil {
		fmt.Fprintln(os.Stderr, "make:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string, threads, steps int, problemsOnly bool) error {
	rng := rand.New(rand.NewPCG(problemSeed, 0))
	train, heldOut := split(rng)
	trainSet, heldOutSet, taken := problems(train, heldOut, rng)
	fmt.Printf("%d families, %d held out; %d problems to train on, %d held out\n", len(train)+len(heldOut), len(heldOut), len(trainSet),
		len(heldOutSet))
	for name, set := range map[string][]data.Record{"train.jsonl": trainSet, "heldout.jsonl": heldOutSet} {
		if err := writeRecords(filepath.Join(out, name), set); err != nil {
			return err
		}
	}
	if problemsOnly {
		return nil
	}
	b, err := cpu.New(cpu.Options{Threads: threads})
	if err != nil {
		return err
	}
	defer b.Close()
	c := &corpus{families: train, taken: taken}
	return makeModel(ctx, b, c, filepath.Join(out, "model"), filepath.Join(out, "prompt.tmpl"), steps)
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

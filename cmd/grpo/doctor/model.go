package doctor

import (
	"context"
	"fmt"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// ExamineModel compares the memory of a model's weights on a CPU, as they are and in four bits, with what is free. name is a
// directory or a model on the Hub; "" gives no findings.
func ExamineModel(ctx context.Context, name string) ([]Finding, error) {
	if name == "" {
		return nil, nil
	}
	dir, err := grpo.ModelDir(ctx, name)
	if err != nil {
		return nil, err
	}
	room, known := memory.Free()
	f, err := examineModel(dir, room, known)
	return []Finding{f}, err
}

func examineModel(dir string, room memory.Room, known bool) (Finding, error) {
	b, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		return Finding{}, err
	}
	defer b.Close()
	coded, err := nf4.IsModel(dir)
	if err != nil {
		return Finding{}, err
	}
	stored, err := weightBytes(b, dir, model.AsStored)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Name: "model", Found: "weights " + memory.GB(stored), Notes: []string{
		"adapter, activations and KV cache come on top: a run prints their size before it loads anything",
		"these sizes are for the processor; on a card bf16 takes about a third more, four bits in layers about the same"}}
	least := stored
	if coded {
		f.Found += " in four bits, as published"
	} else if least, err = weightBytes(b, dir, model.NF4); err == nil {
		f.Found += fmt.Sprintf(" as published, %s with quantize=nf4", memory.GB(least))
	} else if badinput.Is(err) { // its weights are not bf16
		f.Notes, least = append(f.Notes, err.Error()), stored
	} else {
		return Finding{}, err
	}
	f.OK = !known || least < int(room.Bytes)
	switch {
	case !f.OK:
		f.Do = "free for this process: " + room.String() + "; take a smaller model, or a machine with more memory"
	case known && stored >= int(room.Bytes):
		f.Do = "set quantize=nf4, or they do not fit into the memory free for this process, " + room.String()
	}
	return f, nil
}

// weightBytes is the memory of the weights, computed without reading them.
func weightBytes(b kernels.Backend, dir string, q model.Quantisation) (int, error) {
	l := kernels.NewLedger(b)
	if _, err := model.Sketch(l, dir, false, model.Options{Quantise: q}); err != nil {
		return 0, err
	}
	bytes, _ := l.Take()
	return bytes, nil
}

package provenance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// baseFiles are those of a model that say what the numbers of an adapter over it mean. How the model is spoken to is for whoever asks.
var baseFiles = []string{"config.json", "tokenizer.json", "model.safetensors.index.json", "*.safetensors"}

// CheckBase refuses to lay an adapter over the model in a directory where it is of a checkpoint of a run that was trained over
// another. What is no adapter, and one of which nobody wrote down what it was trained over, as other programs write them, it lets pass.
func CheckBase(adapter, model string) error {
	was, known, err := baseOf(adapter)
	if err != nil || !known {
		return err
	}
	return was.CheckUnder(adapter, model)
}

// baseOf is the fingerprint of the model that the adapter of a checkpoint was trained over. A link leads to the checkpoint, too.
func baseOf(adapter string) (p Part, known bool, err error) {
	if adapter == "" {
		return p, false, nil
	}
	dir, err := filepath.EvalSymlinks(adapter)
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, adapterFiles[0]))
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil { // who reads it tells what is wrong with it
		return p, false, nil
	}
	var s struct {
		Parts Parts `json:"parts"`
	}
	checkpoint := filepath.Dir(dir)
	switch err = rundir.ReadState(checkpoint, &s, oldestState, newestState); {
	case errors.Is(err, fs.ErrNotExist):
		return p, false, nil
	case err != nil:
		return p, false, badinput.Errorf("checkpoint %s: %w", filepath.Dir(filepath.Clean(adapter)), err)
	}
	p, known = s.Parts["model"]
	return p, known && len(p.Files) > 0, nil
}

// CheckUnder refuses the model in a directory below an adapter that was trained over the one of this fingerprint.
func (was Part) CheckUnder(adapter, model string) error {
	now, err := OfModel(model)
	if err != nil {
		return err
	}
	before, after := was.asBase(), now.asBase()
	if before.SHA256 == after.SHA256 { // of another commit, it may be, that changed nothing of it
		return nil
	}
	what := (Parts{"model": after}).Differences(Parts{"model": before})["model"]
	return badinput.Errorf("adapter %s was trained over another model: %s; bring that one back, or, to have it over this one all the same, "+
		"copy it out of its run (cp -r %s COPY) and give the copy as an adapter with --model", adapter, what, adapter)
}

// asBase is the part of a model's fingerprint that an adapter over it hangs on.
func (p Part) asBase() Part {
	files := maps.Clone(p.Files)
	maps.DeleteFunc(files, func(name, _ string) bool {
		return !slices.ContainsFunc(baseFiles, func(of string) bool { ok, _ := filepath.Match(of, name); return ok })
	})
	return Part{SHA256: sumOf(files), Commit: p.Commit, Files: files}
}

// sumOf is the SHA-256 of files by their names.
func sumOf(files map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s %s\n", files[name], name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

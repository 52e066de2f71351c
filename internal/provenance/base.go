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
	"strings"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// baseFiles are those of a model that say what the numbers of an adapter over it mean. How the model is spoken to is for whoever asks.
var baseFiles = []string{"config.json", "tokenizer.json", "model.safetensors.index.json", "*.safetensors"}

// BaseFile stands beside an adapter that is no checkpoint's, and says which model it was trained over.
const BaseFile = "base_model.json"

// base is what BaseFile says.
type base struct {
	Model Part `json:"model"`
}

// WriteBase writes beside the adapter in dir that it was trained over the model of this fingerprint.
func WriteBase(dir string, model Part) error {
	return atomicfile.WriteJSON(filepath.Join(dir, BaseFile), base{model.asBase()})
}

// CopyBase gives the copy of an adapter in dir what is known of the model that the adapter was trained over.
func CopyBase(adapter, dir string) error {
	p, known, err := BaseOf(adapter)
	if err != nil || !known {
		return err
	}
	return WriteBase(dir, p)
}

// CheckBase refuses to lay an adapter over the model in a directory where it was trained over another. What is no adapter, and one of
// which nobody wrote down what it was trained over, as other programs write them, it lets pass.
func CheckBase(adapter, model string) error {
	was, known, err := BaseOf(adapter)
	if err != nil || !known {
		return err
	}
	now, err := OfModel(model)
	if err != nil {
		return err
	}
	what := was.Under(now)
	if what == "" {
		return nil
	}
	how := "copy it out of its run (cp -r " + adapter + " COPY) and give the copy as an adapter with --model"
	if _, err := os.Stat(filepath.Join(adapter, BaseFile)); err == nil {
		how = "delete " + filepath.Join(adapter, BaseFile)
	}
	return badinput.Errorf("adapter %s was trained over another model: %s; bring that one back, or, to have it over this one all the same, %s",
		adapter, what, how)
}

// BaseOf is the fingerprint of the model that an adapter was trained over, where that is known: it stands beside it, or in the
// checkpoint that it is of. A link leads there, too.
func BaseOf(adapter string) (p Part, known bool, err error) {
	dir := placeOf(adapter)
	if dir == "" {
		return p, false, nil
	}
	var beside base
	if err := rundir.ReadJSON(filepath.Join(dir, BaseFile), &beside); err != nil {
		return p, false, badinput.Errorf("%s: %w", filepath.Join(adapter, BaseFile), err)
	}
	if len(beside.Model.Files) > 0 {
		return beside.Model, true, nil
	}
	var s struct {
		Parts Parts `json:"parts"`
	}
	switch err = rundir.ReadState(filepath.Dir(dir), &s, oldestState, newestState); {
	case errors.Is(err, fs.ErrNotExist):
		return p, false, nil
	case err != nil:
		return p, false, badinput.Errorf("checkpoint %s: %w", filepath.Dir(filepath.Clean(adapter)), err)
	}
	p, known = s.Parts["model"]
	return p, known && len(p.Files) > 0, nil
}

// CheckWhole refuses an adapter, or a model that was trained as a whole, in a checkpoint that is not as the run saved it. Of a copy,
// and of what other programs wrote, nobody knows what it was, and it passes.
func CheckWhole(trained string) error {
	dir, err := filepath.EvalSymlinks(trained)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	what := filepath.Base(dir)
	if err != nil || what != AdapterDir && what != ModelDir {
		return nil // who reads it tells what is wrong with it
	}
	var s struct {
		Checksum map[string]string `json:"sha256"`
	}
	if err := rundir.ReadState(filepath.Dir(dir), &s, oldestState, newestState); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return badinput.Errorf("checkpoint %s: %w", filepath.Dir(filepath.Clean(trained)), err)
	}
	maps.DeleteFunc(s.Checksum, func(name, _ string) bool { return !strings.HasPrefix(name, what+"/") })
	if err := rundir.Verify(filepath.Dir(dir), s.Checksum); err != nil {
		return badinput.Errorf("checkpoint %s: %w; bring it back, give the %s of another checkpoint, or, to have it as it is all the same, "+
			"copy it out of its run (cp -r %s COPY) and give the copy", filepath.Dir(filepath.Clean(trained)), err, what, trained)
	}
	return nil
}

// placeOf is where an adapter lies, behind links; "" where there is none: who reads it tells what is wrong with it.
func placeOf(adapter string) string {
	if adapter == "" {
		return ""
	}
	dir, err := filepath.EvalSymlinks(adapter)
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, adapterFiles[0]))
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return ""
	}
	return dir
}

// Under says how the model below an adapter differs from the one that it was trained over; "" where it does not, or was quantised
// from it, or the other way round: adapters are trained over a model in four bits whether it was written so, or is kept so.
func (was Part) Under(now Part) (what string) {
	before, after := was.asBase(), now.asBase()
	for _, a := range before.origins() {
		if slices.Contains(after.origins(), a) { // of another commit, it may be, that changed nothing of it
			return ""
		}
	}
	return (Parts{"model": after}).Differences(Parts{"model": before})["model"]
}

// origins are the fingerprints that stand for a model: its own, and that of the one that it was quantised from.
func (p Part) origins() []string {
	if p.From == nil {
		return []string{p.SHA256}
	}
	return []string{p.SHA256, p.From.SHA256}
}

// quantisedFile stands beside a model in four bits, and says what it was made of.
const quantisedFile = "quantised_from.json"

// quantised is what quantisedFile says. It holds for the model of this fingerprint alone: the file may have been copied with others.
type quantised struct {
	Model  Part   `json:"model"`
	Result string `json:"result_sha256"`
}

// WriteQuantised writes beside the model in out that it is the one in dir, quantised.
func WriteQuantised(dir, out string) error {
	from, err := OfModel(dir)
	if err != nil {
		return err
	}
	made, err := OfModel(out)
	if err != nil {
		return err
	}
	return atomicfile.WriteJSON(filepath.Join(out, quantisedFile), quantised{from.asBase(), made.asBase().SHA256})
}

// origin is the model that the one in dir was quantised from; nil where there is none, or nobody wrote it down.
func (p Part) origin(dir string) *Part {
	var q quantised
	if rundir.ReadJSON(filepath.Join(dir, quantisedFile), &q) != nil || q.Model.SHA256 == "" || q.Result != p.asBase().SHA256 {
		return nil
	}
	return &q.Model
}

// asBase is the part of a model's fingerprint that an adapter over it hangs on.
func (p Part) asBase() Part {
	files := maps.Clone(p.Files)
	maps.DeleteFunc(files, func(name, _ string) bool {
		return !slices.ContainsFunc(baseFiles, func(of string) bool { ok, _ := filepath.Match(of, name); return ok })
	})
	return Part{SHA256: sumOf(files), Commit: p.Commit, Files: files, From: p.From}
}

// sumOf is the SHA-256 of files by their names.
func sumOf(files map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s %s\n", files[name], name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

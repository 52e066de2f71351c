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

// baseFiles are the files of a model that an adapter depends on. The chat template is not: whoever prompts the model chooses it.
var baseFiles = []string{"config.json", "tokenizer.json", "model.safetensors.index.json", "*.safetensors"}

// BaseFile lies beside an adapter outside a checkpoint, and names the model that it was trained on.
const BaseFile = "base_model.json"

// base is the content of BaseFile.
type base struct {
	Model Part `json:"model"`
}

// WriteBase records beside the adapter in dir that it was trained on the model with this fingerprint.
func WriteBase(dir string, model Part) error {
	return atomicfile.WriteJSON(filepath.Join(dir, BaseFile), base{model.asBase()})
}

// CopyBase records in dir, a copy of adapter, which model it was trained on, if that is known.
func CopyBase(adapter, dir string) error {
	p, known, err := BaseOf(adapter)
	if err != nil || !known {
		return err
	}
	return WriteBase(dir, p)
}

// CheckBase refuses to use an adapter with a model that it was not trained on. It accepts an adapter without a record of its model,
// as other programs write them.
func CheckBase(adapter, model string) error {
	was, known, err := BaseOf(adapter)
	if err != nil || !known {
		return err
	}
	now, err := FingerprintModel(model)
	if err != nil {
		return err
	}
	what := was.ChangeTo(now)
	if what == "" {
		return nil
	}
	how := "copy it out of its run (cp -r " + adapter + " COPY) and give the copy as an adapter with --model"
	if _, err := os.Stat(filepath.Join(adapter, BaseFile)); err == nil {
		how = "delete " + filepath.Join(adapter, BaseFile)
	}
	return badinput.Errorf("adapter %s was trained on another model: %s; use that one, or, to use the adapter on this one anyway, %s",
		adapter, what, how)
}

// BaseOf is the fingerprint of the model that an adapter was trained on, if it is known: from BaseFile, or from the checkpoint
// that the adapter is part of. Links are followed.
func BaseOf(adapter string) (p Part, known bool, err error) {
	dir := resolveAdapter(adapter)
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

// CheckIntact refuses a trained adapter or model in a checkpoint whose files have changed since the run saved it. Copies, and the
// files of other programs, have no checksums and are accepted.
func CheckIntact(trained string) error {
	dir, err := filepath.EvalSymlinks(trained)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	what := filepath.Base(dir)
	if err != nil || what != AdapterDir && what != ModelDir {
		return nil // reading it reports the error
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
		return badinput.Errorf("checkpoint %s: %w; restore it, name the %s of another checkpoint, or, to use it as it is anyway, "+
			"copy it out of its run (cp -r %s COPY) and name the copy", filepath.Dir(filepath.Clean(trained)), err, what, trained)
	}
	return nil
}

// resolveAdapter is the path of an adapter with links resolved; "" if there is none, which reading it reports.
func resolveAdapter(adapter string) string {
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

// ChangeTo says how the model now differs from the one that an adapter was trained on (was); "" if it does not. A model and its
// quantised form count as the same, as adapters may be trained with either.
func (was Part) ChangeTo(now Part) (what string) {
	before, after := was.asBase(), now.asBase()
	for _, a := range before.origins() {
		if slices.Contains(after.origins(), a) { // a new commit on the Hub may have left the weights as they are
			return ""
		}
	}
	return (Parts{"model": after}).Differences(Parts{"model": before})["model"]
}

// origins are the fingerprints that count as the same model: its own, and that of the model that it was quantised from.
func (p Part) origins() []string {
	if p.From == nil {
		return []string{p.SHA256}
	}
	return []string{p.SHA256, p.From.SHA256}
}

// quantisedFile lies beside a quantised model, and names the model that it was made from.
const quantisedFile = "quantised_from.json"

// quantised is the content of quantisedFile. Result ties it to the quantised model, as the file may have been copied next to another.
type quantised struct {
	Model  Part   `json:"model"`
	Result string `json:"result_sha256"`
}

// WriteQuantised records in out that its model was quantised from the one in dir.
func WriteQuantised(dir, out string) error {
	from, err := FingerprintModel(dir)
	if err != nil {
		return err
	}
	made, err := FingerprintModel(out)
	if err != nil {
		return err
	}
	return atomicfile.WriteJSON(filepath.Join(out, quantisedFile), quantised{from.asBase(), made.asBase().SHA256})
}

// origin is the model that the one in dir was quantised from; nil if there is no record of it.
func (p Part) origin(dir string) *Part {
	var q quantised
	if rundir.ReadJSON(filepath.Join(dir, quantisedFile), &q) != nil || q.Model.SHA256 == "" || q.Result != p.asBase().SHA256 {
		return nil
	}
	return &q.Model
}

// asBase is the fingerprint of the files that an adapter depends on.
func (p Part) asBase() Part {
	files := maps.Clone(p.Files)
	maps.DeleteFunc(files, func(name, _ string) bool {
		return !slices.ContainsFunc(baseFiles, func(of string) bool { ok, _ := filepath.Match(of, name); return ok })
	})
	return Part{SHA256: sumOf(files), Commit: p.Commit, Files: files, From: p.From}
}

// sumOf is the SHA-256 over files: their names and checksums.
func sumOf(files map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s %s\n", files[name], name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

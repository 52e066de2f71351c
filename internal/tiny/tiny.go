// Package tiny embeds a language model of 1.7 million parameters and several hundred programming problems that it can
// learn to solve on a CPU within minutes. Command make, in a folder below, made both. It knows nothing of training.
package tiny

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// About says what the results of a run with the embedded model and problems mean.
const About = `The base model was trained for a few minutes on generated answers, most of them wrong, with the same kinds of mistakes for
every problem; the last of them mostly guessed which reading was meant. They contained no held-out problem, and no program that
solves one. Some held-out problems belong to families that neither the base model nor this run was trained on; make demo prints
these separately, with pass@k up to 64.`

//go:embed model train.jsonl heldout.jsonl prompt.tmpl heal.tmpl
var files embed.FS

// Problems are the training and the held-out problems, which have none in common. They are read once per process.
func Problems() (train, heldOut []data.Problem, err error) {
	p, err := problems()
	return slices.Clone(p[0]), slices.Clone(p[1]), err
}

var problems = sync.OnceValues(func() (p [2][]data.Problem, err error) {
	if p[0], err = read("train.jsonl"); err == nil {
		p[1], err = read("heldout.jsonl")
	}
	return p, err
})

func read(name string) ([]data.Problem, error) {
	text, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return dataset.Read(context.Background(), name, bytes.NewReader(text))
}

// PromptTemplate is the template of the prompts that the model was trained on.
func PromptTemplate() (*prompt.Builder, error) {
	text, err := files.ReadFile("prompt.tmpl")
	if err != nil {
		return nil, err
	}
	return prompt.Own("the embedded prompt template", string(text))
}

// HealTemplate is the template for the answer to a wrong program, in words that the model knows.
func HealTemplate() string {
	text, _ := files.ReadFile("heal.tmpl") // embedded, so it cannot fail
	return string(text)
}

// Fingerprint is a hash of the model's files.
func Fingerprint() string { return fingerprint() }

var fingerprint = sync.OnceValue(func() string {
	h := sha256.New()
	for _, name := range modelFiles() {
		text, _ := files.ReadFile(name) // embedded, so it cannot fail
		fmt.Fprintf(h, "%s %d\n", name, len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
})

// ProblemsFingerprint is the SHA-256 of the training or the held-out problems.
func ProblemsFingerprint(heldOut bool) string {
	name := "train.jsonl"
	if heldOut {
		name = "heldout.jsonl"
	}
	text, _ := files.ReadFile(name)
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

func modelFiles() (names []string) {
	entries, _ := files.ReadDir("model")
	for _, e := range entries {
		names = append(names, "model/"+e.Name())
	}
	return names
}

// Extract writes the model to dir as a Hugging Face directory, creating dir if necessary. Files that are correct already
// are left alone.
func Extract(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return badinput.Errorf("directory of the embedded model: %w", err)
	}
	for _, name := range modelFiles() {
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.Base(name))
		if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, text) {
			continue
		}
		if err := atomicfile.WriteBytes(path, text); err != nil {
			return badinput.Errorf("embedded model: %w", err)
		}
	}
	return nil
}

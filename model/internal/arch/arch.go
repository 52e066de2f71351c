package arch

import (
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// architecture is everything that tells one family of decoders from another. Each is a value in a file of
// its own, and a line in the table below.
type architecture struct {
	name string // in config.json's "architectures"

	// read understands the text of a config.json, and refuses what the forward pass would not compute.
	read func(text []byte) (Config, error)
	// keys are what Write puts into a config.json beside the keys that every decoder has.
	keys func(c Config) map[string]any

	// block lists the weights of a layer in the order of the forward pass: what the tensors are called, and
	// which of them are packed into one matrix.
	block func(c Config, layer int) []Slot
	// forward goes from the tokens to the rows that the output head reads.
	forward func(c Config, b Blocks) Rows
	// initial says how a slot of a new model starts: normal with that mean and standard deviation; of a
	// norm, what it multiplies by.
	initial func(c Config, s Slot) (mean, spread float64)

	offset  float32 // that the weights of norms lack: 1 where they are the difference from one
	inDType bool    // what is computed depends on the type that the weights were published in
}

// architectures are the families that there are.
var architectures = []*architecture{
	&qwen3,
	&llama,
	&qwen2,
	&mistral,
	&gemma2,
}

// named finds one by its name in config.json, or nil.
func named(name string) *architecture {
	for _, a := range architectures {
		if a.name == name {
			return a
		}
	}
	return nil
}

// checkNames wants one name, and one that is known.
func checkNames(names []string) error {
	if len(names) == 1 && named(names[0]) != nil {
		return nil
	}
	known := make([]string, len(architectures))
	for i, a := range architectures {
		known[i] = a.name
	}
	return badinput.Errorf("architectures: found %q, supported: %s", names, strings.Join(known, ", "))
}

// arch is the model's family; the configuration was checked when it was made.
func (c Config) arch() *architecture { return named(c.Architecture) }

// Forward writes what the model computes, from the tokens to the rows that the output head reads.
func (c Config) Forward(b Blocks) Rows { return c.arch().forward(c, b) }

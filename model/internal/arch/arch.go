package arch

import (
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// architecture is everything in which families of decoders differ. Each is a value in its own file, and a
// line in the table below.
type architecture struct {
	name string // in config.json's "architectures"

	// read parses a config.json, and refuses what the forward pass does not support.
	read func(text []byte) (Config, error)
	// keys are the keys that Write adds to those that every decoder has.
	keys func(c Config) map[string]any

	// block lists the weights of a layer in the order of the forward pass: what the tensors are called, and
	// which of them are packed into one matrix.
	block func(c Config, layer int) []Slot
	// forward computes from the tokens the rows that the output head reads.
	forward func(c Config, b Blocks) Rows
	// initial is the distribution of a slot of a new model: normal with that mean and standard deviation. For
	// a norm it is that of the factor, which includes the offset.
	initial func(c Config, s Slot) (mean, spread float64)

	offset  float32 // added to the weights of norms: 1 if they are stored as differences from one
	inDType bool    // results depend on the type in which the weights were published
}

// architectures are all families.
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

// checkNames requires exactly one name, which must be known.
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

// Forward builds the forward pass, from the tokens to the rows that the output head reads.
func (c Config) Forward(b Blocks) Rows { return c.arch().forward(c, b) }

//go:build !gpu

package driver

import "context"

// Built reports whether this binary has the GPU backend.
const Built = false

// Device is an open card. Without the GPU backend none can be opened.
type Device struct{}

// Options are how a card is used.
type Options struct{ Spin bool }

func notBuilt() error {
	return unusable(NotBuilt, "this program was built without the GPU backend: "+
		"type make build in the source of grpo and run bin/grpo")
}

// Probe looks for a driver and its cards.
func Probe(context.Context) (Driver, error) { return Driver{}, notBuilt() }

// Open takes a card into use.
func Open(int, Options) (*Device, error) { return nil, notBuilt() }

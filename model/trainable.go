package model

import (
	"errors"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// trainable are the trained parameters of a policy: an adapter, the masters of all weights, or nothing.
type trainable interface {
	// slabs are the parameters and their gradients; locate names the tensor at an offset.
	slabs() (params, grads kernels.Buffer)
	locate(offset int) string
	// count is the number of parameters, without padding.
	count() int

	// publish updates the copies that the kernels read.
	publish()
	// verify checks that the copies that the kernels read are up to date, number by number, and returns the
	// SHA-256 of the parameters, which identifies the policy.
	verify() (hash string, err error)

	// save writes the parameters to dir, for the model in base; restore reads them again.
	save(dir, base string) error
	restore(dir string) error
	saveGradients(path string) error
}

var (
	_ trainable = (*adapter)(nil)
	_ trainable = (*masters)(nil)
	_ trainable = noTrainable{}
)

// noTrainable is the trainable of frozen weights without an adapter.
type noTrainable struct{}

func errNothing() error {
	return badinput.Errorf("nothing to train: attach an adapter, or open the model with train=full and without Frozen")
}

func (noTrainable) slabs() (params, grads kernels.Buffer) { return nil, nil }
func (noTrainable) locate(int) string                     { return "no parameter" }
func (noTrainable) count() int                            { return 0 }
func (noTrainable) publish()                              {}
func (noTrainable) save(string, string) error             { return errNothing() }
func (noTrainable) restore(string) error                  { return errNothing() }
func (noTrainable) saveGradients(string) error            { return errNothing() }

func (noTrainable) verify() (string, error) {
	return "", errors.New("model: frozen weights have no name; attach an adapter, or train them")
}

package sandbox

import (
	"context"
	"errors"
)

// Pool is a set of cells that run programs.
type Pool struct{}

// Open builds a pool with the strongest isolation that this machine allows, found by trying.
func Open(ctx context.Context, o Options) (*Pool, error) { return nil, errors.ErrUnsupported }

// Run runs the program on the inputs in their order and hands every result to each, until each
// returns false. It is safe for concurrent use; runs wait their turn, and groups get turns equally
// however many runs each has waiting. The error is the context's, or an *InfraError.
func (p *Pool) Run(ctx context.Context, group string, prog Program, inputs []Input, l Limits, each func(i int, r Result) (more bool)) error {
	return errors.ErrUnsupported
}

// Isolation tells how programs are isolated in this pool.
func (p *Pool) Isolation() Report { return Report{} }

// Close ends every cell and waits until they are gone. Runs in progress fail.
func (p *Pool) Close() error { return nil }

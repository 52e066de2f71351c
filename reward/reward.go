// Package reward turns a completion into a score: it extracts the program from the text, runs it on
// the tests of its problem, compares the outputs, and computes a weighted reward.
//
// A program is given inputs only; the expected outputs stay in this process. So a program finds
// nothing to copy in the sandbox, and gains nothing by claiming success. A program that fails has a
// score. A sandbox that fails does not give one: the sample is excluded from its group, and when too
// many are, grading stops with an error.
//
// The package does not know how programs are isolated (a Runner does), nor tokens, advantages or what
// groups are for.
package reward

import (
	"context"
	"iter"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Runner runs a program on its inputs in order and passes every result to each, until each returns
// false. It waits for a slot for every input; the local pool shares slots evenly among groups. A
// failure of the machine is retried, and then an error that wraps a *sandbox.InfraError, never a
// result.
type Runner interface {
	Run(ctx context.Context, group string, prog sandbox.Program, inputs []sandbox.Input, l sandbox.Limits,
		each func(i int, r sandbox.Result) (more bool)) error
}

// Completion is an answer of the model, to be scored.
type Completion struct {
	// Problem is what was asked. Completions of one problem should share the pointer: its tests are
	// then fetched once for those that are judged together.
	Problem *data.Problem
	// Group names the completions that wait together for their turn in the sandbox; empty is the ID
	// of the problem.
	Group string
	// Text is what the model wrote. Where Bare is set it is a program, without prose or fences.
	Text string
	Bare bool
	// Truncated says that the model was cut off at the length limit.
	Truncated bool
	// Tokens is the length of the completion, and MaxTokens its limit; 0: unknown.
	Tokens, MaxTokens int
	// Peers are the completions that a Whole judge scores together with it, and Place is its index among them. nil: none.
	Peers *Peers
	Place int
}

// Grader scores completions. Many goroutines may call Grade at once. Whatever is wrong with a completion is
// part of its Score; an error ends the run. Grade must return soon after its context ends, as callers wait for it.
type Grader interface {
	Grade(ctx context.Context, c Completion) (Score, error)
}

// GraderFunc is a function as a Grader.
type GraderFunc func(ctx context.Context, c Completion) (Score, error)

// Grade calls the function.
func (f GraderFunc) Grade(ctx context.Context, c Completion) (Score, error) {
	precondition.NotNil("reward.GraderFunc.Grade", "f", f)
	return f(ctx, c)
}

// Graded is a completion with its score.
type Graded struct {
	Completion
	Score Score
}

// Stream scores completions as they come in, up to `ahead` of them at a time, and yields them in the
// order they came. It stops at the first error, or when the loop over it stops.
func Stream(ctx context.Context, g Grader, in <-chan Completion, ahead int) iter.Seq2[Graded, error] {
	type result struct {
		graded Graded
		err    error
	}
	return func(yield func(Graded, error) bool) {
		precondition.NotNil("reward.Stream", "ctx", ctx, "g", g)
		ctx, cancel := context.WithCancel(ctx)
		pending := make(chan chan result, max(ahead, 1)-1)
		go func() {
			defer close(pending)
			for {
				done := make(chan result, 1)
				select {
				case c, ok := <-in:
					if !ok {
						return
					}
					select {
					case pending <- done:
					case <-ctx.Done():
						return
					}
					go func() {
						score, err := g.Grade(ctx, c)
						c.Peers.Leave(c.Place)
						done <- result{Graded{c, score}, err}
					}()
				case <-ctx.Done():
					return
				}
			}
		}()
		defer func() {
			cancel()
			for done := range pending { // wait for those under way
				<-done
			}
		}()
		for done := range pending {
			r := <-done
			if !yield(r.graded, r.err) || r.err != nil {
				return
			}
		}
		if ctx.Err() != nil {
			yield(Graded{}, context.Cause(ctx))
		}
	}
}

// All scores completions together and returns the scores in their order.
func All(ctx context.Context, g Grader, completions []Completion) ([]Score, error) {
	in := make(chan Completion, len(completions))
	for _, c := range completions {
		in <- c
	}
	close(in)
	scores := make([]Score, 0, len(completions))
	for graded, err := range Stream(ctx, g, in, len(completions)) {
		if err != nil {
			return nil, err
		}
		scores = append(scores, graded.Score)
	}
	return scores, nil
}

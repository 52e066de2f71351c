// Package notice passes warnings to the caller, for the user: about what is no error but worth knowing. It travels with
// the context, as warnings come from deep in the call stack.
package notice

import "context"

type key struct{}

// WithHandler returns a context under which warnings are passed to warn.
func WithHandler(ctx context.Context, warn func(text string)) context.Context {
	return context.WithValue(ctx, key{}, warn)
}

// Warn passes a line to the context's receiver, if any.
func Warn(ctx context.Context, text string) {
	if warn, ok := ctx.Value(key{}).(func(string)); ok && text != "" {
		warn(text)
	}
}

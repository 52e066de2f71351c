// Package notice carries a word about what goes on beside the work to whoever asked for it: something that is no error,
// and that a person should know. It travels with the context, since those who have to say it lie deep.
package notice

import "context"

type key struct{}

// With has warn told what is said under the context that it gives.
func With(ctx context.Context, warn func(text string)) context.Context {
	return context.WithValue(ctx, key{}, warn)
}

// Warn says a line to whoever listens.
func Warn(ctx context.Context, text string) {
	if warn, ok := ctx.Value(key{}).(func(string)); ok && text != "" {
		warn(text)
	}
}

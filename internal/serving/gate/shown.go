package gate

import (
	"context"
	"net/http"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// unknownKey is the refusal of an unknown key.
var unknownKey = refusal.Preencoded(&refusal.Error{Status: http.StatusUnauthorized, Code: "invalid_api_key",
	Message: "the key is unknown"})

// shownKey is the context key of the key that a request shows.
type shownKey struct{}

// KeyName is the name of the key that the context's request has shown; "" if none was needed.
func KeyName(ctx context.Context) string {
	of, _ := ctx.Value(shownKey{}).(key)
	return of.name
}

// Admin reports whether the key that the context's request has shown may load and unload adapters.
func Admin(ctx context.Context) bool {
	of, _ := ctx.Value(shownKey{}).(key)
	return of.admin
}

// identify finds the key that a request shows, and refuses it if it is unknown.
func (g *Gate) identify(r *http.Request) (of key, err error) {
	if g.Keys == nil || r.URL.Path == healthz || r.URL.Path == readyz || r.Method == http.MethodOptions {
		return of, nil
	}
	if _, public, _ := g.PathLimits(r.URL.Path); public {
		of, _ = g.keyOf(r) // not needed, but an admin key has more rights
		return of, nil
	}
	return g.keyOf(r)
}

// keyOf looks up the key in the headers that clients use for it.
func (g *Gate) keyOf(r *http.Request) (of key, err error) {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		shown = r.Header.Get("X-Api-Key")
	}
	if shown == "" {
		return of, refusal.Errorf(http.StatusUnauthorized, "no key, expected Authorization: Bearer KEY")
	}
	of = g.Keys.find(shown)
	if behind, tinkers := strings.CutPrefix(shown, "tml-"); of.name == "" && tinkers { // Tinker's clients require keys to begin with this
		of = g.Keys.find(behind)
	}
	if of.name == "" {
		return of, unknownKey
	}
	return of, nil
}

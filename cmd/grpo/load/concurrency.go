package load

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/plural"
)

// Concurrency is how many completions of each round were sampled at the same time. A completion counts from its first token to its
// last: before that, its prompt is waiting or prefilled, which takes long on a server with fewer slots than clients.
type Concurrency struct {
	Most []int     `json:"most"` // at the same time
	All  []float64 `json:"all"`  // share of the round, first request to last token, in which all clients' completions were sampled
}

// tokenEvent is the first or the last token of a completion.
type tokenEvent struct {
	at   time.Time
	more int // 1 at the first, -1 at the last
}

// abreast returns the most completions sampled at a time, and the share of the round in which all clients' were.
func (all answers) abreast(clients int) (most int, share float64) {
	begin, moments := all[0].asked, make([]tokenEvent, 0, 2*len(all))
	for _, a := range all {
		if a.asked.Before(begin) {
			begin = a.asked
		}
		moments = append(moments, tokenEvent{a.came[0], 1}, tokenEvent{a.came[len(a.came)-1], -1})
	}
	slices.SortFunc(moments, func(a, b tokenEvent) int {
		if a.at.Equal(b.at) {
			return a.more - b.more // an end comes before a beginning at the same time
		}
		return a.at.Compare(b.at)
	})
	now, with, since := 0, time.Duration(0), time.Time{}
	for _, m := range moments {
		if now >= clients {
			with += m.at.Sub(since)
		}
		now, since = now+m.more, m.at
		most = max(most, now)
	}
	if whole := since.Sub(begin); whole > 0 {
		share = with.Seconds() / whole.Seconds()
	}
	return most, share
}

// add adds a round.
func (a *Concurrency) add(all answers, clients int) {
	most, share := all.abreast(clients)
	a.Most, a.All = append(a.Most, most), append(a.All, share)
}

// say explains what a rate refers to: if all completions of a round were sampled at once, to that time, otherwise to the whole
// round. whole says that the rate always refers to the whole round.
func (a *Concurrency) say(where string, clients int, whole bool) string {
	var fewer, most int
	var shares []float64 // of the rounds in which all were
	for i, n := range a.Most {
		if n < clients {
			fewer, most = fewer+1, max(most, n)
		} else {
			shares = append(shares, a.All[i])
		}
	}
	var parts []string
	if len(shares) > 0 {
		of := "that"
		if whole {
			of = "the whole"
		}
		parts = append(parts, fmt.Sprintf("all %d completions were drawn at once for %s of the time, and tokens/s are of %s",
			clients, share(median(shares)), of))
	}
	if fewer > 0 {
		parts = append(parts, fmt.Sprintf("in %d of %s the %d completions were never all drawn at once, but %d at the most: "+
			"tokens/s are then of fewer,\n  with the time in them that prompts take; type a larger --completion, or a smaller --batch",
			fewer, plural.Of(len(a.Most), "round"), clients, most))
	}
	return where + ": " + strings.Join(parts, ";\n  ") + "\n"
}

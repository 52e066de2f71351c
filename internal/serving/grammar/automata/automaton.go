// Package automata builds deterministic automata over characters: of patterns, of formats of strings, of numbers within
// limits, and intersections of these. A Budget limits their cost.
package automata

import (
	"slices"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Automaton is a deterministic automaton over characters. It starts in state 0, and every state can reach one that
// accepts.
type Automaton struct {
	moves   [][]move // by state, in ascending order of characters
	accepts []bool
}

// move is a transition for a range of characters. No range contains surrogates, which are no characters.
type move struct {
	lo, hi rune
	to     int32
}

// AnyText accepts every text.
var AnyText = &Automaton{moves: [][]move{{{0, 0xD7FF, 0}, {0xE000, utf8.MaxRune, 0}}}, accepts: []bool{true}}

// Next is the state that a character leads to, or -1.
func (a *Automaton) Next(q int32, r rune) int32 {
	moves := a.moves[q]
	if i := search(moves, r); i < len(moves) && moves[i].lo <= r {
		return moves[i].to
	}
	return -1
}

// AnyNext reports whether any character from lo to hi leads anywhere.
func (a *Automaton) AnyNext(q int32, lo, hi rune) bool {
	moves := a.moves[q]
	i := search(moves, lo)
	return lo <= hi && i < len(moves) && moves[i].lo <= hi
}

// Accepts reports whether a text may end in a state.
func (a *Automaton) Accepts(q int32) bool { return a.accepts[q] }

// MustEnd reports whether a text must end in a state.
func (a *Automaton) MustEnd(q int32) bool { return len(a.moves[q]) == 0 }

// search finds the first move whose range does not end before a character.
func search(moves []move, r rune) int {
	lo, hi := 0, len(moves)
	for lo < hi {
		if mid := (lo + hi) / 2; moves[mid].hi < r {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Matches reports whether a text is accepted.
func (a *Automaton) Matches(text string) bool {
	q := int32(0)
	for _, r := range text {
		if q = a.Next(q, r); q < 0 {
			return false
		}
	}
	return a.accepts[q]
}

// mostStates limits an automaton. Patterns written by hand do not come near it.
const mostStates = 10_000

// Budget is how much work may still be spent on the automata of a grammar. It limits the time to a fraction of a second,
// and the memory to 20 MB.
type Budget int

const (
	InitialBudget Budget = 24_000_000 // of a grammar
	moveCost      Budget = 16
)

func (b *Budget) spend(n Budget) bool {
	*b -= n
	return *b > 0
}

// explore builds the automaton whose states are keys. edges calls emit for each transition, in ascending order without
// overlaps, and reports whether the state accepts. The result is nil if nothing is accepted.
func explore[K comparable](b *Budget, start K, edges func(at K, emit func(lo, hi rune, to K)) bool) (*Automaton, error) {
	a := &Automaton{}
	known := map[K]int32{start: 0}
	queue := []K{start}
	for len(a.moves) < len(queue) {
		var moves []move
		accepts := edges(queue[len(a.moves)], func(lo, hi rune, to K) {
			id, ok := known[to]
			if !ok {
				id = int32(len(queue))
				known[to] = id
				queue = append(queue, to)
			}
			moves = appendMove(moves, move{lo, hi, id})
		})
		if !b.spend(Budget(1+len(moves))*moveCost) || len(queue) > mostStates {
			return nil, badinput.Errorf("too large: expected at most %d states in one, and less in all of them together", mostStates)
		}
		a.moves = append(a.moves, moves)
		a.accepts = append(a.accepts, accepts)
	}
	return a.trim(), nil
}

// appendMove appends a move without its surrogates, merging it with the last one if possible.
func appendMove(moves []move, m move) []move {
	if m.lo < 0xD800 && m.hi >= 0xD800 {
		moves = appendMove(moves, move{m.lo, 0xD7FF, m.to})
		m.lo = 0xD800
	}
	if m.lo >= 0xD800 {
		m.lo = max(m.lo, 0xE000)
	}
	if m.lo > m.hi {
		return moves
	}
	if n := len(moves); n > 0 && moves[n-1].to == m.to && moves[n-1].hi+1 == m.lo {
		moves[n-1].hi = m.hi
		return moves
	}
	return append(moves, m)
}

// trim removes moves to states from which nothing is accepted.
func (a *Automaton) trim() *Automaton {
	from := make([][]int32, len(a.moves))
	for q, moves := range a.moves {
		for _, m := range moves {
			from[m.to] = append(from[m.to], int32(q))
		}
	}
	live := slices.Clone(a.accepts)
	var queue []int32
	for q, yes := range live {
		if yes {
			queue = append(queue, int32(q))
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, q := range from[queue[0]] {
			if !live[q] {
				live[q] = true
				queue = append(queue, q)
			}
		}
	}
	if !live[0] {
		return nil
	}
	for q := range a.moves {
		a.moves[q] = slices.DeleteFunc(a.moves[q], func(m move) bool { return !live[m.to] })
	}
	return a
}

// Intersect is the intersection of two automata; nil accepts nothing.
func Intersect(left *Budget, a, b *Automaton) (*Automaton, error) {
	switch {
	case a == nil || b == nil:
		return nil, nil
	case a == AnyText:
		return b, nil
	case b == AnyText:
		return a, nil
	}
	return explore(left, [2]int32{}, func(at [2]int32, emit func(lo, hi rune, to [2]int32)) bool {
		x, y := a.moves[at[0]], b.moves[at[1]]
		for len(x) > 0 && len(y) > 0 {
			if lo, hi := max(x[0].lo, y[0].lo), min(x[0].hi, y[0].hi); lo <= hi {
				emit(lo, hi, [2]int32{x[0].to, y[0].to})
			}
			if x[0].hi < y[0].hi {
				x = x[1:]
			} else {
				y = y[1:]
			}
		}
		return a.accepts[at[0]] && b.accepts[at[1]]
	})
}

// OfLength accepts texts of at least least and at most most characters; most is -1 if there is no limit.
func OfLength(b *Budget, least, most int) (*Automaton, error) {
	if n := max(least, most); n > mostStates {
		return nil, badinput.Errorf("counts to %d characters beside a pattern or format, expected at most %d", n, mostStates)
	}
	return explore(b, 0, func(n int, emit func(lo, hi rune, to int)) bool {
		if most < 0 {
			emit(0, utf8.MaxRune, min(n+1, least))
		} else if n < most {
			emit(0, utf8.MaxRune, n+1)
		}
		return n >= least
	})
}

// OtherThan accepts every text but these.
func OtherThan(b *Budget, names []string) (*Automaton, error) {
	if len(names) == 0 {
		return AnyText, nil
	}
	names = slices.Sorted(slices.Values(names))
	type prefix struct{ first, end, bytes int } // names[first:end] share their first bytes bytes
	elsewhere := prefix{-1, -1, -1}
	return explore(b, prefix{0, len(names), 0}, func(at prefix, emit func(lo, hi rune, to prefix)) bool {
		accepts, next := true, rune(0)
		for i := at.first; at != elsewhere && i < at.end; {
			if len(names[i]) == at.bytes {
				accepts = false
				i++
				continue
			}
			r, size := utf8.DecodeRuneInString(names[i][at.bytes:])
			end := i + 1
			for end < at.end && names[end][:at.bytes+size] == names[i][:at.bytes+size] {
				end++
			}
			if next < r {
				emit(next, r-1, elsewhere)
			}
			emit(r, r, prefix{i, end, at.bytes + size})
			i, next = end, r+1
		}
		emit(next, utf8.MaxRune, elsewhere)
		return accepts
	})
}

package sampler

import (
	"errors"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/model"
)

// budget is the number of rows that the iteration has room for.
func (s *scheduler) budget() int {
	if len(s.rows.Starts)-1 >= s.decoder.Sequences {
		return 0
	}
	return s.maxRows - len(s.rows.Tokens)
}

// drawsLeft is the number of draws that the iteration has room for. All samples of a prompt draw their first token from the same row,
// so that draws can run out before rows do.
func (s *scheduler) drawsLeft() int { return s.decoder.Rows - len(s.rows.Draws) }

// addRow adds a row to the current run of rows.
func (s *scheduler) addRow(token int32, position int) {
	s.rows.Tokens = append(s.rows.Tokens, token)
	s.rows.Positions = append(s.rows.Positions, int32(position))
}

// count adds to Recomputed those of n positions from first on that are below *reached, and raises that.
func (s *scheduler) count(reached *int, first, n int) {
	s.Recomputed += max(min(first+n, *reached)-first, 0)
	*reached = max(*reached, first+n)
}

// endRun ends the current run of rows, if it has any: they are of one sequence, with that block table and the group's adapter.
func (s *scheduler) endRun(g *group, table []int32) {
	if len(s.rows.Tokens) == int(s.rows.Starts[len(s.rows.Starts)-1]) {
		return
	}
	s.rows.Starts = append(s.rows.Starts, int32(len(s.rows.Tokens)))
	if s.decoder.Adapters > 0 {
		s.rows.Adapters = append(s.rows.Adapters, g.request.Adapter)
	}
	s.rows.Tables = append(s.rows.Tables, table...)
	for range s.decoder.TableStride - len(table) {
		s.rows.Tables = append(s.rows.Tables, 0)
	}
}

// arrange sorts the runs of rows by adapter, as neighbours with the same adapter share its matrix products.
func (s *scheduler) arrange() {
	from, to := &s.rows, &s.arranged
	if len(from.Adapters) == 0 {
		return
	}
	rank := map[*model.Served]int{}
	order := make([]int, 0, len(from.Adapters))
	for i, a := range from.Adapters {
		if _, seen := rank[a]; !seen {
			rank[a] = len(rank)
		}
		order = append(order, i)
	}
	byRank := func(i, k int) int { return rank[from.Adapters[i]] - rank[from.Adapters[k]] }
	if slices.IsSortedFunc(order, byRank) {
		return
	}
	slices.SortStableFunc(order, byRank)
	moved := make([]int, len(from.Tokens)) // the new index of each row
	to.Reset()
	for _, i := range order {
		first, end := int(from.Starts[i]), int(from.Starts[i+1])
		for row := first; row < end; row++ {
			moved[row] = len(to.Tokens) + row - first
		}
		to.Tokens = append(to.Tokens, from.Tokens[first:end]...)
		to.Positions = append(to.Positions, from.Positions[first:end]...)
		to.Starts = append(to.Starts, int32(len(to.Tokens)))
		to.Tables = append(to.Tables, from.Tables[i*s.decoder.TableStride:(i+1)*s.decoder.TableStride]...)
		to.Adapters = append(to.Adapters, from.Adapters[i])
	}
	for i := range from.Draws {
		from.Draws[i].Row = moved[from.Draws[i].Row]
	}
	from.Tokens, to.Tokens = to.Tokens, from.Tokens
	from.Positions, to.Positions = to.Positions, from.Positions
	from.Starts, to.Starts = to.Starts, from.Starts
	from.Tables, to.Tables = to.Tables, from.Tables
	from.Adapters, to.Adapters = to.Adapters, from.Adapters
}

// addDraw draws a token of a sequence from the row added last: its next token, or with ahead > 0 the one so many places later,
// behind drafts. The random number is that of its place, so that drafts change no draw.
func (s *scheduler) addDraw(q *sequence, ahead int) {
	p := q.request.Params
	d := model.Draw{Row: len(s.rows.Tokens) - 1, TopK: int32(min(p.TopK, math.MaxInt32)), TopP: p.TopP, MinP: p.MinP,
		Uniform: uniform(q.request.Key, q.sample, len(q.tokens)+ahead)}
	if p.TopP == 0 {
		d.TopP = 1
	}
	if p.Temperature > 0 {
		d.InvTemp = 1 / p.Temperature
	}
	if q.constraint != nil {
		s.constrain(q)
	}
	d.Top = q.request.Top
	s.rows.Raw = s.rows.Raw || q.request.raw()
	s.rows.Draws = append(s.rows.Draws, d)
	s.drawn = append(s.drawn, asked{group: q.group, q: q, at: ahead})
}

// addScore asks for the log-probability of the prompt's token at a place, after the row added last.
func (s *scheduler) addScore(g *group, at int) {
	s.rows.Draws = append(s.rows.Draws, model.Draw{Row: len(s.rows.Tokens) - 1, InvTemp: 1, TopP: 1,
		Top: g.request.PromptTop, Given: true, Target: g.request.Prompt[at]})
	s.drawn = append(s.drawn, asked{group: g, at: at})
}

// constrain adds the mask of a sequence's constraint, for the draw that is added next.
func (s *scheduler) constrain(q *sequence) {
	s.allowAll()
	from := len(s.rows.Masks)
	s.rows.Masks = append(s.rows.Masks, make([]uint32, model.MaskWords(s.cfg.Vocab))...)
	mask := s.rows.Masks[from:]
	q.constraint.Allow(mask)
	if over := s.cfg.Vocab % 32; over != 0 {
		mask[len(mask)-1] &= 1<<over - 1
	}
	if !slices.ContainsFunc(mask, func(word uint32) bool { return word != 0 }) {
		q.err = errNothingAllowed
		mask[0] = 1 // the draw needs a token; hand fails the sequence and ignores it
	}
}

var errNothingAllowed = errors.New("the constraint of the completion allows no token")

// allowAll adds masks that allow every token, for all draws so far that have no mask.
func (s *scheduler) allowAll() {
	words := model.MaskWords(s.cfg.Vocab)
	for len(s.rows.Masks) < words*len(s.rows.Draws) {
		s.rows.Masks = append(s.rows.Masks, ^uint32(0))
	}
}

package sampler

import "github.com/seed-7879b91d/grpo/model"

// budget is how many rows the iteration still takes.
func (s *scheduler) budget() int {
	if len(s.rows.Starts)-1 >= s.decoder.Sequences {
		return 0
	}
	return s.TokenBudget - len(s.rows.Tokens)
}

// addRow adds a row to the run of rows that is being written.
func (s *scheduler) addRow(token int32, position int) {
	s.rows.Tokens = append(s.rows.Tokens, token)
	s.rows.Positions = append(s.rows.Positions, int32(position))
}

// endRun makes the rows added since the last run, if any, those of a sequence of the group with that block table.
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

// addDraw asks for a sequence's next token after the row added last.
func (s *scheduler) addDraw(q *sequence) {
	p := q.request.Params
	d := model.Draw{Row: len(s.rows.Tokens) - 1, TopK: int32(p.TopK), TopP: p.TopP, MinP: p.MinP,
		Uniform: uniform(q.request.Key, q.sample, len(q.tokens))}
	if p.TopP == 0 {
		d.TopP = 1
	}
	if p.Temperature > 0 {
		d.InvTemp = 1 / p.Temperature
	}
	s.rows.Draws = append(s.rows.Draws, d)
	s.drawn = append(s.drawn, q)
}

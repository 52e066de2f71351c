package program

import "slices"

// round marks the values that are stored as rounded rows: those that are read only by operations that round them.
func (s *Schedule) round() {
	loose := make([]bool, len(s.values)) // some operation reads it in f32
	for v := range s.values {
		val := &s.values[v]
		loose[v] = val.op == nil || !val.op.Rounded || val.leaf != nil || val.output || val.half || len(val.op.Aux) > 0 ||
			s.graph.Rounder.RoundedLen(val.op.Width, 1) == 0
	}
	read := make([]bool, len(s.values))
	for _, st := range s.steps {
		for k, v := range st.in {
			read[v] = true
			loose[v] = loose[v] || !slices.Contains(s.values[st.out].op.RoundedInputs, k+1)
		}
	}
	for v := range s.values {
		s.values[v].round = read[v] && !loose[v]
	}
}

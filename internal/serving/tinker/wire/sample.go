package wire

import "math"

// Sampled is the result of asample.
type Sampled struct {
	Sequences []Sequence
	Prompt    []float32 // log-probabilities of the prompt's tokens, the first NaN; nil if not requested
	Top       *Top      // nil if not requested
	Cached    int       // tokens of the prompt that were in the prefix cache
}

// Sequence is one completion.
type Sequence struct {
	Length   bool // it ended at max_tokens, not at a stop
	Tokens   []int32
	LogProbs []float32
}

// Top has the K most likely tokens at each position of the prompt, row by row.
type Top struct {
	K        int
	Tokens   []int32
	LogProbs []float32
}

// Empty marks an unused slot of Top: token 0 with this log-probability.
const Empty = -99999

// Append encodes the message.
func (s Sampled) Append(b []byte) []byte {
	for _, q := range s.Sequences {
		var m []byte
		if q.Length {
			m = appendNumber(m, 1, 1)
		}
		m = appendMessage(m, 2, intBytes(q.Tokens))
		b = appendMessage(b, 1, appendMessage(m, 3, floatBytes(q.LogProbs)))
	}
	if s.Prompt != nil {
		b = appendMessage(b, 2, floatBytes(s.Prompt))
	}
	if t := s.Top; t != nil && t.K > 0 {
		m := appendMessage(nil, 1, intBytes(t.Tokens))
		m = appendMessage(m, 2, floatBytes(t.LogProbs))
		m = appendNumber(m, 3, int64(t.K))
		b = appendMessage(b, 3, appendNumber(m, 4, int64(len(t.Tokens)/t.K)))
	}
	return appendNumber(b, 4, int64(s.Cached))
}

// ReadSampled decodes the message.
func ReadSampled(body []byte) (s Sampled, err error) {
	return s, fields(body, func(f field) (err error) {
		var m []byte
		if f.num != 4 {
			if m, err = f.message(); err != nil {
				return err
			}
		}
		switch f.num {
		case 1:
			var q Sequence
			q, err = readSequence(m)
			s.Sequences = append(s.Sequences, q)
		case 2:
			s.Prompt, err = floatsOf(m)
		case 3:
			s.Top, err = readTop(m)
		case 4:
			var n int64
			n, err = f.number()
			s.Cached = int(n)
		}
		return err
	})
}

func readSequence(message []byte) (q Sequence, err error) {
	return q, fields(message, func(f field) (err error) {
		switch f.num {
		case 1:
			q.Length = f.bits != 0
		case 2:
			q.Tokens, err = intsOf(f.bytes)
		case 3:
			q.LogProbs, err = floatsOf(f.bytes)
		}
		return err
	})
}

func readTop(message []byte) (*Top, error) {
	t := &Top{}
	return t, fields(message, func(f field) (err error) {
		switch f.num {
		case 1:
			t.Tokens, err = intsOf(f.bytes)
		case 2:
			t.LogProbs, err = floatsOf(f.bytes)
		case 3:
			t.K = int(min(f.bits, math.MaxInt32))
		}
		return err
	})
}

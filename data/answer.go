package data

import (
	"encoding/json"

	"github.com/seed-7879b91d/grpo/data/match"
)

// Match is what an answer is compared with, and how.
type Match struct {
	By match.By
	// Want is a text, a pattern, a JSON schema, or mathematics.
	Want string
}

// MatchKeys is a Match as JSON: exactly one of the keys is set.
type MatchKeys struct {
	Exact      *string         `json:"exact,omitempty"`
	Regex      *string         `json:"regex,omitempty"`
	JSONSchema json.RawMessage `json:"json_schema,omitempty"`
	Math       *string         `json:"math,omitempty"`
}

// Match converts the keys to a Match, and returns how many of them are set: m is only valid if n is 1.
func (k *MatchKeys) Match() (m Match, n int) {
	for _, key := range []struct {
		by   match.By
		want *string
	}{{match.Exact, k.Exact}, {match.Regex, k.Regex}, {match.Math, k.Math}} {
		if key.want != nil {
			m, n = Match{key.by, *key.want}, n+1
		}
	}
	if k.JSONSchema != nil && k.JSONSchema[0] != 'n' {
		m, n = Match{match.JSONSchema, string(k.JSONSchema)}, n+1
	}
	return m, n
}

// keys is the inverse of MatchKeys.Match.
func (m *Match) keys() (k MatchKeys) {
	switch m.By {
	case match.Exact:
		k.Exact = &m.Want
	case match.Regex:
		k.Regex = &m.Want
	case match.JSONSchema:
		k.JSONSchema = json.RawMessage(m.Want)
	case match.Math:
		k.Math = &m.Want
	}
	return k
}

// AllAnswers reports whether there are problems and all of them are of kind Answer.
func AllAnswers(sets ...[]Problem) bool {
	n := 0
	for _, problems := range sets {
		for i := range problems {
			if n++; problems[i].Kind != Answer {
				return false
			}
		}
	}
	return n > 0
}

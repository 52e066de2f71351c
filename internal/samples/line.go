package samples

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// skimmed has the fields of a line that the index needs.
type skimmed struct {
	step, group int32
	problem     []byte
	tokens      int32
	reward      float32
	verdict     Verdicts
	right, left bool
}

// skim parses a line without decoding the values that it does not need. why says what is wrong with a line that is no completion.
func skim(line []byte) (s skimmed, why string) {
	s.reward, s.verdict = nan, verdict("")
	has := 0
	ok := jsonl.EachMember(line, func(name, value []byte) {
		switch string(name) {
		case "step":
			s.step = whole(value, &has)
		case "group":
			s.group = whole(value, &has)
		case "problem":
			s.problem = value
		case "tokens":
			if bytes.ContainsAny(value[:min(len(value), 3)], "0123456789") {
				s.tokens = int32(min(bytes.Count(value, []byte(",")), math.MaxInt32-1)) + 1
			}
		case "conversation":
			s.talk(value)
		case "score":
			s.score(value)
		}
	})
	switch {
	case !ok && len(bytes.Trim(line, "\x00")) == 0:
		return s, "zeros, as a power cut leaves them"
	case !ok:
		return s, "not a whole line of JSON"
	case has < 2:
		return s, "no completion: expected step and group"
	}
	return s, ""
}

// whole parses an integer, and counts that it was present.
func whole(value []byte, n *int) int32 {
	v, err := strconv.ParseInt(text(value), 10, 32)
	if err == nil && v >= 0 {
		*n++
		return int32(v)
	}
	return 0
}

// talk replaces the number of tokens by that of the model's turns in a conversation.
func (s *skimmed) talk(value []byte) {
	jsonl.EachMember(value, func(name, value []byte) {
		var turns []Turn
		if string(name) == "turns" && json.Unmarshal(value, &turns) == nil {
			s.tokens = int32(max(0, min(length(turns), math.MaxInt32)))
		}
	})
}

func (s *skimmed) score(value []byte) {
	jsonl.EachMember(value, func(name, value []byte) {
		switch string(name) {
		case "reward":
			if v, err := strconv.ParseFloat(text(value), 32); err == nil {
				s.reward = float32(v)
			}
		case "verdict":
			s.verdict = verdict(text(bytes.Trim(value, `"`)))
		case "excluded":
			s.left = len(value) > 2
		case "components":
			jsonl.EachMember(value, func(name, value []byte) {
				if string(name) == "correct" {
					s.right = string(value) == "1"
				}
			})
		}
	})
}

// text is a string that shares the memory of b, which must not change meanwhile.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// named is the name of a problem, given as a JSON string.
func named(quoted []byte) string {
	var name string
	if json.Unmarshal(quoted, &name) != nil {
		name = string(quoted)
	}
	if len(name) > mostName {
		return strings.ToValidUTF8(name[:mostName], "") + "…"
	}
	return name
}

// begin makes a group of its first completion.
func (s *skimmed) begin(g *Group, problem int32) {
	*g = Group{Step: s.step, Number: s.group, Problem: problem, Best: nan, Worst: nan}
}

// add adds a completion to a group.
func (s *skimmed) add(g *Group) {
	g.Samples++
	g.Verdicts |= s.verdict
	g.Tokens = int32(min(int64(g.Tokens)+int64(s.tokens), math.MaxInt32))
	if s.left {
		g.Left++
		return
	}
	if s.right {
		g.Right++
	}
	if s.reward == s.reward {
		if !(g.Best >= s.reward) {
			g.Best = s.reward
		}
		if !(g.Worst <= s.reward) {
			g.Worst = s.reward
		}
	}
}

package dataset

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/match"
)

// programColumns are the columns that say how to run a program. A row whose answer is not a program must not have them.
var programColumns = []string{"fn_name", "starter_code", "checker", "tolerance", "time_limit_ms", "memory_limit_mb"}

const matchNames = "exact, regex, json_schema or math"

// answerTest makes the test of a row without tests from its "answer"; its "match" or the options say how to match it.
func (r *row) answerTest() ([]looseTest, error) {
	by, err := r.matchCell()
	if err != nil {
		return nil, err
	}
	cell := r.cells["answer"]
	if s, ok := cell.(string); cell == nil || ok && strings.TrimSpace(s) == "" {
		if r.cells["match"] != nil {
			return nil, refuse(NoTests, `"match": found %q, but the row has neither "answer" nor tests`, by)
		}
		return nil, refuse(NoTests, `expected "tests" or "ground_truth", or "answer" with "match"`)
	}
	if by == "" {
		return nil, refuse(NoTests, `"answer": the row does not say how to compare it; add "match" (%s), `+
			"or set answer_match for all rows", matchNames)
	}
	text, isText := cell.(string)
	if !isText && by != match.JSONSchema {
		raw := cell.(json.RawMessage)
		if text = string(raw); kindOfJSON(raw) != "a number" {
			return nil, refuse(BadField, `"answer": found %s, expected a string or a number`, kindOfJSON(raw))
		}
	}
	var t looseTest
	switch by {
	case match.Exact:
		t.Exact = &text
	case match.Regex:
		t.Regex = &text
	case match.JSONSchema:
		if t.JSONSchema, err = jsonCell(cell); err == nil && !json.Valid(t.JSONSchema) {
			err = refuse(BadExpected, `"answer": found %s, expected a JSON schema`, quoteShort(text))
		}
		if err == nil {
			err = noRepeatedKeys("answer", cell, t.JSONSchema)
		}
	case match.Math:
		// Some collections have a whole solution here, which ends with the final answer.
		if final, ok := match.Final(text); ok {
			text = final
		}
		t.Math = &text
	}
	return []looseTest{t}, err
}

// matchCell is the row's "match", or that of the options if it has none.
func (r *row) matchCell() (match.By, error) {
	s, err := r.textCell("match")
	if err != nil || s == "" {
		return r.answers, err
	}
	if by := match.By(s); slices.Contains(match.Names(), by) {
		return by, nil
	}
	return "", refuse(BadField, `"match": found %s, expected %s`, quoteShort(s), matchNames)
}

// answer makes the typed test of an answer that is matched, and checks that the expected answer compiles.
func (t *looseTest) answer() (out data.Test, err error) {
	out.Match, _ = t.Match()
	out.Public = t.Public
	if t.TimeMS != 0 || t.MemoryMB != 0 {
		return out, refuse(BadField, "found a limit of time or memory, but %q runs no program; leave it out", out.Match.By)
	}
	if strings.TrimSpace(out.Match.Want) == "" {
		return out, refuse(BadExpected, "%q: found blank text, expected the answer", out.Match.By)
	}
	if _, err := match.New(out.Match.By, out.Match.Want); err != nil {
		return out, refuse(BadExpected, "%s", strings.Join(strings.Fields(err.Error()), " "))
	}
	return out, nil
}

// settleAnswer checks the row against its tests, which match an answer.
func (r *row) settleAnswer(p *data.Problem, tests []data.Test) error {
	p.Match = tests[0].Match.By
	for i := range tests {
		if by := tests[i].Match.By; by != p.Match {
			return refuse(MixedKinds, "tests[%d] is matched by %s, tests[0] by %s", i, by, p.Match)
		}
	}
	if r.cells["match"] != nil {
		said, err := r.matchCell()
		if err != nil {
			return err
		}
		if said != p.Match {
			return refuse(BadTests, `"match" says %s, but the tests are matched by %s`, said, p.Match)
		}
	}
	for _, name := range programColumns {
		if s, isText := r.cells[name].(string); r.cells[name] != nil && !(isText && s == "") {
			return refuse(BadField, "%q is for programs, and this problem asks for an answer; leave it out", name)
		}
	}
	return nil
}

// markUnread counts a column as unread after all: beside such tests it has another meaning.
func (r *row) markUnread(name string) {
	if r.cells[name] != nil {
		r.others = append(r.others, name)
	}
}

package sandbox

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzAnswer: whatever a program writes to its result file is read as exactly one JSON value or as none.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{"", "1", " [1, 2]\n", `"a" "b"`, "NaN", "{\"a\": 1", "\xff", "1e999999999", strings.Repeat("[", 20000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		v := checkValue(content)
		if v != nil && !json.Valid(v) {
			t.Errorf("%q became the value %q", content, v)
		}
		if v == nil && json.Valid(content) {
			t.Errorf("the value %q is lost", content)
		}
	})
}

// FuzzClaims: the output of the attacks comes from a cell, so parsing must expect anything.
func FuzzClaims(f *testing.F) {
	f.Add([]byte(`{"name": "network", "holds": true, "detail": "EPERM"}` + "\n"))
	f.Add([]byte("{}{"))
	f.Fuzz(func(t *testing.T, content []byte) {
		claims, err := readClaims(Result{Status: OK, Stdout: content})
		if err == nil && len(claims) == 0 {
			t.Errorf("%q holds no claim and no error", content)
		}
	})
}

func TestTail(t *testing.T) {
	var all tail
	for i := range 3000 {
		all.add([]byte(strings.Repeat(string(rune('a'+i%26)), i%7)))
		if len(all) > 3*stderrTail {
			t.Fatalf("keeps %d bytes", len(all))
		}
	}
	all.add([]byte("the end"))
	if s := all.String(); len(s) != stderrTail || !strings.HasSuffix(s, "the end") {
		t.Errorf("keeps %d bytes that end in %q", len(s), s[max(0, len(s)-20):])
	}
}

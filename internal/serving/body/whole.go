package body

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
)

// NormaliseIntegers rewrites whole numbers that some clients write as 1.0 to integers.
func NormaliseIntegers(text []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return text
	}
	same, err := json.Marshal(rewritten(v))
	if err != nil {
		return text
	}
	return same
}

func rewritten(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			v[key] = rewritten(x)
		}
	case []any:
		for i, x := range v {
			v[i] = rewritten(x)
		}
	case json.Number:
		if x, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int64(x)
		}
	}
	return v
}

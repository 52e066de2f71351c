package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/data/chat/jinja/python"
)

func toFloat(in *interpreter, v Value, a arguments) Value {
	if t, ok := v.(Text); ok {
		if f, err := strconv.ParseFloat(strings.TrimSpace(t.S), 64); err == nil {
			return f
		}
	} else if n, ok := v.(bigNumber); ok {
		f, _ := strconv.ParseFloat(string(n), 64)
		return f
	} else if f, ok := number(v); ok {
		return f
	}
	if d, ok := a.get(0, "default"); ok {
		return d
	}
	return 0.0
}

func toInt(in *interpreter, v Value, a arguments) Value {
	a.only(in, "int", "default", "base")
	switch v := v.(type) {
	case Text:
		s := strings.TrimSpace(v.S)
		if n, ok := python.Int(s, a.int(in, 1, "base", 10)); ok {
			return integer(n)
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return truncated(f)
		}
	case float64:
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			return truncated(v)
		}
	case bigNumber:
		return v
	default:
		if n, ok := whole(v); ok {
			return n
		}
	}
	if d, ok := a.get(0, "default"); ok {
		return d
	}
	return 0
}

// truncated is a number rounded towards zero.
func truncated(f float64) Value {
	n, _ := big.NewFloat(f).Int(nil)
	return integer(n)
}

func integer(n *big.Int) Value {
	if n.IsInt64() {
		return int(n.Int64())
	}
	return bigNumber(n.String())
}

func rounded(in *interpreter, v Value, a arguments) Value {
	a.only(in, "round", "precision", "method")
	digits, method := a.int(in, 0, "precision", 0), a.text(in, 1, "method", "common").S
	if _, big := v.(bigNumber); big && method == "common" && digits >= 0 {
		return v
	}
	f, ok := number(v)
	if !ok {
		in.fail("round: found %s, expected a number", describe(v))
	}
	scale := math.Pow(10, float64(digits))
	switch method { // "+ 0" turns -0 into 0: in Python ceil and floor return integers
	case "common":
		if n, ok := whole(v); ok {
			return integer(python.RoundInt(int64(n), digits))
		}
		return python.Round(f, digits)
	case "ceil":
		return math.Ceil(f*scale)/scale + 0
	case "floor":
		return math.Floor(f*scale)/scale + 0
	}
	in.fail("round: found the method %q, expected common, ceil or floor", method)
	return nil
}

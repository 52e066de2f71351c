package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// number writes a measured value with three digits, or whole where it is large.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v != v:
		return "–"
	case a >= 1e6 && a < 1e12:
		return tidy(strconv.FormatFloat(v/1e6, 'g', max(3, int(math.Log10(a))-5), 64)) + "M"
	case a >= 1000 && a < 1e6:
		return grouped(int64(math.Round(v)))
	default:
		return tidy(strconv.FormatFloat(v, 'g', 3, 64))
	}
}

// rate writes a share.
func rate(v float64) string {
	if v != v {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// fine writes a value that stays near 1.
func fine(v float64) string {
	if v != v {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', 5, 64)
}

// seconds writes the time of a phase; what nobody would notice is none.
func seconds(v float64) string {
	if v < 0.0005 {
		return "0"
	}
	return number(v)
}

// percent writes a share for a sentence.
func percent(v float64) string {
	text := strconv.FormatFloat(100*v, 'f', 0, 64)
	if v > 0 && v < 0.01 {
		text = number(100 * v)
	}
	return text + "\u00a0%"
}

func signed(v float64) string {
	if v > 0 {
		return "+" + number(v)
	}
	return number(v)
}

// exact writes a value that never changed, with every digit.
func exact(v float64) string { return tidy(strconv.FormatFloat(v, 'g', -1, 64)) }

// tidy takes the padding out of an exponent: 1e-05 is 1e-5.
func tidy(text string) string {
	mantissa, exponent, ok := strings.Cut(text, "e")
	if !ok {
		return text
	}
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return text
	}
	return mantissa + "e" + strconv.Itoa(n)
}

// grouped writes a whole number with commas.
func grouped(n int64) string {
	if n < 0 {
		return "-" + grouped(-n)
	}
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(int64(n)) + " " + what + "s"
}

func every(n int, what string) string {
	if n == 1 {
		return "the only " + what
	}
	return "all " + count(n, what)
}

// duration writes seconds the way people say them.
func duration(s float64) string {
	switch {
	case s < 9.95:
		return number(s) + "\u00a0s"
	case s < 90:
		return strconv.FormatFloat(s, 'f', 0, 64) + "\u00a0s"
	case s < 90*60:
		return fmt.Sprintf("%d\u00a0min", int(math.Round(s/60)))
	}
	minutes := int(math.Round(s / 60))
	return fmt.Sprintf("%s\u00a0h %d\u00a0min", grouped(int64(minutes/60)), minutes%60)
}

// understand decodes what it can: a value of another type than expected leaves its field as it was.
func understand(text []byte, v any) bool {
	err := json.Unmarshal(text, v)
	var kind *json.UnmarshalTypeError
	return err == nil || errors.As(err, &kind)
}

package display

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Number formats a measurement with three digits; large ones as integers.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case v != v:
		return "–"
	case a >= 999.5e6 && a < 1e12:
		return strconv.FormatFloat(v/1e6, 'f', 0, 64) + "M"
	case a >= 999999.5 && a < 1e12:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + "M"
	case a >= 999.5 && a < 1e6: // three digits would give 1e3
		return Grouped(int64(math.Round(v)))
	default:
		return TrimExponent(strconv.FormatFloat(v, 'g', 3, 64))
	}
}

// Rate formats a share.
func Rate(v float64) string {
	if v != v {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// Reward formats a reward of any size: with three decimals if that is enough, else with three significant digits.
func Reward(v float64) string {
	if a := math.Abs(v); a == 0 || a >= 0.1 && a < 1000 {
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return Number(v)
}

// Fine formats a value near 1.
func Fine(v float64) string {
	if v != v {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', 5, 64)
}

// Seconds formats the duration of a phase; negligible ones as 0.
func Seconds(v float64) string {
	if v < 0.0005 {
		return "0"
	}
	return Number(v)
}

// Percent formats a share for a sentence. Less than everything never becomes 100 %.
func Percent(v float64) string {
	text := strconv.FormatFloat(100*v, 'f', 0, 64)
	switch {
	case v > 0 && v < 0.01:
		text = Number(100 * v)
	case v >= 0.995 && v < 1: // less than everything
		text = strconv.FormatFloat(math.Floor(1000*v)/10, 'f', 1, 64)
	}
	return text + "\u00a0%"
}

// SignedReward formats a difference of rewards.
func SignedReward(v float64) string {
	if v >= 0 {
		return "+" + Reward(v)
	}
	return Reward(v)
}

// Signed formats a change.
func Signed(v float64) string {
	if v > 0 {
		return "+" + Number(v)
	}
	return Number(v)
}

// Exact formats a constant value with all digits.
func Exact(v float64) string { return TrimExponent(strconv.FormatFloat(v, 'g', -1, 64)) }

// TrimExponent removes leading zeros of an exponent: 1e-05 becomes 1e-5.
func TrimExponent(text string) string {
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

// Grouped formats an integer with commas.
func Grouped(n int64) string {
	sign, text := "", strconv.FormatInt(n, 10)
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return sign + text
}

// Count formats a number of things.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Grouped(int64(n)) + " " + what + "s"
}

// Every formats all of a number of things.
func Every(n int, what string) string {
	if n == 1 {
		return "the only " + what
	}
	return "all " + Count(n, what)
}

// TruncateMiddle shortens a text in the middle, as both ends may distinguish it.
func TruncateMiddle(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most/2]) + "…" + string(runes[len(runes)-(most-1)/2:])
}

// Duration formats seconds.
func Duration(s float64) string {
	switch {
	case s < 9.95:
		return Number(s) + "\u00a0s"
	case s < 90:
		return strconv.FormatFloat(s, 'f', 0, 64) + "\u00a0s"
	case s < 90*60:
		return fmt.Sprintf("%d\u00a0min", int(math.Round(s/60)))
	}
	minutes := int(math.Round(s / 60))
	return fmt.Sprintf("%s\u00a0h %d\u00a0min", Grouped(int64(minutes/60)), minutes%60)
}

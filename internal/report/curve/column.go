package curve

import "math"

var nan = math.NaN()

// Column has the values of a series in one column: NaN if none is known.
type Column struct {
	Mean, Low, High float64
	Falls           bool // the highest value came before the lowest
}

// Gather makes a column of the samples in it.
func Gather(values []float64) Column {
	c := Column{Mean: nan, Low: nan, High: nan}
	sum, n := 0.0, 0.0
	for _, v := range values {
		if v != v {
			continue
		}
		sum, n = sum+v, n+1
		if !(v >= c.Low) {
			c.Low, c.Falls = v, true
		}
		if !(v <= c.High) {
			c.High, c.Falls = v, false
		}
	}
	if n > 0 {
		c.Mean = sum / n
	}
	if c.Low == c.High {
		c.Mean = c.Low // avoids rounding
	}
	return c
}

// Smooth is a moving average by local linear regression: the value at the centre of a line fitted through each window. In a symmetric
// window that is the mean; near the ends it does not lag behind a slope. The result is clamped to the values in its window. A gap is
// bridged if the window has values on both sides; the curve ends with the last value.
func Smooth(columns []Column) []float64 {
	reach := len(columns) / 15
	out := make([]float64, len(columns))
	for i := range columns {
		var n, x, y, xx, xy float64 // sums over the window, x relative to i
		left, right, low, high := false, false, math.Inf(1), math.Inf(-1)
		for k := max(0, i-reach); k < min(len(columns), i+reach+1); k++ {
			if v := columns[k].Mean; v == v {
				at := float64(k - i)
				n, x, y, xx, xy = n+1, x+at, y+v, xx+at*at, xy+at*v
				left, right, low, high = left || k <= i, right || k >= i, min(low, v), max(high, v)
			}
		}
		if out[i] = nan; !left || !right {
			continue
		}
		out[i] = y / n
		if spread := n*xx - x*x; spread > 0 {
			out[i] = min(max((xx*y-x*xy)/spread, low), high)
		}
	}
	return out
}

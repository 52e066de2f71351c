// Package curve draws charts: it turns numbers into columns, scales, and SVG paths in a picture of 1000 by 1000.
package curve

import (
	"slices"
	"strings"
)

// Trace is a line through values, with gaps where they are unknown.
func Trace(at, values []float64, y *Scale) string {
	var b strings.Builder
	pen := false
	for i, v := range values {
		if v != v {
			pen = false
			continue
		}
		if !pen {
			b.WriteString("M")
		} else {
			b.WriteString(" ")
		}
		b.WriteString(point(at[i], v, y))
		if alone := !pen && (i+1 == len(values) || values[i+1] != values[i+1]); alone {
			b.WriteString("h0")
		}
		pen = true
	}
	return b.String()
}

// Extent is a line through the least and the greatest value of every column, in the order in which they came, so that no
// spike is lost.
func Extent(at []float64, line []Column, y *Scale) string {
	var places, values []float64
	for i, c := range line {
		ends := []float64{c.Low, c.High}
		switch {
		case c.Low == c.High || c.Mean != c.Mean:
			ends = ends[:1]
		case c.Falls:
			slices.Reverse(ends)
		}
		for _, v := range ends {
			places, values = append(places, at[i]), append(values, v)
		}
	}
	return Trace(places, values, y)
}

// Band is the area between the least and the greatest values of columns.
func Band(at []float64, low, high []Column, y *Scale) string {
	var b strings.Builder
	for i := 0; i < len(at); {
		end := i
		for end < len(at) && low[end].Low == low[end].Low && high[end].High == high[end].High {
			end++
		}
		if end-i > 1 {
			pen := "M"
			for k := i; k < end; k++ {
				b.WriteString(pen + point(at[k], high[k].High, y))
				pen = " "
			}
			for k := end - 1; k >= i; k-- {
				b.WriteString(" " + point(at[k], low[k].Low, y))
			}
			b.WriteString("z")
		} else if end-i == 1 { // a single column: an interval on its own
			b.WriteString("M" + point(at[i]-0.004, high[i].High, y) + " " + point(at[i]+0.004, high[i].High, y) +
				" " + point(at[i]+0.004, low[i].Low, y) + " " + point(at[i]-0.004, low[i].Low, y) + "z")
		}
		i = max(end, i+1)
	}
	return b.String()
}

// Dots draws the values as dots.
func Dots(at []float64, line []Column, y *Scale) string {
	var b strings.Builder
	for i, c := range line {
		if c.Mean == c.Mean {
			b.WriteString("M" + point(at[i], c.Mean, y) + "h0")
		}
	}
	return b.String()
}

func point(x, v float64, y *Scale) string { return Permille(x) + " " + Permille(y.Place(v)) }

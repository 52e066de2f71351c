package watch

import (
	"math"
	"strings"
)

// A braille character has two columns of four dots.
const dotsWide, dotsHigh = 2, 4

// brailleDots are the dots of a character, by column and row.
var brailleDots = [dotsWide][dotsHigh]rune{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}

// braille draws values as a curve in braille characters, between two ends of a scale. A column is the mean of its values; unknown
// values leave a gap.
func braille(values []float64, low, high float64, columns, rows int) []string {
	cells := make([][]rune, rows)
	for i := range cells {
		cells[i] = []rune(strings.Repeat("\u2800", columns))
	}
	width, height := dotsWide*columns, dotsHigh*rows
	before := -1
	for x, v := range squeezed(values, width) {
		if v != v {
			before = -1
			continue
		}
		y := height / 2
		if high > low {
			y = height - 1 - int(math.Round((v-low)/(high-low)*float64(height-1)))
		}
		y = min(max(y, 0), height-1)
		from, to := y, y
		if before >= 0 { // connect to the column before
			from, to = min(y, before+sign(y-before)), max(y, before+sign(y-before))
		}
		for at := from; at <= to; at++ {
			cells[at/dotsHigh][x/dotsWide] |= brailleDots[x%dotsWide][at%dotsHigh]
		}
		before = y
	}
	lines := make([]string, rows)
	for i := range cells {
		lines[i] = string(cells[i])
	}
	return lines
}

func sign(n int) int {
	switch {
	case n > 0:
		return 1
	case n < 0:
		return -1
	}
	return 0
}

// squeezed resamples values to that many columns: means if there are more values, interpolation if there are fewer.
func squeezed(values []float64, columns int) []float64 {
	out := make([]float64, columns)
	if n := len(values); n <= columns {
		for i := range out {
			at := float64(i) / float64(max(columns-1, 1)) * float64(n-1)
			left, right := int(at), min(int(at)+1, n-1)
			if out[i] = values[left]; at > float64(left) {
				out[i] += (at - float64(left)) * (values[right] - values[left])
			}
		}
		return out
	}
	for i := range out {
		sum, n := 0.0, 0
		for _, v := range values[i*len(values)/columns : (i+1)*len(values)/columns] {
			if v == v {
				sum, n = sum+v, n+1
			}
		}
		out[i] = sum / float64(n) // NaN if all are unknown
	}
	return out
}

// valueRange are the least and the greatest known value.
func valueRange(values []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v == v {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high
}

package report

import (
	"math"
	"slices"
	"strings"
)

// series is one quantity over the samples of an axis.
type series struct {
	name, color string
	values      []float64
	low, high   []float64 // an interval around the values, if there is one
	format      func(float64) string
}

// plot is the data of a chart.
type plot struct {
	title, note string
	series      []series
	stacked     bool      // the series are stacked
	share       bool      // the scale is 0 to 1
	steep       bool      // logarithmic, if the values differ by orders of magnitude
	plain       bool      // without a moving average
	dots        bool      // few values, drawn as dots
	joined      bool      // a line continues across columns without a value
	reference   []float64 // values that the scale must include
}

// chart is a plot as drawn, in a square of 1000 by 1000 that the page stretches.
type chart struct {
	Title, Note, Spoken string
	Ticks               []tick
	Span                string // of the scale with the ticks
	XTicks              []tick
	Shapes              []shape
	Legend              []legend
	Still               bool // all values are constant: only the legend is shown
}

// From that many columns on, a moving average is shown, and no dots.
const (
	enoughForTrend = 30
	tooManyForDots = 60
)

// shape is an SVG path of one color; class selects its style.
type shape struct{ Class, Color, Path string }

// legend names a series, with its last value, and all values for the readout.
type legend struct{ Color, Name, Last, Values string }

// draw draws a plot; nil if it has no values.
func (p plot) draw(a *axis) *chart {
	p.series = slices.DeleteFunc(p.series, func(s series) bool { return !known(s.values) || p.stacked && !anything(s.values) })
	if len(p.series) == 0 {
		return nil
	}
	c := &chart{Title: p.title, Note: p.note, XTicks: a.Ticks}
	if p.still() {
		c.Still = true
		for _, s := range p.series {
			c.Legend = append(c.Legend, legend{Name: s.name, Last: s.unchanged()})
		}
		return c
	}
	lines := make([][]column, len(p.series))
	for i, s := range p.series {
		lines[i] = a.Columns(s.values)
		c.Legend = append(c.Legend, legend{s.color, s.name, s.format(last(s.values)), readout(lines[i], s.format)})
	}
	if p.stacked {
		p.stack(c, lines)
	} else {
		p.lines(c, a, lines)
	}
	c.Spoken = c.speak()
	return c
}

// speak is the text alternative for screen readers.
func (c *chart) speak() string {
	words := make([]string, len(c.Legend))
	for i, l := range c.Legend {
		words[i] = l.Name + " " + l.Last
	}
	return c.Title + "; at the end " + strings.Join(words, ", ")
}

// still reports whether every series has a constant value and no interval.
func (p plot) still() bool {
	for _, s := range p.series {
		if s.low != nil && (!equal(s.low, s.values) || !equal(s.high, s.values)) {
			return false
		}
		first := nan
		for _, v := range s.values {
			if v == v && first != first {
				first = v
			}
			if v == v && v != first {
				return false
			}
		}
	}
	return !p.dots && !p.stacked
}

func (p plot) lines(c *chart, a *axis, lines [][]column) {
	bands := make([][2][]column, len(p.series))
	for i, s := range p.series {
		if s.low != nil {
			bands[i] = [2][]column{a.Columns(s.low), a.Columns(s.high)}
		}
	}
	y := p.scale(lines, bands)
	c.Ticks, c.Span = y.Ticks, y.Span()
	for i, s := range p.series {
		at, low, high := a.Places, bands[i][0], bands[i][1]
		if low == nil {
			continue
		}
		if p.joined {
			at, low = measured(a.Places, low)
			_, high = measured(a.Places, high)
		}
		c.add("band", s.color, band(at, low, high, y))
	}
	for i, s := range p.series {
		at, line := a.Places, lines[i]
		if p.joined {
			at, line = measured(at, line)
		}
		if p.plain || len(at) < enoughForTrend {
			c.add("line", s.color, extent(at, line, y))
		} else {
			c.add("raw", s.color, extent(at, line, y))
			c.add("line", s.color, trace(at, smooth(line), y))
		}
		if p.dots && len(at) < tooManyForDots && !c.Many() || len(at) == 1 {
			c.add("dots", s.color, dots(at, line, y))
		}
	}
}

// measured are the columns with values, and their places.
func measured(at []float64, line []column) (places []float64, known []column) {
	for i, c := range line {
		if c.Mean == c.Mean {
			places, known = append(places, at[i]), append(known, c)
		}
	}
	return places, known
}

func (p plot) scale(lines [][]column, bands [][2][]column) *scale {
	if p.share && len(p.reference) == 0 {
		return linear(0, 1)
	}
	low, high := math.Inf(1), math.Inf(-1)
	include := func(columns []column) {
		for _, c := range columns {
			if c.Mean == c.Mean {
				low, high = min(low, c.Low), max(high, c.High)
			}
		}
	}
	var middle []float64
	for i, columns := range lines {
		include(columns)
		include(bands[i][0])
		include(bands[i][1])
		for _, c := range columns {
			if c.Mean == c.Mean {
				middle = append(middle, c.Mean)
			}
		}
	}
	for _, v := range p.reference {
		low, high = min(low, v), max(high, v)
	}
	slices.Sort(middle)
	if p.steep && low > 0 && high > 30*middle[len(middle)/2] {
		return logarithmic(low, high)
	}
	return linear(low, high)
}

// stack draws columns on top of each other.
func (p plot) stack(c *chart, lines [][]column) {
	n := len(lines[0])
	sums, tallest := make([]float64, n), 0.0
	for i := range n {
		total := 0.0
		for _, line := range lines {
			total += zeroIfNaN(line[i].Mean)
		}
		tallest = max(tallest, total)
	}
	y := linear(0, tallest)
	if p.share {
		y = linear(0, 1)
	}
	c.Ticks, c.Span = y.Ticks, y.Span()
	gap := 0.0
	if n <= 100 {
		gap = 0.14 / float64(n)
	}
	for k, line := range lines {
		var path strings.Builder
		for i := range n {
			v := zeroIfNaN(line[i].Mean)
			if v <= 0 {
				continue
			}
			left, right := float64(i)/float64(n)+gap/2, float64(i+1)/float64(n)-gap/2
			bottom, top := permille(y.Place(sums[i])), permille(y.Place(sums[i]+v))
			path.WriteString("M" + permille(left) + " " + bottom + "V" + top + "H" + permille(right) + "V" + bottom + "z")
			sums[i] += v
		}
		c.add("column", p.series[k].color, path.String())
	}
}

func (c *chart) add(class, color, path string) {
	if path != "" {
		c.Shapes = append(c.Shapes, shape{class, color, path})
	}
}

func readout(line []column, format func(float64) string) string {
	words := make([]string, len(line))
	for i, c := range line {
		words[i] = strings.ReplaceAll(format(c.Mean), " ", "\u00a0")
	}
	return strings.Join(words, " ")
}

func known(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool { return v == v })
}

func anything(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool { return v > 0 })
}

func zeroIfNaN(v float64) float64 {
	if v != v {
		return 0
	}
	return v
}

// last is the last known value.
func last(values []float64) float64 {
	for i := len(values) - 1; i >= 0; i-- {
		if values[i] == values[i] {
			return values[i]
		}
	}
	return nan
}

func equal(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || x != x || y != y })
}

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
	low, high   []float64 // an interval around the values, where there is one
	format      func(float64) string
}

// plot is what a chart is to show.
type plot struct {
	title, note string
	series      []series
	stacked     bool      // the series add up
	share       bool      // the scale is 0..1
	steep       bool      // logarithmic, where the values lie far apart
	plain       bool      // no moving average: every value counts
	dots        bool      // few values, shown one by one
	joined      bool      // a line goes on beyond a column that it knows nothing of
	reference   []float64 // values that the scale must hold
}

// chart is a plot as the page draws it, in a square of 1000 by 1000 that the page stretches.
type chart struct {
	Title, Note, Spoken string
	Ticks               []tick
	XTicks              []tick
	Shapes              []shape
	Legend              []legend
	Still               bool // nothing moved: there is only a legend
}

// From so many columns on, a moving average says more than its values, and dots run together.
const (
	enoughForTrend = 30
	tooManyForDots = 60
)

// shape is a path of one color; class says how it is drawn.
type shape struct{ Class, Color, Path string }

// legend names a series with its last value, and its values for the readout.
type legend struct{ Color, Name, Last, Values string }

// draw lays a plot out, or gives nil where nothing is known.
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
		lines[i] = a.columns(s.values)
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

// speak is the text alternative of the chart, for screen readers.
func (c *chart) speak() string {
	words := make([]string, len(c.Legend))
	for i, l := range c.Legend {
		words[i] = l.Name + " " + l.Last
	}
	return c.Title + "; at the end " + strings.Join(words, ", ")
}

// still tells that there is nothing to draw: every series has one value throughout, and no interval.
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
			bands[i] = [2][]column{a.columns(s.low), a.columns(s.high)}
		}
	}
	y := p.scale(lines, bands)
	c.Ticks = y.Ticks
	for i, s := range p.series {
		at, low, high := a.at, bands[i][0], bands[i][1]
		if low == nil {
			continue
		}
		if p.joined {
			at, low = measured(a.at, low)
			_, high = measured(a.at, high)
		}
		c.add("band", s.color, band(at, low, high, y))
	}
	for i, s := range p.series {
		at, line := a.at, lines[i]
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

// measured are the columns that something is known of, and where they are.
func measured(at []float64, line []column) (places []float64, known []column) {
	for i, c := range line {
		if c.mean == c.mean {
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
			if c.mean == c.mean {
				low, high = min(low, c.low), max(high, c.high)
			}
		}
	}
	var middle []float64
	for i, columns := range lines {
		include(columns)
		include(bands[i][0])
		include(bands[i][1])
		for _, c := range columns {
			if c.mean == c.mean {
				middle = append(middle, c.mean)
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
			total += known0(line[i].mean)
		}
		tallest = max(tallest, total)
	}
	y := linear(0, tallest)
	if p.share {
		y = linear(0, 1)
	}
	c.Ticks = y.Ticks
	gap := 0.0
	if n <= 100 {
		gap = 0.14 / float64(n)
	}
	for k, line := range lines {
		var path strings.Builder
		for i := range n {
			v := known0(line[i].mean)
			if v <= 0 {
				continue
			}
			left, right := float64(i)/float64(n)+gap/2, float64(i+1)/float64(n)-gap/2
			bottom, top := permille(y.place(sums[i])), permille(y.place(sums[i]+v))
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

// trace is a line through values, with a gap where one is unknown.
func trace(at, values []float64, y *scale) string {
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

// extent is a line through the least and the greatest value of every column, in the order in which they
// came, so that no spike is lost.
func extent(at []float64, line []column, y *scale) string {
	var places, values []float64
	for i, c := range line {
		ends := []float64{c.low, c.high}
		switch {
		case c.low == c.high || c.mean != c.mean:
			ends = ends[:1]
		case c.falls:
			slices.Reverse(ends)
		}
		for _, v := range ends {
			places, values = append(places, at[i]), append(values, v)
		}
	}
	return trace(places, values, y)
}

func band(at []float64, low, high []column, y *scale) string {
	var b strings.Builder
	for i := 0; i < len(at); {
		end := i
		for end < len(at) && low[end].low == low[end].low && high[end].high == high[end].high {
			end++
		}
		if end-i > 1 {
			pen := "M"
			for k := i; k < end; k++ {
				b.WriteString(pen + point(at[k], high[k].high, y))
				pen = " "
			}
			for k := end - 1; k >= i; k-- {
				b.WriteString(" " + point(at[k], low[k].low, y))
			}
			b.WriteString("z")
		} else if end-i == 1 { // an interval on its own
			b.WriteString("M" + point(at[i]-0.004, high[i].high, y) + " " + point(at[i]+0.004, high[i].high, y) +
				" " + point(at[i]+0.004, low[i].low, y) + " " + point(at[i]-0.004, low[i].low, y) + "z")
		}
		i = max(end, i+1)
	}
	return b.String()
}

func dots(at []float64, line []column, y *scale) string {
	var b strings.Builder
	for i, c := range line {
		if c.mean == c.mean {
			b.WriteString("M" + point(at[i], c.mean, y) + "h0")
		}
	}
	return b.String()
}

func point(x, v float64, y *scale) string { return permille(x) + " " + permille(y.place(v)) }

func readout(line []column, format func(float64) string) string {
	words := make([]string, len(line))
	for i, c := range line {
		words[i] = strings.ReplaceAll(format(c.mean), " ", "\u00a0")
	}
	return strings.Join(words, " ")
}

func known(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool { return v == v })
}

func anything(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool { return v > 0 })
}

func known0(v float64) float64 {
	if v != v {
		return 0
	}
	return v
}

// last is the last value that is known.
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

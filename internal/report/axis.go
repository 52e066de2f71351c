package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/report/curve"
)

// What is drawn with.
type (
	tick   = curve.Tick
	scale  = curve.Scale
	column = curve.Column
)

var (
	linear, logarithmic, permille, percentAt = curve.Linear, curve.Logarithmic, curve.Permille, curve.Percent
	gather, smooth                           = curve.Gather, curve.Smooth
	trace, extent, band, dots                = curve.Trace, curve.Extent, curve.Band, curve.Dots
)

// mostColumns bounds the points of a chart: where there are more samples, several share a column.
const mostColumns = 200

// axis is the x axis, which the charts of a section share. A column stands for one sample, or for several neighbouring ones.
type axis struct {
	spans [][2]int  // of samples, by column
	at    []float64 // 0..1, by column

	At, Label string // the same for the page's readout, in permille and in words
	End       string // how many steps there are, and the last: a browser goes on from there
	Ticks     []tick
}

// stepsAxis puts the steps side by side, each in the middle of its own room, so that bars and lines stand above each other.
func stepsAxis(steps []int) *axis {
	n := len(steps)
	columns := min(n, mostColumns)
	a := &axis{End: fmt.Sprint(n, " ", steps[n-1])}
	for i := range columns {
		a.add([2]int{i * n / columns, (i + 1) * n / columns}, (float64(i)+0.5)/float64(columns), steps)
	}
	for _, i := range marks(n) {
		a.Ticks = append(a.Ticks, tick{At: percentAt((float64(i) + 0.5) / float64(n)), Label: grouped(int64(steps[i]))})
	}
	return a.finish()
}

// evalsAxis puts evaluations where their steps are.
func evalsAxis(steps []int) *axis {
	n := len(steps)
	columns := min(n, mostColumns)
	first, last := float64(steps[0]), float64(steps[n-1])
	place := func(i int) float64 {
		if first == last {
			return 0.5
		}
		return 0.02 + 0.96*(float64(steps[i])-first)/(last-first)
	}
	a := &axis{}
	for i := range columns {
		span := [2]int{i * n / columns, (i + 1) * n / columns}
		a.add(span, (place(span[0])+place(span[1]-1))/2, steps)
	}
	named := []int{0}
	for _, i := range marks(n)[1:] { // those that are too close to be read make room: the first and the last stay
		for len(named) > 1 && place(i)-place(named[len(named)-1]) < legible {
			named = named[:len(named)-1]
		}
		if place(i)-place(0) >= legible {
			named = append(named, i)
		}
	}
	for _, i := range named {
		a.Ticks = append(a.Ticks, tick{At: percentAt(place(i)), Label: grouped(int64(steps[i]))})
	}
	return a.finish()
}

// legible is the least distance between two names below a chart, as a share of the axis.
const legible = 0.09

func (a *axis) add(span [2]int, at float64, steps []int) {
	a.spans, a.at = append(a.spans, span), append(a.at, at)
	label := strconv.Itoa(steps[span[0]])
	if span[1]-span[0] > 1 {
		label += "–" + strconv.Itoa(steps[span[1]-1])
	}
	a.Label += label + " "
	a.At += permille(at) + " "
}

func (a *axis) finish() *axis {
	a.Label, a.At = strings.TrimSpace(a.Label), strings.TrimSpace(a.At)
	return a
}

// marks chooses a few of n samples to name below a chart.
func marks(n int) []int {
	const most = 5
	if n <= most+2 {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	var some []int
	for i := range most {
		some = append(some, i*(n-1)/(most-1))
	}
	return some
}

// columns gathers the samples of a series.
func (a *axis) columns(values []float64) []column {
	out := make([]column, len(a.spans))
	for i, span := range a.spans {
		out[i] = gather(values[span[0]:span[1]])
	}
	return out
}

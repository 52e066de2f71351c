package curve

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// mostColumns limits the points of a chart: with more samples, several share a column.
const mostColumns = 200

// Axis is the x axis, shared by the charts of a section. A column stands for one sample, or for several consecutive ones.
type Axis struct {
	Spans  [][2]int  // ranges of samples, by column
	Places []float64 // 0..1, by column

	At, Label string // the same for the page's readout, in permille and as text
	End       string // the number of steps, and the last one, where a browser continues
	Ticks     []Tick
}

// Evenly places steps side by side, each in the middle of its space, so that bars and lines align.
func Evenly(steps []int) *Axis {
	n := len(steps)
	columns := min(n, mostColumns)
	a := &Axis{End: fmt.Sprint(n, " ", steps[n-1])}
	for i := range columns {
		a.add([2]int{i * n / columns, (i + 1) * n / columns}, (float64(i)+0.5)/float64(columns), steps)
	}
	for _, i := range marks(n) {
		a.Ticks = append(a.Ticks, Tick{At: Percent((float64(i) + 0.5) / float64(n)), Label: display.Grouped(int64(steps[i]))})
	}
	return a.finish()
}

// ByStep places evaluations in proportion to their steps.
func ByStep(steps []int) *Axis {
	n := len(steps)
	columns := min(n, mostColumns)
	first, last := float64(steps[0]), float64(steps[n-1])
	place := func(i int) float64 {
		if first == last {
			return 0.5
		}
		return 0.02 + 0.96*(float64(steps[i])-first)/(last-first)
	}
	a := &Axis{}
	for i := range columns {
		span := [2]int{i * n / columns, (i + 1) * n / columns}
		a.add(span, (place(span[0])+place(span[1]-1))/2, steps)
	}
	named := []int{0}
	for _, i := range marks(n)[1:] { // labels that are too close are dropped, except the first and the last
		for len(named) > 1 && place(i)-place(named[len(named)-1]) < legible {
			named = named[:len(named)-1]
		}
		if place(i)-place(0) >= legible {
			named = append(named, i)
		}
	}
	for _, i := range named {
		a.Ticks = append(a.Ticks, Tick{At: Percent(place(i)), Label: display.Grouped(int64(steps[i]))})
	}
	return a.finish()
}

// legible is the least distance of two labels, as a share of the axis.
const legible = 0.09

func (a *Axis) add(span [2]int, at float64, steps []int) {
	a.Spans, a.Places = append(a.Spans, span), append(a.Places, at)
	label := strconv.Itoa(steps[span[0]])
	if span[1]-span[0] > 1 {
		label += "–" + strconv.Itoa(steps[span[1]-1])
	}
	a.Label += label + " "
	a.At += Permille(at) + " "
}

func (a *Axis) finish() *Axis {
	a.Label, a.At = strings.TrimSpace(a.Label), strings.TrimSpace(a.At)
	return a
}

// marks chooses a few of n samples to label.
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

// Columns makes the columns of a series.
func (a *Axis) Columns(values []float64) []Column {
	out := make([]Column, len(a.Spans))
	for i, span := range a.Spans {
		out[i] = Gather(values[span[0]:span[1]])
	}
	return out
}

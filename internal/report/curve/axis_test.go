package curve

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/stats"
)

func TestColumnsKeepExtremes(t *testing.T) {
	steps, values := make([]int, 1003), make([]float64, 1003)
	for i := range steps {
		steps[i], values[i] = i+1, math.Sin(float64(i))
	}
	values[500] = nan
	a := Evenly(steps)
	columns := a.Columns(values)
	require.Len(t, columns, mostColumns)
	seen := 0
	for i, c := range columns {
		var held []float64
		for _, v := range values[a.Spans[i][0]:a.Spans[i][1]] {
			seen++
			if v == v {
				held = append(held, v)
			}
		}
		low, high := slices.Min(held), slices.Max(held)
		require.Equal(t, low, c.Low)
		require.Equal(t, high, c.High)
		require.InDelta(t, stats.Mean(held), c.Mean, 1e-12)
		require.Equal(t, slices.Index(held, high) < slices.Index(held, low), c.Falls)
	}
	require.Equal(t, len(values), seen, "every value is in exactly one column")
	require.True(t, math.IsNaN(Gather([]float64{nan}).Mean))

	// A moving average of a straight line is the line, to its ends.
	line := make([]Column, 60)
	for i := range line {
		line[i] = Column{Mean: 3 + 2*float64(i)}
	}
	for i, v := range Smooth(line) {
		require.InDelta(t, 3+2*float64(i), v, 1e-9)
	}
}

// Labels below a chart do not overlap; the last one is kept.
func TestNamesBelowAChartKeepApart(t *testing.T) {
	var names []string
	for _, x := range ByStep([]int{0, 1, 2, 3, 4, 500}).Ticks {
		names = append(names, x.At+" "+x.Label)
	}
	require.Equal(t, []string{"2.0 0", "98.0 500"}, names)
	require.Len(t, ByStep([]int{0, 20, 40, 60, 80, 100, 120}).Ticks, 7)
	require.Equal(t, []Tick{{"50.0", "7"}}, ByStep([]int{7}).Ticks)
}

// A column is labelled with its steps.
func TestNamesOfColumns(t *testing.T) {
	steps := make([]int, 2*mostColumns)
	for i := range steps {
		steps[i] = i + 1
	}
	require.True(t, strings.HasPrefix(Evenly(steps).Label, "1–2 3–4 "))
	require.True(t, strings.HasPrefix(Evenly(steps[1:]).Label, "2 3–4 "))
	require.Equal(t, "7", ByStep([]int{7}).Label)
}

// A single interval is wide enough to be seen; one with an unknown end is not drawn.
func TestIntervalsOnTheirOwn(t *testing.T) {
	known := func(v float64) Column { return Column{Mean: v, Low: v, High: v} }
	columns := func(v, middle float64) []Column { return []Column{known(v), known(middle), known(v)} }
	for _, ends := range [][2][]Column{{columns(0, nan), columns(1, 1)}, {columns(0, 0), columns(1, nan)}} {
		require.Equal(t, "M-4 0 4 0 4 1000 -4 1000zM996 0 1004 0 1004 1000 996 1000z",
			Band([]float64{0, 0.5, 1}, ends[0], ends[1], Linear(0, 1)))
	}
}

// A moving average bridges a short gap, and ends with the values.
func TestAMovingAverageEndsWithItsValues(t *testing.T) {
	columns := make([]Column, 60)
	for i := range columns {
		v := float64(i)
		if i == 10 || i >= 25 && i < 40 || i >= 58 {
			v = nan
		}
		columns[i] = Column{Mean: v, Low: v, High: v}
	}
	for i, v := range Smooth(columns) {
		if i >= 25 && i < 40 || i >= 58 {
			require.True(t, v != v, "%d: %v where nothing is known", i, v)
			continue
		}
		require.InDelta(t, i, v, 1e-9)
	}
}

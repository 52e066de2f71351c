package report

import (
	"math"
	"strconv"
	"strings"
)

// mostColumns bounds the points of a chart: where there are more samples, several share a column.
const mostColumns = 200

// axis is the x axis, which the charts of a section share. A column stands for one sample, or for several
// neighbouring ones.
type axis struct {
	spans [][2]int  // of samples, by column
	at    []float64 // 0..1, by column

	At, Label string // the same for the page's readout, in permille and in words
	Ticks     []tick
}

// tick is a mark beside a chart.
type tick struct {
	At    string // percent
	Label string
}

// stepsAxis puts the steps side by side, each in the middle of its own room, so that bars and lines
// stand above each other.
func stepsAxis(steps []int) *axis {
	n := len(steps)
	columns := min(n, mostColumns)
	a := &axis{}
	for i := range columns {
		a.add([2]int{i * n / columns, (i + 1) * n / columns}, (float64(i)+0.5)/float64(columns), steps)
	}
	for _, i := range marks(n) {
		a.Ticks = append(a.Ticks, tick{percentAt((float64(i) + 0.5) / float64(n)), grouped(int64(steps[i]))})
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
		a.Ticks = append(a.Ticks, tick{percentAt(place(i)), grouped(int64(steps[i]))})
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

// column is what a series has in one column: NaN where nothing is known.
type column struct {
	mean, low, high float64
	falls           bool // the highest came before the lowest
}

// columns gathers the samples of a series.
func (a *axis) columns(values []float64) []column {
	out := make([]column, len(a.spans))
	for i, span := range a.spans {
		out[i] = gather(values[span[0]:span[1]])
	}
	return out
}

func gather(values []float64) column {
	c := column{mean: nan, low: nan, high: nan}
	sum, n := 0.0, 0.0
	for _, v := range values {
		if v != v {
			continue
		}
		sum, n = sum+v, n+1
		if !(v >= c.low) {
			c.low, c.falls = v, true
		}
		if !(v <= c.high) {
			c.high, c.falls = v, false
		}
	}
	if n > 0 {
		c.mean = sum / n
	}
	if c.low == c.high {
		c.mean = c.low // a mean would round
	}
	return c
}

// smooth is a moving average: the value at the centre of a line fitted through each window. In a symmetric
// window that is the mean; near the ends, where the window is lopsided, it does not lag behind a slope. It goes on over
// a gap that has something on both sides in its window, and ends where nothing more was measured.
func smooth(columns []column) []float64 {
	reach := len(columns) / 15
	out := make([]float64, len(columns))
	for i := range columns {
		var n, x, y, xx, xy float64 // sums over the window, x counted from i
		left, right := false, false
		for k := max(0, i-reach); k < min(len(columns), i+reach+1); k++ {
			if v := columns[k].mean; v == v {
				at := float64(k - i)
				n, x, y, xx, xy = n+1, x+at, y+v, xx+at*at, xy+at*v
				left, right = left || k <= i, right || k >= i
			}
		}
		if out[i] = nan; !left || !right {
			continue
		}
		out[i] = y / n
		if spread := n*xx - x*x; spread > 0 {
			out[i] = (xx*y - x*xy) / spread
		}
	}
	return out
}

// scale maps values to 0 (top) .. 1 (bottom), as pixels run.
type scale struct {
	low, high float64
	log       bool
	Ticks     []tick
}

func (s *scale) place(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log10(math.Max(v, low)), math.Log10(low), math.Log10(high)
	}
	return min(max((high-v)/(high-low), -0.02), 1.02)
}

// linear gives a scale with round ticks that holds low and high.
func linear(low, high float64) *scale {
	if low > 0 && low < high*0.6 {
		low = 0
	}
	if high < 0 && high > low*0.6 {
		high = 0
	}
	if low == high {
		low, high = low-math.Max(math.Abs(low), 1)/2, high+math.Max(math.Abs(high), 1)/2
	}
	if span := high - low; !(span > 1e-300 && span < 1e300) {
		low, high = 0, 1 // beyond drawing
	}
	stride := roundUp((high - low) / 5)
	s := &scale{low: math.Floor(low/stride+1e-9) * stride, high: math.Ceil(high/stride-1e-9) * stride}
	for i := range int(math.Round((s.high-s.low)/stride)) + 1 {
		v := s.low + float64(i)*stride
		s.Ticks = append(s.Ticks, tick{percentAt(s.place(v)), tickLabel(v, stride, max(-s.low, s.high))})
	}
	return s
}

// logarithmic gives a scale of whole decades that holds low and high, which are positive.
func logarithmic(low, high float64) *scale {
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	s := &scale{low: math.Pow(10, from), high: math.Pow(10, to), log: true}
	every := math.Ceil((to - from) / 5)
	for e := from; e <= to; e += every {
		v := math.Pow(10, e)
		s.Ticks = append(s.Ticks, tick{percentAt(s.place(v)), tickLabel(v, v, v)})
	}
	return s
}

// roundUp is the next of 1, 2, 5 times a power of ten.
func roundUp(v float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*ten*(1+1e-9) {
			return m * ten
		}
	}
	return 10 * ten
}

// tickLabel writes a round number with the digits that its stride asks for, in the unit that suits the most of its scale.
func tickLabel(v, stride, most float64) string {
	switch a := math.Max(math.Abs(v), stride); {
	case math.Abs(v) < stride/2:
		return "0"
	case most >= 1e9 || a < 1e-2 && stride < 1e-4:
		return tidy(strconv.FormatFloat(v, 'g', 3, 64))
	case most >= 1e6:
		return tidy(strconv.FormatFloat(v/1e6, 'g', 4, 64)) + "M"
	case most >= 1e4:
		return tidy(strconv.FormatFloat(v/1e3, 'g', 4, 64)) + "k"
	case stride >= 1:
		return grouped(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'f', max(0, int(-math.Floor(math.Log10(stride)+1e-9))), 64)
}

func permille(x float64) string { return strconv.Itoa(int(math.Round(1000 * x))) }

// percentAt is a position as CSS takes it, in percent.
func percentAt(x float64) string {
	return strconv.FormatFloat(float64(int(math.Round(1000*x)))/10, 'f', 1, 64) // an int has no −0
}

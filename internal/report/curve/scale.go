package curve

import (
	"math"
	"strconv"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// Tick is a mark on an axis.
type Tick struct {
	At    string // percent
	Label string
}

// Scale maps values to 0 (top) .. 1 (bottom), as SVG does.
type Scale struct {
	low, high float64
	log       bool
	Ticks     []Tick
}

func (s *Scale) Place(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log10(math.Max(v, low)), math.Log10(low), math.Log10(high)
	}
	return min(max((high-v)/(high-low), -0.02), 1.02)
}

// Span describes the scale to a browser that continues a chart: its ends, and whether it is logarithmic.
func (s *Scale) Span() string {
	span := strconv.FormatFloat(s.low, 'g', -1, 64) + " " + strconv.FormatFloat(s.high, 'g', -1, 64)
	if s.log {
		span += " log"
	}
	return span
}

// Linear is a scale with round ticks that includes low and high.
func Linear(low, high float64) *Scale {
	if low > 0 && low < high*0.6 {
		low = 0
	}
	if high < 0 && high > low*0.6 {
		high = 0
	}
	if high-low <= 1e-12*max(math.Abs(low), math.Abs(high)) { // equal but for rounding
		low, high = low-math.Max(math.Abs(low), 1)/2, high+math.Max(math.Abs(high), 1)/2
	}
	if span := high - low; !(span > 1e-300 && span < 1e300) {
		low, high = 0, 1 // not finite: cannot be drawn
	}
	stride := roundUp((high - low) / 5)
	s := &Scale{low: math.Floor(low/stride+1e-9) * stride, high: math.Ceil(high/stride-1e-9) * stride}
	for i := range int(math.Round((s.high-s.low)/stride)) + 1 {
		v := s.low + float64(i)*stride
		s.Ticks = append(s.Ticks, Tick{Percent(s.Place(v)), tickLabel(v, stride, max(-s.low, s.high))})
	}
	return s
}

// Logarithmic is a scale of whole decades that includes low and high, which are positive.
func Logarithmic(low, high float64) *Scale {
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	s := &Scale{low: math.Pow(10, from), high: math.Pow(10, to), log: true}
	every := math.Ceil((to - from) / 5)
	for e := from; e <= to; e += every {
		v := math.Pow(10, e)
		s.Ticks = append(s.Ticks, Tick{Percent(s.Place(v)), tickLabel(v, v, v)})
	}
	return s
}

// roundUp rounds up to 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*ten*(1+1e-9) {
			return m * ten
		}
	}
	return 10 * ten
}

// tickLabel formats a round number with the digits that its stride needs, in a unit that suits the largest value of the scale.
func tickLabel(v, stride, most float64) string {
	switch a := math.Max(math.Abs(v), stride); {
	case math.Abs(v) < stride/2:
		return "0"
	case most >= 1e9 || a < 1e-2 && stride < 1e-4:
		return display.TrimExponent(strconv.FormatFloat(v, 'g', 3, 64))
	case most >= 1e6:
		return display.TrimExponent(strconv.FormatFloat(v/1e6, 'g', 4, 64)) + "M"
	case most >= 1e4:
		return display.TrimExponent(strconv.FormatFloat(v/1e3, 'g', 4, 64)) + "k"
	case stride >= 1:
		return display.Grouped(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'f', max(0, int(-math.Floor(math.Log10(stride)+1e-9))), 64)
}

// Permille formats a position for a path.
func Permille(x float64) string { return strconv.Itoa(int(math.Round(1000 * x))) }

// Percent formats a position for CSS.
func Percent(x float64) string {
	return strconv.FormatFloat(float64(int(math.Round(1000*x)))/10, 'f', 1, 64) // int has no negative zero
}

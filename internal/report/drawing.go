package report

import "github.com/seed-7879b91d/grpo/internal/report/curve"

// What is drawn with.
type (
	axis   = curve.Axis
	tick   = curve.Tick
	scale  = curve.Scale
	column = curve.Column
)

var (
	evenly, byStep                           = curve.Evenly, curve.ByStep
	linear, logarithmic, permille, percentAt = curve.Linear, curve.Logarithmic, curve.Permille, curve.Percent
	trace, extent, band, dots, smooth        = curve.Trace, curve.Extent, curve.Band, curve.Dots, curve.Smooth
)

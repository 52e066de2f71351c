package kernels

// Peak is what a device reaches at best, a second.
type Peak struct {
	Flops    float64 // fused multiply-adds of float32, two flops each
	Products float64 // the same of products of bf16 numbers with bf16 weights
	Mixed    float64 // and of float32 numbers with bf16 weights; where a backend does not say, Flops
	Bytes    float64 // read from memory
}

// Prober is what a backend may measure of its device.
type Prober interface {
	// Peak takes a few tenths of a second, in which nothing else should run.
	Peak() Peak
}

// PeakOf asks a backend for its peak; false where it tells none.
func PeakOf(b Backend) (Peak, bool) {
	begin(b, "Peak")
	p, ok := inside(b).(Prober)
	if !ok {
		return Peak{}, false
	}
	peak := p.Peak()
	if peak.Mixed == 0 {
		peak.Mixed = peak.Flops
	}
	return peak, true
}

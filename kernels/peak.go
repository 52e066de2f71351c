package kernels

// Peak is the measured peak performance of a device, per second.
type Peak struct {
	Flops    float64 // of float32 fused multiply-adds, two flops each
	Products float64 // of products of bf16 numbers with bf16 weights
	Mixed    float64 // of products of float32 numbers with bf16 weights; if not measured, Flops
	Bytes    float64 // read from memory
}

// Prober is a backend that can measure the peak performance of its device.
type Prober interface {
	// Peak takes a few tenths of a second, in which nothing else should run.
	Peak() Peak
}

// PeakOf measures the peak performance of a backend; false if it is no Prober.
func PeakOf(b Backend) (Peak, bool) {
	begin(b, "Peak")
	p, ok := unwrap(b).(Prober)
	if !ok {
		return Peak{}, false
	}
	peak := p.Peak()
	if peak.Mixed == 0 {
		peak.Mixed = peak.Flops
	}
	return peak, true
}

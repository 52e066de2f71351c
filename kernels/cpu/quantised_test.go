package cpu

import (
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/misuse"
)

// A weight takes four bits, and 1/64 of a scale of 32 bits: 0.5625 bytes, and nothing more for the shapes of models. The size is known
// before the matrix is made.
func TestQuantisedMatricesAreSmall(t *testing.T) {
	part := func(rows, cols int) kernels.Quantised {
		n := rows * cols
		return kernels.Quantised{Rows: rows, Cols: cols, Block: 64, Codes: make([]byte, n/2), Scales: make([]float32, n/64)}
	}
	b := open(t, Options{})
	parts := []kernels.Quantised{part(512, 896), part(128, 896), part(128, 896)}
	m, err := kernels.NewQuantised(b, kernels.BF16, parts...)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.Bytes(), 768*896*9/16+64; got != want {
		t.Errorf("%d bytes, expected %d", got, want)
	}
	ledger := kernels.NewLedger(b)
	planned, err := kernels.NewQuantised(ledger, kernels.BF16, parts...)
	if err != nil {
		t.Fatal(err)
	}
	if bytes, _ := ledger.Take(); bytes != m.Bytes() || planned.Rows() != 768 || planned.Cols() != 896 {
		t.Errorf("planned: %d bytes for %d × %d, expected %d", bytes, planned.Rows(), planned.Cols(), m.Bytes())
	}

	other := part(128, 896)
	other.Values[3] = 1
	if m, err = kernels.NewQuantised(b, kernels.BF16, parts[0], other); err != nil || m.Bytes() < 2*640*896*3/4 {
		t.Errorf("parts with different values are kept in %d bytes (%v), expected a matrix of bf16", m.Bytes(), err)
	}
}

// Nothing follows Close, also where an operation is a function.
func TestClosed(t *testing.T) {
	b, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	misuse.Refused(t, "kernels: Peak: the backend is closed", func() { kernels.PeakOf(b) })
	q := kernels.Quantised{Rows: 1, Cols: 64, Codes: make([]byte, 32), Scales: make([]float32, 1), Block: 64}
	misuse.Refused(t, "kernels: NewQuantised: the backend is closed", func() { _, _ = kernels.NewQuantised(b, kernels.BF16, q) })
}

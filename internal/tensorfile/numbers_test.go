package tensorfile

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

var allEncodings = []kernels.Encoding{kernels.EncodedBF16, kernels.EncodedF16, kernels.EncodedF32}

// exact16 is the value of a finite 16-bit number, from its definition.
func exact16(h uint16, fraction, smallest int) float64 {
	f, e := int(h)&(1<<fraction-1), int(h&0x7FFF)>>fraction
	x := math.Ldexp(float64(f), smallest-fraction)
	if e > 0 {
		x = math.Ldexp(float64(1<<fraction+f), smallest+e-1-fraction)
	}
	if h&0x8000 != 0 {
		return -x
	}
	return x
}

var formats = map[kernels.Encoding]struct{ fraction, smallest int }{
	kernels.EncodedBF16: {7, -126},
	kernels.EncodedF16:  {10, -14},
}

// Every 16-bit number has the value that its format defines, and is encoded to the same bits.
func TestWidenEvery16BitNumber(t *testing.T) {
	for enc, f := range formats {
		infinity := uint16(1-2*f.smallest+2) << f.fraction
		for i := range 1 << 16 {
			h, back := uint16(i), make([]byte, 2)
			x := decode(enc, []byte{byte(h), byte(h >> 8)})
			Narrow(back, enc, []float64{float64(x)})
			got := uint16(back[0]) | uint16(back[1])<<8
			switch magnitude := h & 0x7FFF; {
			case magnitude > infinity:
				if x == x || got&0x7FFF <= infinity {
					t.Fatalf("encoding %d: %#04x is NaN; widened to %v, narrowed to %#04x", enc, h, x, got)
				}
				continue
			case magnitude == infinity:
				if !math.IsInf(float64(x), 1-2*int(h>>15)) {
					t.Fatalf("encoding %d: %#04x is infinite, widened to %v", enc, h, x)
				}
			default:
				if want := exact16(h, f.fraction, f.smallest); float64(x) != want || math.Signbit(want) != math.Signbit(float64(x)) {
					t.Fatalf("encoding %d: %#04x widened to %v, expected %v", enc, h, x, want)
				}
			}
			if got != h {
				t.Fatalf("encoding %d: %#04x came back as %#04x", enc, h, got)
			}
		}
	}
}

// Numbers between two neighbours, ties and near ties included, round to the nearer one, or to even.
func TestNarrowRoundsToNearestEven(t *testing.T) {
	for enc, f := range formats {
		largest := uint16(1-2*f.smallest+2)<<f.fraction - 1
		for h := uint16(0); h <= largest; h++ {
			low := exact16(h, f.fraction, f.smallest)
			// The next number after the largest is the value that infinity's pattern would have.
			high := exact16(h+1, f.fraction, f.smallest)
			middle := (low + high) / 2
			even := h + h&1
			for _, c := range []struct {
				x    float64
				want uint16
			}{
				{math.Nextafter(low, high), h}, {math.Nextafter(middle, low), h}, {middle, even},
				{math.Nextafter(middle, high), h + 1}, {math.Nextafter(high, low), h + 1},
			} {
				if got := round16(c.x, f.fraction, f.smallest); got != c.want {
					t.Fatalf("encoding %d: %v rounded to %#04x, expected %#04x", enc, c.x, got, c.want)
				}
				if got := round16(-c.x, f.fraction, f.smallest); got != c.want|0x8000 {
					t.Fatalf("encoding %d: %v rounded to %#04x, expected %#04x", enc, -c.x, got, c.want|0x8000)
				}
			}
		}
	}
}

// Rounding from 64 bits directly differs from rounding to 32 bits first.
func TestNarrowRoundsOnce(t *testing.T) {
	x := 1 + 0x1p-8 + 0x1p-40 // just above the middle of two bf16 numbers; 32 bits lose the last term
	if got := round16(x, 7, -126); got != 0x3F81 {
		t.Errorf("%v rounded to %#04x, expected 0x3f81", x, got)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		x := math.Ldexp(r.Float64()*2-1, r.IntN(290)-150)
		// math/big rounds to 8 bits, as bf16's normal numbers do.
		want, _ := new(big.Float).SetPrec(8).SetMode(big.ToNearestEven).SetFloat64(x).Float64()
		if math.Abs(want) < 0x1p-126 || math.Abs(want) >= 0x1p128 {
			continue
		}
		if got := round16(x, 7, -126); exact16(got, 7, -126) != want {
			t.Fatalf("%v rounded to %#04x = %v, expected %v", x, got, exact16(got, 7, -126), want)
		}
	}
}

// A non-finite element is found anywhere, in every encoding; extreme finite ones are accepted.
func TestCheckFinite(t *testing.T) {
	extremes := map[kernels.Encoding][]float64{
		kernels.EncodedBF16: {0x1.FEp127, -0x1.FEp127, 0x1p-133, 0, math.Copysign(0, -1)},
		kernels.EncodedF16:  {65504, -65504, 0x1p-24, 0, math.Copysign(0, -1)},
		kernels.EncodedF32:  {math.MaxFloat32, -math.MaxFloat32, 0x1p-149, 0, math.Copysign(0, -1)},
	}
	for _, enc := range allEncodings {
		for _, n := range []int{1, 2, 3, 15, 16, 17, 100, 40_000} {
			values := make([]float64, n)
			for i := range values { // only the largest, or all of them
				values[i] = extremes[enc][i%(1+n%2*4)]
			}
			b := make([]byte, n*enc.Size())
			Narrow(b, enc, values)
			tensor := Tensor{Name: "w", File: "m.safetensors", Encoding: enc, Shape: []int{n}, Bytes: b}
			if err := CheckFinite(tensor); err != nil {
				t.Fatalf("encoding %d, %d elements: %v", enc, n, err)
			}
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				for at := range n {
					if n > 100 && at%997 != 0 {
						continue
					}
					Narrow(b[at*enc.Size():], enc, []float64{bad})
					err := CheckFinite(tensor)
					if err == nil || !badinput.Is(err) ||
						!strings.Contains(err.Error(), `m.safetensors: tensor "w": element `+strconv.Itoa(at)+" is ") {
						t.Fatalf("encoding %d, %d elements, %v at %d: got %v", enc, n, bad, at, err)
					}
					Narrow(b[at*enc.Size():], enc, values[at:at+1])
				}
			}
		}
	}
}

func BenchmarkCheckFinite(b *testing.B) {
	t := Tensor{Encoding: kernels.EncodedBF16, Bytes: make([]byte, 64<<20)}
	b.SetBytes(int64(len(t.Bytes)))
	for b.Loop() {
		if CheckFinite(t) != nil {
			b.Fatal("zeros are finite")
		}
	}
}

func BenchmarkNarrowBF16(b *testing.B) {
	src, dst := make([]float64, 1<<16), make([]byte, 1<<17)
	for i := range src {
		src[i] = math.Sin(float64(i))
	}
	b.SetBytes(int64(len(dst)))
	for b.Loop() {
		Narrow(dst, kernels.EncodedBF16, src)
	}
}

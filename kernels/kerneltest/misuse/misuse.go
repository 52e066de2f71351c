// Package misuse makes the mistakes that a caller of a kernels.Backend can make: every operand of every operation
// missing, too short or of another type, every size below its minimum, and mistakes that concern a single operation.
// All backends must panic at the call, with the same message.
package misuse

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Test makes all mistakes on b. No operation of the contract may be missing here.
func Test(t *testing.T, b kernels.Backend) {
	tested := map[string]bool{"Name": true, "Order": true, "Sync": true, "Close": true, "Free": true, "CacheBlock": true}
	for op, run := range calls {
		tested[op] = true
		testOperands(t, b, op, run)
	}
	for _, m := range mistakes(memory{b}) {
		Refused(t, "kernels: "+m.message, m.call)
		op, _, _ := strings.Cut(m.message, ":")
		tested[op] = true
	}
	for op := range reflect.TypeFor[kernels.Backend]().Methods() {
		if !tested[op.Name] {
			t.Errorf("no wrong call of %s is tested", op.Name)
		}
	}
	testForeign(t, memory{b})
	if err := b.Sync(); err != nil {
		t.Errorf("after the mistakes: %v", err)
	}
}

// testOperands runs an operation once for each possible mistake in an operand, and finally without any.
func testOperands(t *testing.T, b kernels.Backend, op string, run func(c *call)) {
	for turn := 0; ; turn++ {
		c := &call{memory: memory{b}, turn: turn}
		got := panicMessage(func() { run(c) })
		if c.message == "" {
			if got != "" {
				t.Errorf("a right call of %s panicked with %q", op, got)
			}
			return
		}
		if want := fmt.Sprintf("kernels: %s: %s", op, c.message); got != want {
			t.Errorf("panicked with %q, expected %q", got, want)
		}
	}
}

// panicMessage is the message with which a call panics.
func panicMessage(run func()) (message string) {
	defer func() {
		if r := recover(); r != nil {
			message = fmt.Sprint(r)
		}
	}()
	run()
	return ""
}

// Refused requires that a call panics with this message.
func Refused(t *testing.T, want string, run func()) {
	t.Helper()
	if got := panicMessage(run); got != want {
		t.Errorf("panicked with %q, expected %q", got, want)
	}
}

// call makes the operands of one call, with the mistake whose turn it is.
type call struct {
	memory
	turn    int    // how many mistakes come before it
	message string // of the panic; "" if all operands are right
}

// mistake sets the message if it is the turn of this mistake.
func (c *call) mistake(format string, args ...any) bool {
	c.turn--
	if c.turn == -1 {
		c.message = fmt.Sprintf(format, args...)
	}
	return c.turn == -1
}

func (c *call) size(name string, n, least int) int {
	if c.mistake("%s is %d, expected at least %d", name, least-1, least) {
		return least - 1
	}
	return n
}

func (c *call) buffer(name string, t kernels.DType, least, n int) kernels.Buffer {
	if c.mistake("%s is nil, expected %v [%d]", name, t, least) {
		return nil
	}
	return c.optional(name, t, least, n)
}

// optional is a buffer that may be nil.
func (c *call) optional(name string, t kernels.DType, least, n int) kernels.Buffer {
	other := kernels.F32
	if t == kernels.F32 {
		other = kernels.I32
	}
	if c.mistake("%s is %v [%d], expected %v [%d]", name, other, n, t, least) {
		return c.zeros(other, n)
	}
	if least > 0 && c.mistake("%s is %v [%d], expected %v [%d]", name, t, least-1, t, least) {
		return c.zeros(t, least-1)
	}
	if c.mistake("%s has been released", name) {
		b := c.zeros(t, n)
		c.Release(b)
		return b
	}
	return c.zeros(t, n)
}

func (c *call) floats(name string, n int) kernels.Buffer { return c.buffer(name, kernels.F32, n, n) }

func (c *call) doubles(name string, n int) kernels.Buffer { return c.buffer(name, kernels.F64, n, n) }

func (c *call) ints(name string, values ...int32) kernels.Buffer {
	b := c.buffer(name, kernels.I32, len(values), len(values))
	if c.message == "" {
		c.Upload(b, values)
	}
	return b
}

// cols is a window of n columns over T rows.
func (c *call) cols(name string, n int) kernels.Cols {
	w := kernels.Cols{Stride: n + 1, From: 1, N: n}
	if c.mistake("%s is columns [2, %d) of %d, expected %d columns inside the row", name, n+2, n+1, n) {
		w.From = 2
	}
	w.Buf = c.floats(name, T*(n+1))
	return w
}

func (c *call) weight(name string, t kernels.DType) kernels.Matrix {
	if c.mistake("%s is nil", name) {
		return nil
	}
	return c.matrix(t)
}

func (c *call) heads() kernels.Heads {
	for _, h := range []kernels.Heads{{Q: 0, KV: 1, Dim: 2}, {Q: 1, KV: 0, Dim: 2}, {Q: 3, KV: 2, Dim: 2}, {Q: 1, KV: 1, Dim: 3}} {
		if c.mistake("heads are %d queries over %d keys of %d, expected a multiple of the keys and an even size", h.Q, h.KV, h.Dim) {
			return h
		}
	}
	return heads
}

func (c *call) attn() kernels.Attn {
	return kernels.Attn{Heads: c.heads(), Window: c.size("the window", 2, 0), Cap: c.cap()}
}

func (c *call) logits() kernels.Logits { return kernels.Logits{InvTemp: 1, Cap: c.cap()} }

// cap is a cap of scores or logits.
func (c *call) cap() float32 {
	for _, x := range []float32{-1, float32(math.NaN())} {
		if c.mistake("the cap is %g, expected at least 0", x) {
			return x
		}
	}
	return 3
}

// cached is a type of keys and values.
func (c *call) cached() kernels.DType {
	for _, t := range []kernels.DType{kernels.I32, kernels.BF16Rounding} {
		if c.mistake("keys and values are %v, expected f32 or bf16", t) {
			return t
		}
	}
	return kernels.BF16
}

// spans are the spans of one sequence.
func (c *call) spans() kernels.Spans {
	return kernels.Spans{Starts: c.ints("starts", 0, T), N: c.size("the number of spans", 1, 0)}
}

// trees are spans that may have parents.
func (c *call) trees() kernels.Spans {
	s := c.spans()
	s.Parents = c.optional("parents", kernels.I32, 1, 1)
	if c.message == "" {
		c.Upload(s.Parents, []int32{-1})
	}
	return s
}

//go:build gpu

package emu_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const drawnThreads, drawnBlocks, drawnBytes = 256, 4, 4096 // as the probe launches them

// access is what threads do to memory: width bytes at (number × stride + offset) ^ swizzle, within drawnBytes.
type access struct {
	width, stride, offset, swizzle int
	writes                         bool
	every, which                   int // of the threads that do it: number % every == which
	from, to                       int // and from <= number < to
}

func (a access) at(number int) int {
	return ((number*a.stride + a.offset) ^ a.swizzle) & (drawnBytes - a.width)
}

func (a access) by(number int) bool {
	return number%a.every == a.which && number >= a.from && number < a.to
}

func drawnAccess(r *rand.Rand, writes bool) access {
	a := access{width: 4 << r.IntN(3), writes: writes, every: 1, to: drawnThreads * drawnBlocks}
	a.stride = a.width
	if r.IntN(3) == 0 {
		a.stride = []int{0, 4, 8, 16, 20, 32, 260}[r.IntN(7)]
	}
	if r.IntN(4) == 0 {
		a.every = 1 << r.IntN(4)
		a.which = r.IntN(a.every)
	}
	a.offset, a.swizzle = r.IntN(drawnBytes/16)*16, r.IntN(2)*r.IntN(64)*16
	return a
}

// drawnPhases draws the accesses of phases, which barriers separate. They are drawn so that many kernels race and many do not.
func drawnPhases(r *rand.Rand, threads int) (phases [][]access) {
	for range 1 + r.IntN(3) {
		first := drawnAccess(r, r.IntN(2) == 0)
		phase := []access{first}
		switch r.IntN(4) {
		case 0: // the same bytes again
			first.writes = !first.writes
			phase = append(phase, first)
		case 1, 2: // a few more threads, perhaps with their own bytes and the bytes after them
			few := drawnAccess(r, r.IntN(2) == 0)
			few.every, few.which, few.from = 1, 0, r.IntN(threads/4)*4
			few.to = few.from + 1 + r.IntN(4)*r.IntN(2)
			if r.IntN(2) == 0 {
				few.stride, few.offset, few.swizzle = first.stride, first.offset, first.swizzle
			}
			phase = append(phase, few)
		}
		phases = append(phases, phase)
	}
	return phases
}

// raced reports whether two owners touch a byte in one phase, and one of them writes it. owner returns the owner of a thread.
func raced(phase []access, threads int, owner func(number int) int) bool {
	type byteOf struct{ owner, others, writes int } // owner: the first one, counted from 1
	bytes := make([]byteOf, drawnBytes)
	for _, a := range phase {
		for n := range threads {
			for at := a.at(n); a.by(n) && at < a.at(n)+a.width; at++ {
				b := &bytes[at]
				if b.owner == 0 {
					b.owner = owner(n) + 1
				}
				if b.owner != owner(n)+1 {
					b.others++
				}
				if a.writes {
					b.writes++
				}
			}
		}
	}
	for _, b := range bytes {
		if b.others > 0 && b.writes > 0 {
			return true
		}
	}
	return false
}

// drawnPTX is a kernel that makes these accesses to memory whose address is in %rd2.
func drawnPTX(phases [][]access, space, begin string) string {
	var s strings.Builder
	fmt.Fprintf(&s, ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry drawn_wrong(.param .u64 out, .param .u64 in)\n{\n"+
		".reg .pred %%p<2>;\n.reg .b32 %%r<9>;\n.reg .b64 %%rd<5>;\n.shared .align 16 .b8 all[%d];\n"+
		"mov.u32 %%r1, %%tid.x;\n%s", drawnBytes, begin)
	for _, phase := range phases {
		for _, a := range phase {
			fmt.Fprintf(&s, "rem.u32 %%r2, %%r1, %d;\nsetp.eq.u32 %%p1, %%r2, %d;\nsetp.ge.and.u32 %%p1, %%r1, %d, %%p1;\n"+
				"setp.lt.and.u32 %%p1, %%r1, %d, %%p1;\nmad.lo.u32 %%r3, %%r1, %d, %d;\nxor.b32 %%r3, %%r3, %d;\n"+
				"and.b32 %%r3, %%r3, %d;\ncvt.u64.u32 %%rd3, %%r3;\nadd.u64 %%rd3, %%rd3, %%rd2;\n",
				a.every, a.which, a.from, a.to, a.stride, a.offset, a.swizzle, drawnBytes-a.width)
			vector := map[int]string{4: "", 8: ".v2", 16: ".v4"}[a.width]
			values := map[int]string{4: "%r1", 8: "{%r1, %r1}", 16: "{%r1, %r1, %r1, %r1}"}[a.width]
			if a.writes {
				fmt.Fprintf(&s, "@%%p1 st.%s%s.b32 [%%rd3], %s;\n", space, vector, values)
			} else {
				values = map[int]string{4: "%r5", 8: "{%r5, %r6}", 16: "{%r5, %r6, %r7, %r8}"}[a.width]
				fmt.Fprintf(&s, "@%%p1 ld.%s%s.b32 %s, [%%rd3];\n", space, vector, values)
			}
		}
		s.WriteString("bar.sync 0;\n")
	}
	s.WriteString("ret;\n}\n")
	return s.String()
}

// Races of random accesses, whole or in parts, adjacent or apart, are reported, and nothing else is.
func TestDrawnRaces(t *testing.T) {
	for space, c := range map[string]struct {
		begin, kind string
		threads     int
		owner       func(number int) int
		together    bool // barriers do not separate owners
	}{
		"shared": {"mov.u64 %rd2, all;\nshl.b32 %r4, %r1, 4;\ncvt.u64.u32 %rd4, %r4;\nadd.u64 %rd4, %rd4, %rd2;\n" +
			"st.shared.v4.b32 [%rd4], {%r1, %r1, %r1, %r1};\nbar.sync 0;\n", "race in shared memory", drawnThreads,
			func(number int) int { return number }, false},
		"global": {"ld.param.u64 %rd2, [in];\nmov.u32 %r4, %ctaid.x;\nmad.lo.u32 %r1, %r4, 256, %r1;\n", "race between blocks",
			drawnThreads * drawnBlocks, func(number int) int { return number / drawnThreads }, true},
	} {
		counts := map[bool]int{}
		for seed := range uint64(120) {
			phases := drawnPhases(rand.New(rand.NewPCG(seed, 1)), c.threads)
			parted := phases
			if c.together {
				parted = [][]access{slices.Concat(phases...)}
			}
			want := slices.ContainsFunc(parted, func(phase []access) bool { return raced(phase, c.threads, c.owner) })
			a := probe(t, write(t, drawnPTX(phases, space, c.begin)), []string{"wrong", "drawn"})
			what := fmt.Sprintf("%s, seed %d: %+v: %s%s", space, seed, phases, a.out, a.stderr)
			if counts[want]++; !want {
				require.Empty(t, a.stderr, what)
				continue
			}
			require.Len(t, a.reports, 1, what)
			require.Equal(t, c.kind, a.reports[0].Kind, what)
		}
		require.Greater(t, min(counts[true], counts[false]), 9, "%s: %v", space, counts)
	}
}

//go:build gpu

package ptxcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	compiled = "../ptx"
	source   = "../src"
)

// usualLive is the most registers of a thread such that 512 threads fit on a multiprocessor. Kernels with more, up to the limit of 255,
// have an entry and a reason here.
const usualLive = 128

var moreLive = map[string]int{
	// 128 threads, and two blocks on a multiprocessor: each thread has 128 or 160 results, and the next factors
	"linear_narrowed_bf16_128x160": 253, "linear_grad_x_narrowed_bf16_128x160": 253,
	"linear_narrowed_bf16_128x128": 248, "linear_grad_x_narrowed_bf16_128x128": 240,

	// A warp keeps all that its rows read, and their sums: a multiprocessor has fewer of these warps, which rarely wait for each other. Some
	// of the registers counted here are parameters, which a card does not keep in registers.
	"attention_bf16_64x128":              176,
	"attention_bf16_64x64":               138,
	"attention_grad_queries_bf16_64x128": 148,
	"attention_grad_keys_bf16_64x128":    219,
	"attention_grad_keys_bf16_64x64":     155,
	"attention_grad_keys_bf16_16x256":    146, // 128 threads and 89 KB of shared memory, so that a multiprocessor has at most two blocks
	"attention_grad_keys_f32_16x256":     129, // likewise, with 71 KB, three
}

// wide are kernels limited by memory: they read and write 16 bytes at a time where they can.
var wide = []string{"add", "adam", "cache_copy", "cache_write_f32", "draw_mask", "draw_partials", "gather",
	"head_grad_logits", "head_weights", "rms_norm", "rms_norm_grad_x", "scale_rows", "swiglu", "swiglu_grad"}

// gradCopies are the 16-byte copies in a gradient of attention, for queries or for keys: the loop over a thread's copies is unrolled.
var gradCopies = map[string]int{"bf16_64x32": 8, "bf16_64x64": 16, "bf16_64x128": 32, "bf16_16x256": 72,
	"f32_16x32": 10, "f32_16x64": 20, "f32_16x128": 40, "f32_16x256": 48}

// kernels are all kernels, by name.
func kernels(t *testing.T) map[string]Kernel {
	t.Helper()
	files, err := filepath.Glob(compiled + "/*.ptx")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string]Kernel{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found, err := Parse(string(text))
		require.NoError(t, err, file)
		for _, k := range found {
			require.NotContains(t, all, k.Name, "the name is in two files")
			all[k.Name] = k
		}
	}
	return all
}

func TestKernelsFit(t *testing.T) {
	for name, k := range kernels(t) {
		require.Equal(t, "7.0", k.Version, name)
		require.Equal(t, "sm_80", k.Target, name)
		require.False(t, k.Local, "%s has numbers in local memory: an array with an index that the compiler does not know?", name)
		require.False(t, k.Calls, "%s calls a function: DEVICE inlines", name)
		require.LessOrEqual(t, k.Live, max(usualLive, moreLive[name]), "%s: registers that live at once", name)
		require.LessOrEqual(t, k.Shared, 48<<10, "%s: bytes of shared memory that a launch need not ask for", name)
		t.Logf("%-24s %4d instructions, %3d registers live, %5d bytes of shared memory", name, k.Instructions, k.Live, k.Shared)
	}
}

func TestKernelsReadWide(t *testing.T) {
	all := kernels(t)
	for _, name := range wide {
		require.Contains(t, all, name)
		require.Positive(t, all[name].Loads[16], "%s: loads of 16 bytes", name)
		require.Positive(t, all[name].Stores[16], "%s: stores of 16 bytes", name)
	}
	for _, name := range []string{"sum_squares", "head_partials", "draw_cuts", "draw_masses", "draw_tops"} {
		require.Positive(t, all[name].Loads[16], "%s: loads of 16 bytes", name)
	}
	for name, k := range all {
		if of, reads := strings.CutSuffix(name, "_bf16"); reads && (slices.Contains(wide, of) || of == "geglu" || of == "geglu_grad") {
			require.Positive(t, k.Loads[8], "%s: loads of four numbers of bf16", name)
			require.Positive(t, k.Stores[16], "%s: stores of 16 bytes", name)
		}
	}
	require.Positive(t, min(all["narrow"].Loads[16], all["narrow"].Stores[8], all["widen"].Loads[8], all["widen"].Stores[16]))
	require.Equal(t, 2*4, all["draw_cuts"].Loads[16], "four loads in flight per thread, in each of two truncations")
	for name, k := range all {
		if strings.HasPrefix(name, "attention_bf16") || strings.HasPrefix(name, "attention_f32") {
			require.GreaterOrEqual(t, k.Loads[16], 3+1, "%s: copies of keys, the first and the next, and of values, and queries", name)
		}
		if tile, of := strings.CutPrefix(strings.Replace(name, "queries", "keys", 1), "attention_grad_keys_"); of {
			require.Contains(t, gradCopies, tile)
			require.Equal(t, gradCopies[tile], k.Loads[16], "%s: copies of its own rows, and of what it reads, the first and the next", name)
		}
	}
}

// Compiling the kernels gives the committed PTX, and every source has its PTX and the other way round.
func TestKernelsAreWhatTheCompilerMakes(t *testing.T) {
	made, err := filepath.Glob(compiled + "/*.ptx")
	require.NoError(t, err)
	files, err := filepath.Glob(source + "/*.cu")
	require.NoError(t, err)
	require.Len(t, made, len(files), "type make ptx, and remove files without a source by hand")
	_, missing := exec.LookPath("clang++-19")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".cu") + ".ptx"
		committed, err := os.ReadFile(filepath.Join(compiled, name))
		require.NoError(t, err, "make ptx")
		if missing != nil {
			continue
		}
		out := filepath.Join(t.TempDir(), name)
		said, err := exec.Command("../../../.ci/ptx", file, out).CombinedOutput()
		require.NoError(t, err, string(said))
		text, err := os.ReadFile(out)
		require.NoError(t, err)
		require.True(t, string(text) == string(committed), "%s is compiled to something else than what is committed: make ptx", file)
	}
	if missing != nil {
		t.Skip("no clang++-19 here: apt-get install clang-19")
	}
}

const start = ".version 7.0\n.target sm_80\n.address_size 64\n"

func parsed(t *testing.T, body string) Kernel {
	t.Helper()
	all, err := Parse(start + ".visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n" + body + "}\n")
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

func TestLiveRegisters(t *testing.T) {
	for what, c := range map[string]struct {
		body string
		want int
	}{
		"one after the other": {"mov.u32 %r1, 1;\nadd.s32 %r2, %r1, 1;\nst.global.u32 [%rd1], %r2;\nret;\n", 3},
		"side by side":        {"mov.u32 %r1, 1;\nmov.u32 %r2, 2;\nadd.s32 %r3, %r1, %r2;\nst.global.u32 [%rd1], %r3;\nret;\n", 4},
		"64 bits are two":     {"mov.f64 %fd1, 0d0000000000000000;\nst.global.f64 [%rd1], %fd1;\nret;\n", 4},
		"predicates are none": {"setp.eq.s32 %p1, 1, 2;\n@%p1 bra $L1;\nret;\n$L1:\nret;\n", 0},
		"a vector is its parts": {"ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];\n" +
			"st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};\nret;\n", 6},
		"a loop keeps what it had": {"mov.u32 %r1, 1;\nmov.u32 %r2, 2;\n$L1:\n" +
			"add.s32 %r3, %r2, 1;\nsetp.lt.s32 %p1, %r3, %r1;\n@%p1 bra $L1;\nret;\n", 3},
		"perhaps written": {"mov.u32 %r1, 1;\nmov.u32 %r2, 2;\n" +
			"@%p1 mov.u32 %r1, 3;\nadd.s32 %r3, %r1, %r2;\nst.global.u32 [%rd1], %r3;\nret;\n", 4},
		"nobody reads it": {"mov.u32 %r1, 1;\nmov.u32 %r2, 2;\nret;\n", 1},
	} {
		require.Equal(t, c.want, parsed(t, c.body).Live, what)
	}
}

func TestWhatIsSeen(t *testing.T) {
	require.True(t, parsed(t, "\t.local .align 4 .b8 \t__local_depot0[64];\nret;\n").Local)
	require.True(t, parsed(t, "call.uni f, ();\nret;\n").Calls)
	k := parsed(t, ".shared .align 4 .b8 all[1024];\n.shared .align 4 .b8 more[24];\nld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];\n"+
		"ld.global.nc.u16 %rs1, [%rd1];\nld.global.v2.f64 {%fd1, %fd2}, [%rd1];\nst.global.f64 [%rd1], %fd1;\n"+
		"cp.async.cg.shared.global [%r1], [%rd1], 16;\ncp.async.ca.shared.global [%r1+4], [%rd1], 4, %r2;\ncp.async.wait_all;\nret;\n")
	require.Equal(t, 1048, k.Shared)
	all, err := Parse(start + ".shared .align 4 .b8 ours[40];\n.entry a() { mov.u64 %rd1, ours; ret; }\n.shared .align 4 .b8 other[8];\n" +
		".entry b() { st.shared.u32 [other+4], 1; ret; }")
	require.NoError(t, err)
	require.Equal(t, []int{40, 8}, []int{all[0].Shared, all[1].Shared})
	require.Equal(t, map[int]int{16: 3, 4: 1, 2: 1}, k.Loads)
	require.Equal(t, map[int]int{8: 1}, k.Stores)
	for _, text := range []string{"", start, ".version 7.0\n.target sm_80\n.address_size 32\n.entry k() { ret; }",
		start + ".entry k() { bra $L1; }"} {
		_, err := Parse(text)
		require.Error(t, err, text)
	}
}

//go:build gpu

package emu_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// session returns the output of a program that lists the devices, loads kernels, allocates memory and launches five times.
func session(t *testing.T, settings ...string) string {
	t.Helper()
	return probe(t, probes+"/kernels.ptx", []string{"driver"}, settings...).out
}

func TestAnUneventfulSession(t *testing.T) {
	require.Equal(t, `driver 12040
device 0: Emulated device, 8.0, 4294967296 bytes
64 chunks of 16 MB
3221225472 of 4294967296 bytes are free
launch 1 is done
launch 2 is done
launch 3 is done
launch 4 is done
launch 5 is done
gemm has 23040 bytes of shared memory, and a multiprocessor holds 6 of its blocks
cuGraphLaunch: CUDA_ERROR_NOT_SUPPORTED
cuModuleGetFunction: CUDA_ERROR_NOT_FOUND
done
`, session(t))
}

// Environment variables make the driver and the card fail in every known way.
func TestWhatCanFail(t *testing.T) {
	for _, test := range []struct {
		settings string
		want     []string
	}{
		{"GRPO_EMU_DEVICES=0", []string{"cuInit: CUDA_ERROR_NO_DEVICE\ndone\n"}},
		{"GRPO_EMU_DEVICES=2 GRPO_EMU_NAME=Card GRPO_EMU_MEMORY=128M", []string{"device 0: Card, 8.0, 134217728 bytes\n",
			"device 1: Card, 8.0, 134217728 bytes\n", "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY\n8 chunks of 16 MB\n"}},
		{"GRPO_EMU_CAPABILITY=7.5", []string{"device 0: Emulated device, 7.5,", "cuModuleLoadDataEx: CUDA_ERROR_NO_BINARY_FOR_GPU\n",
			"log: PTX line 6: code for sm_80, and the card has compute capability 7.5: .target sm_80\n"}},
		{"GRPO_EMU_DRIVER=10.2", []string{"driver 10020\n", "cuModuleLoadDataEx: CUDA_ERROR_UNSUPPORTED_PTX_VERSION\n",
			"log: PTX line 5: PTX 7.0 is newer than this driver, which knows PTX up to 6.5: .version 7.0\n"}},
		{"GRPO_EMU_OOM_AFTER=50M", []string{"cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY\n3 chunks of 16 MB\n", "launch 5 is done\n"}},
		{"GRPO_EMU_FAIL_LAUNCH=2", []string{"launch 1 is done\ncuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED\n",
			"cuMemFree_v2: CUDA_ERROR_LAUNCH_FAILED\n"}},
		{"GRPO_EMU_LOST_AT=100", []string{"cuMemAlloc_v2: CUDA_ERROR_UNKNOWN\n", "cuDevicePrimaryCtxRelease_v2: CUDA_ERROR_UNKNOWN\n"}},
		{"GRPO_EMU_BUSY=1", []string{"cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE\ndone\n"}},
	} {
		a := probe(t, probes+"/kernels.ptx", []string{"driver"}, strings.Fields(test.settings)...)
		for _, want := range test.want {
			require.Contains(t, a.out, want, test.settings)
		}
		require.Empty(t, a.stderr, test.settings)
	}
}

// Unknown PTX stops the load with an error that gives the line, the instruction and the reason.
func TestUnknownPTXIsRefused(t *testing.T) {
	text := read(t, probes+"/kernels.ptx")
	for _, test := range []struct{ from, to, want string }{
		{"fma.rn.f32", "fma.rp.f32", `no instruction that this machine knows: "fma.rp.f32": fma.rp.f32`},
		{"ld.global.f32", "ld.global.f24", `no memory access that this machine knows: ".f24": ld.global.f24`},
		{"st.global.f32", "red.global.add.f32", "an atomic sum of floats depends on the order of blocks; sum in a fixed order instead"},
		{"bar.sync", "barrier.cluster.sync", "no instruction that this machine knows"},
		{"mov.u32 \t%r", "mov.u64 \t%r", "has another size or kind than the instruction"},
		{"shl.b64", "shl.b32", "has another size or kind than the instruction"},
		{"saxpy_param_3]", "saxpy_param_3+8]", "no parameter is there"},
		{"%tid.x", "%clock", `nothing is declared as "%clock"`},
		{"bra \t$L", "bra \t$M", `no label "$M`},
		{".version 7.0", ".version 9.9", "PTX 9.9 is newer than this driver"},
		{".visible .entry saxpy", ".visible .func saxpy", "functions that are called are not known here"},
		{"m16n8k16", "m16n8k32", "no instruction that this machine knows"},
		{", 16;", ", 12;", "no asynchronous copy that this machine knows"},
		{"x4.shared", "x3.shared", "no load of matrices that this machine knows"},
		{".version", "version", "PTX begins with .version"},
	} {
		require.True(t, strings.Contains(text, test.from), test.from)
		a := probe(t, write(t, strings.ReplaceAll(text, test.from, test.to)), []string{"driver"})
		require.Regexp(t, `cuModuleLoadDataEx: CUDA_ERROR_\w+PTX\w*\nlog: PTX line \d+: .*\n`, a.out, test.to)
		require.Contains(t, a.out, test.want, test.to)
		require.NotContains(t, a.out, "launch", test.to)
	}
}

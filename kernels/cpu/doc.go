// Package cpu implements kernels.Backend on the processor: C kernels called through cgo, a pool of
// threads that share the work, memory outside the Go heap. It knows nothing of models, adapters,
// files or graphs. A backend is used by one goroutine at a time; its operations are finished when
// they return, which the contract of a queue allows. New wraps it in kernels.Checked, so nothing here
// checks shapes again. The contents of operands (token ids, sequence starts, blocks of a cache) are
// checked where a wrong number would make C read outside of them, except by Gather.
//
// # The numbers
//
// Every output element of a product is one chain of fused multiply-adds in ascending order of the
// reduced index, starting from zero, in one float32. Vectors run across outputs, never along the
// reduction, so neither tile sizes, nor the number of rows, nor threads, nor the width of the
// hardware can change a bit. Sums along a row (norms, softmax) use 16 logical lanes, lane j taking
// elements j, j+16, …, and one reduction tree; see vec.h. The kernels are written so that all
// machines with fused multiply-adds give the same bits; tests compare the fingerprints of each variant
// that the machine can run with recorded ones. The portable variant on x86 has no fused multiply-adds,
// and so gives other bits. RopeTable and Loss are Go in double precision: their bits are those of Go's
// math package on the machine's architecture.
//
// If a matrix rounds what it is multiplied with to bf16, the chain is the same over rounded numbers, and a
// processor with dot products of bf16 pairs does two of its multiply-adds in one instruction: see pair.h.
// A matrix of four bits a weight may be multiplied in integers, exactly for 64 inputs at a time: see whole.h.
// The layout of a matrix in memory, in pairs of columns or compressed to twelve bits a weight (compress.h),
// changes no number.
//
// In the order of tiles (Options.Order), products with a matrix of bf16 are summed like those of the tile unit of newer
// processors (AMX): for each 32 inputs there is one chain of multiply-adds over the even ones and one over the odd ones, both
// from zero; their sum is added to the result. If the matrix does not round, each 32 inputs are multiplied three times, as the
// three numbers of bf16 whose sum is the float32, the smallest first. In this order are also the products of the head with its
// weights and of attention with keys and values, if those are bf16 (attention rounds what they are multiplied with), and
// gradients of weights from rounded numbers. Subnormal numbers count as zero. Everything else stays in series: products with
// matrices of float32, gradients of those, attention over float32. The kernels are written once in terms of tiles (tiles.h,
// attention_tiles.h). With a tile unit these are instructions (variant_amx.c), and everywhere else multiply-adds in the same
// order (tile_ops.h), so that a run of one machine can be replayed on another. In the tests those instructions run on every
// amd64 processor with AVX-512: package tileunit emulates them when the processor traps them.
//
// In C this requires that no compiler fuses a*b+c by itself (-std=c11, FP_CONTRACT OFF, never -ffast-math); where it is to be
// fused, the code says so (fused in vec.h). No kernel calls libm: exp and log are in vec.h, and the square root is an
// instruction on amd64 and arm64.
//
// # Adding an operation
//
// An operation has the same name in the contract, in its launcher and in its kernel. Launchers are in the
// Go file of their group, kernels in headers.
//
// The headers are compiled once per variant (variant_avx512.c, variant_avx2.c, variant_portable.c, all
// through kernels.inc) as plain C with vector types of VL floats; everything in them is static. Those with
// tiles are compiled once more for the tile unit (variant_amx.c, which lists them). A kernel runs
// tasks [from, to) in its launcher's numbering; which thread runs a task never changes a result:
//
//	static void foo(const void *args, void *scratch, int64_t from, int64_t to)
//
// Its arguments are a struct grpo_foo of at most ARGS_BYTES, declared in a header args_*.h that
// kernels.h includes, so that Go sees it. OP(foo) in ops.h puts it into the table of every variant.
// The launcher and the kernel rely on the checks of kernels.Checked:
//
//	func (b *backend) Foo(out, x kernels.Buffer, N, T int) {
//		defer b.release()      // ends the hold on the buffers
//		a := args[C.grpo_foo](b) // zeroed; one for all operations, so fill it just before run
//		a.out = b.f32(out)     // the address; holds the memory
//		a.x = b.f32(x)
//		a.n = C.int64_t(N)
//		b.run(b.ops.foo, T, 1) // T tasks, claimed in ranges of 1 or more; waits
//	}
//
// b.scratch(bytes), before b.run, gives each thread that much memory of its own, the kernel's second
// argument. b.shared(slot, bytes) is memory that all threads see and that lasts from one run to the
// next within an operation. Both grow to the largest call and are not cleared. An operation may allocate
// nothing else.
//
// Pitfalls: gcc keeps an array of vector accumulators in registers only if the loops over it have UNROLL
// and constant bounds; rows 4096 bytes apart map to the same set of the first-level cache.
package cpu

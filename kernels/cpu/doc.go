// Package cpu implements kernels.Backend on the processor: C kernels called through cgo, a pool of
// threads that share the work, memory outside the Go heap. It knows nothing of models, adapters,
// files or graphs. A Backend is used by one goroutine at a time; its operations are finished when
// they return, which is one legal reading of "queued".
//
// # The numbers
//
// Every output element of a product is one chain of fused multiply-adds in ascending order of the
// reduced index, starting from zero, in one float32. Vectors run across outputs, never along the
// reduction, so neither tile sizes, nor the number of rows, nor threads, nor the width of the
// hardware can change a bit. Sums along a row (norms, softmax) use 16 logical lanes, lane j taking
// elements j, j+16, …, and one tree to fold them; see vec.h. All machines with fused multiply-adds
// give the same bits, x86 and Arm, gcc and clang; a test holds their fingerprint.
//
// Where a matrix has its factors rounded to bf16, the chain is the same one over rounded numbers, and a processor that
// multiplies bf16 in pairs takes two links of it at a time: see pair.h. How a matrix lies in memory, in pairs of
// columns or folded into twelve bits a weight (compact.h), changes no number.
//
// What makes that hold in C: contraction of a*b+c is on (never -ffast-math), so an expression carries
// at most one product per sum, since a*b+c*d could be fused two ways. No libm: exp and log are in
// vec.h.
//
// # Adding an operation
//
// One operation, one name: foo.h holds the C kernel, foo.go its launcher.
//
// The header is compiled once per variant (variant_avx512.c, variant_avx2.c, variant_portable.c, all
// through variant.inc) as plain C with vector types of VL floats; everything in it is static. A kernel
// does tasks [from, to) of its launcher's numbering; which worker does a task never changes a result:
//
//	static void foo(const void *args, void *scratch, int64_t from, int64_t to)
//
// Its arguments are a struct grpo_foo of at most ARGS_BYTES, declared in a header args_*.h that
// kernels.h includes, so that Go sees it. OP(foo) in ops.h puts it into the table of every variant.
// The launcher checks, the kernel assumes:
//
//	func (b *backend) Foo(out, x kernels.Buffer, N, T int) {
//		defer b.release()                   // ends the hold on the buffers
//		a := args[C.grpo_foo](b)            // zeroed; one for all operations, so fill it just before run
//		a.out = b.f32(out) // checks type and length, holds the memory
//		a.x = b.f32(x)
//		a.n = C.int64_t(N)
//		b.run(b.ops.foo, T, 1)              // T tasks, handed out in runs of 1 or more; waits
//	}
//
// b.scratch(bytes), before b.run, gives each worker that much memory of its own, the kernel's second
// argument. b.shared(slot, bytes) is memory that all workers see and that lasts from one run to the
// next within an operation. Both grow to the largest call and are not cleared. Nothing else may be
// allocated by a call.
//
// Traps: gcc keeps an array of vector accumulators in registers only if the loops over it carry UNROLL
// and constant bounds; rows 4096 bytes apart fall into one set of the first-level cache.
package cpu

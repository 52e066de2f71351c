// Operations on tiles: the instructions of a tile unit (AMX), or fused multiply-adds in the order in which it adds.
//
// A tile has 16 rows of 64 bytes. Sums are 16 × 16 floats. Factors are pairs of bf16 numbers: a row of the left-hand side has
// 32 inputs of one row, a row of the right-hand side has two inputs of each of 16 columns. One addition multiplies 32
// inputs: for each sum, one chain of fused multiply-adds over the first numbers of the pairs and one over the second,
// both from zero; the chains are added, and then added to the sum. Subnormal numbers count as zero.
//
// Which half of a pair is called the first makes no difference if both sides agree. In matrix.h it is the high one, in the
// manual of the instruction the low one.

// The eight tiles: the sums of two tiles of rows by two tiles of columns, and the factors of both sides.
enum { SUMS_00, SUMS_01, SUMS_10, SUMS_11, LEFT_0, LEFT_1, RIGHT_0, RIGHT_1, TILES };

INLINE int64_t tile_steps(int64_t inner) { return (inner + TILE_INPUTS - 1) / TILE_INPUTS; }

#ifdef TILES_NATIVE

enum { UNIT_FLUSHES = 1 }; // the unit counts subnormal numbers as zero in any mode

// The operand of ldtilecfg.
typedef struct {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} tile_config;

typedef struct {
	char spare[TILE_BYTES] __attribute__((aligned(64))); // for stores of tile_stay_awake; never read
	int rows[2];
} tile_file;

// A worker holds tiles only from tile_begin to tile_end, so that a thread of Go's never leaves a kernel with them.
INLINE void tile_begin(void)
{
	tile_config c = {.palette = 1};
	for (int i = 0; i < TILES; i++) {
		c.row_bytes[i] = 4 * TILE;
		c.rows[i] = TILE;
	}
	__asm__ volatile("ldtilecfg %0" : : "m"(c));
}

INLINE void tile_end(void) { __asm__ volatile("tilerelease"); }

// The number of a tile is part of the instruction, so these are macros.
#define tile_zero(f, c) __asm__ volatile("tilezero %%tmm%c0" : : "i"(c))
#define tile_load(t, p, stride) \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"((int64_t)(stride)), "i"(t) : "memory")
#define tile_store(t, p, stride) \
	__asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"((int64_t)(stride)), "i"(t) : "memory")
// If no tile has been stored for a microsecond, the next store stalls the unit for another quarter; after half a microsecond it does not.
// That is measured, not documented. So a long sum stores a tile now and then.
#define tile_stay_awake(f) tile_store(LEFT_0, (f)->spare, 4 * TILE)
#define tile_load_sums(f, c, p, stride) tile_load(c, p, stride)
#define tile_store_sums(f, c, p, stride) tile_store(c, p, stride)
// A left-hand side is read once and loaded around the first-level cache, in which the right-hand side stays.
#define tile_load_left_rows(f, a, p, stride) \
	__asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(p), "r"((int64_t)(stride)), "i"(a) : "memory")
#define tile_load_right(f, b, p, stride) tile_load(b, p, stride)
// In attention's forward pass it is the other way round: a right-hand side is multiplied once.
#define tile_load_left_kept(f, a, p, stride) tile_load(a, p, stride)
#define tile_load_right_once(f, b, p, stride) tile_load_left_rows(f, b, p, stride)
#define tile_add(f, c, a, b) \
	__asm__ volatile("tdpbf16ps %%tmm%c0, %%tmm%c1, %%tmm%c2" : : "i"(b), "i"(a), "i"(c))

#else

enum { UNIT_FLUSHES = 0 };

// A left-hand side is widened when it is loaded; a right-hand side is used in place. Only rows that exist are computed.
typedef struct {
	int rows[2];
	float sums[4][TILE][TILE];
	float first[2][TILE][TILE], second[2][TILE][TILE];
	const char *right[2];
	int64_t right_stride[2];
} tile_file;

INLINE void tile_begin(void) {}
INLINE void tile_end(void) {}
INLINE void tile_stay_awake(tile_file *f) { (void)f; }

INLINE unsigned rows_of_sums(const tile_file *f, int c) { return f->rows[c / 2]; }

INLINE void tile_zero(tile_file *f, int c) { memset(f->sums[c], 0, 4 * TILE * rows_of_sums(f, c)); }

INLINE void tile_load_sums(tile_file *f, int c, const float *p, int64_t stride)
{
	for (unsigned i = 0; i < rows_of_sums(f, c); i++) memcpy(f->sums[c][i], (const char *)p + i * stride, 4 * TILE);
}

INLINE void tile_store_sums(const tile_file *f, int c, float *p, int64_t stride)
{
	for (unsigned i = 0; i < rows_of_sums(f, c); i++) memcpy((char *)p + i * stride, f->sums[c][i], 4 * TILE);
}

INLINE void tile_load_left_rows(tile_file *f, int a, const void *p, int64_t stride)
{
	a -= LEFT_0;
	for (int i = 0; i < f->rows[a]; i++)
		UNROLL for (int v = 0; v < TILE; v += VL)
		{
			vi pairs = loadi((const char *)p + i * stride + 4 * v);
			store(f->first[a][i] + v, widen_first(pairs));
			store(f->second[a][i] + v, widen_second(pairs));
		}
}

INLINE void tile_load_right(tile_file *f, int b, const void *p, int64_t stride)
{
	f->right[b - RIGHT_0] = p;
	f->right_stride[b - RIGHT_0] = stride;
}

#define tile_load_left_kept tile_load_left_rows
#define tile_load_right_once tile_load_right

// One addition for a few rows, whose chains all fit into registers.
INLINE void add_rows(const int rows, float sums[][TILE], const float first[][TILE], const float second[][TILE],
                     const char *right, int64_t stride)
{
	for (int v = 0; v < TILE; v += VL) {
		vf one[TILE], other[TILE];
		UNROLL for (int i = 0; i < rows; i++) one[i] = other[i] = splat(0);
		for (int k = 0; k < TILE; k++) {
			vi pairs = loadi(right + k * stride + 4 * v);
			vf w = widen_first(pairs), x = widen_second(pairs);
			UNROLL for (int i = 0; i < rows; i++) one[i] = fused(w, splat(first[i][k]), one[i]);
			UNROLL for (int i = 0; i < rows; i++) other[i] = fused(x, splat(second[i][k]), other[i]);
		}
		UNROLL for (int i = 0; i < rows; i++) store(sums[i] + v, load(sums[i] + v) + (one[i] + other[i]));
	}
}

static void tile_add(tile_file *f, int c, int a, int b)
{
	enum { ROWS_AT_ONCE = VL == 16 ? 8 : 4 };
	const char *right = f->right[b - RIGHT_0];
	int64_t stride = f->right_stride[b - RIGHT_0];
	a -= LEFT_0;
	int row = 0, rows = f->rows[a];
	for (; row + ROWS_AT_ONCE <= rows; row += ROWS_AT_ONCE)
		add_rows(ROWS_AT_ONCE, f->sums[c] + row, f->first[a] + row, f->second[a] + row, right, stride);
	for (; row < rows; row++) add_rows(1, f->sums[c] + row, f->first[a] + row, f->second[a] + row, right, stride);
}

#endif

#define tile_load_left(f, a, p) tile_load_left_rows(f, a, p, 4 * TILE)

// Until restore_subnormals, subnormal numbers count as zero, as they do in the tile unit in any mode. Returns the mode before.
INLINE uint64_t flush_subnormals(void)
{
#if defined(__x86_64__)
	enum { FLUSH_RESULTS = 1 << 15, FLUSH_FACTORS = 1 << 6 };
	uint32_t before, now;
	__asm__ volatile("stmxcsr %0" : "=m"(before) : : "memory");
	now = before | FLUSH_RESULTS | FLUSH_FACTORS;
	__asm__ volatile("ldmxcsr %0" : : "m"(now) : "memory");
	return before;
#elif defined(__aarch64__)
	enum { FLUSH = 1 << 24 };
	uint64_t before;
	__asm__ volatile("mrs %0, fpcr" : "=r"(before) : : "memory");
	__asm__ volatile("msr fpcr, %0" : : "r"(before | FLUSH) : "memory");
	return before;
#else
	return 0;
#endif
}

INLINE void restore_subnormals(uint64_t before)
{
#if defined(__x86_64__)
	uint32_t was = before;
	__asm__ volatile("ldmxcsr %0" : : "m"(was) : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory");
#else
	(void)before;
#endif
}

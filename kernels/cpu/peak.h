// Probes of the machine's peak rates: independent fused multiply-adds, and a plain read of memory.

#if VL == 16
#define IN_REGISTER(x) "+v"(x)
#elif defined(__x86_64__)
#define IN_REGISTER(x) "+x"(x)
#else
#define IN_REGISTER(x) "+w"(x)
#endif

static void peak_fma(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_peak_fma *a = args;
	enum { CHAINS = VL == 16 ? 24 : 12 };
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		vf acc[CHAINS], x = splat(0.999f), y = splat(0.001f);
		UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = splat((float)i);
		for (int64_t r = 0; r < a->rounds; r++) {
			UNROLL for (int i = 0; i < CHAINS; i++)
			{
				acc[i] = fused(acc[i], x, y);
				__asm__("" : IN_REGISTER(acc[i])); // hides from the compiler that all chains compute the same
			}
		}
		vf s = splat(0);
		UNROLL for (int i = 0; i < CHAINS; i++) s += acc[i];
		a->sink[t] = s[0];
	}
}

static void peak_pairs(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_peak_pairs *a = args;
	enum { CHAINS = VL == 16 ? 24 : 12 };
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		vf acc[CHAINS], s = splat(0);
		UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = splat((float)i);
		for (int64_t r = 0; r < a->rounds; r++)
			UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = add_pairs(acc[i], (vi)splat(1), (vi)splat(1));
		UNROLL for (int i = 0; i < CHAINS; i++) s += acc[i];
		a->sink[t] = s[0];
	}
}

static void peak_read(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_peak_read *a = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		const char *p = a->data + t * a->bytes, *end = p + a->bytes;
		vi s[4] = {{0}};
		for (; p < end; p += 16 * VL) {
			UNROLL for (int i = 0; i < 4; i++) s[i] ^= loadi(p + 4 * VL * i);
		}
		vi x = s[0] ^ s[1] ^ s[2] ^ s[3];
		a->sink[t] = (float)x[0];
	}
}

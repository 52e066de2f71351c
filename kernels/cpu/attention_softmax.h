// The online softmax of a tile of queries: the state that its rows carry from block to block, and its updates.

// Sets the lanes of keys after number limit to `no`.
INLINE vf mask_after(vf x, int first, int64_t limit, vf no)
{
	static const int32_t count[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	vi number = loadi(count) + first;
	return blend(number <= (int32_t)max64(min64(limit, KEYS), -1), x, no);
}

// Sets the lanes of keys before number first to `no`.
INLINE vf mask_before(vf x, int lane, int64_t first, vf no)
{
	return mask_after(no, lane, first - 1, x);
}

// The sums, or the maxima, of VL vectors, lane i for vector i: halves are combined with halves, as in lanes_sum.
INLINE vf fold(vf r[VL], const int sums)
{
	UNROLL for (int stage = 1; stage < VL; stage *= 2)
		UNROLL for (int i = 0; i < VL / 2 / stage; i++)
		{
			vf low = ZIP_LOW(r[i], r[i + VL / 2 / stage]), high = ZIP_HIGH(r[i], r[i + VL / 2 / stage]);
			r[i] = sums ? low + high : vmax(low, high);
		}
	return r[0];
}

// What the rows of a tile carry from block to block.
typedef struct {
	float max[TILE_FORWARD];         // the running maximum of the scores
	float sum[TILE_FORWARD][LANES];  // of exponentials relative to it
	float shrink[TILE_FORWARD];      // the factor for earlier sums after the maximum has grown
	float base[TILE_FORWARD];        // subtracted from scores
	float score[TILE_FORWARD][KEYS]; // of the block; then, in series, its exponentials
} softmax_state;
_Static_assert(sizeof(softmax_state) == 4 * SOFTMAX_FLOATS, "the launcher's idea of softmax_state");

// Each step is a loop over all rows, so that their chains of operations overlap.

// Caps scores, and masks those before first and after limit.
INLINE void mask_scores(softmax_state *s, int i, int64_t first, int64_t limit, float cap)
{
	UNROLL for (int v = 0; v < KEYS; v += VL)
	{
		vf x = load(s->score[i] + v);
		if (cap != 0)
			x = soft_cap(x, cap);
		x = mask_before(x, v, first, splat(-__builtin_inff()));
		store(s->score[i] + v, mask_after(x, v, limit, splat(-__builtin_inff())));
	}
}

// Updates the running maxima of rows from i on, as many as a vector has lanes. The maximum of a row that has read nothing yet is −∞, and
// one that is NaN stays NaN.
INLINE void update_max(softmax_state *s, int i)
{
	vf row[VL];
	UNROLL for (int j = 0; j < VL; j++)
	{
		row[j] = load(s->score[i + j]);
		UNROLL for (int v = VL; v < KEYS; v += VL) row[j] = vmax(load(s->score[i + j] + v), row[j]);
	}
	vf before = load(s->max + i), max = vmax(fold(row, 0), before);
	store(s->max + i, max);
	store(s->shrink + i, vexp_low(blend((vi)(before == max), splat(0), before - max)));
	store(s->base + i, blend((vi)(max == -__builtin_inff()), splat(0), max));
}

// Rescales the sums of values of those of n rows whose maximum has grown.
INLINE void rescale_sums(const softmax_state *s, int n, float *acc, int64_t wide)
{
	int grown[TILE_FORWARD], count = 0;
	for (int i = 0; i < n; i++) {
		grown[count] = i;
		count += s->shrink[i] != 1;
	}
	for (int k = 0; k < count; k++) {
		float *row = acc + grown[k] * wide, shrink = s->shrink[grown[k]];
		for (int64_t c = 0; c < wide; c += VL) store(row + c, load(row + c) * shrink);
	}
}

// Scores become exponentials, and their sum grows. In the order of tiles they are at once a row of the left-hand side.
INLINE void exponentials(const int tiled, softmax_state *s, int i, char *weights)
{
	lanes sum;
	vf p[KEYS / VL];
	float base = s->base[i], shrink = s->shrink[i];
	UNROLL for (int v = 0; v < LANE_VECTORS; v++) sum.v[v] = load(s->sum[i] + v * VL) * shrink;
	UNROLL for (int v = 0; v < KEYS / VL; v++)
	{
		p[v] = vexp_low(load(s->score[i] + v * VL) - base);
		sum.v[v % LANE_VECTORS] += p[v];
		if (!tiled)
			store(s->score[i] + v * VL, p[v]);
	}
	UNROLL for (int v = 0; v < LANE_VECTORS; v++) store(s->sum[i] + v * VL, sum.v[v]);
	if (tiled)
		put_pairs(1, weights + 4 * TILE * i, p);
}

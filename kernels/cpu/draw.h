// Drawing a token from a row of logits by inverse transform sampling, with the cumulative distribution in ascending
// order of the tokens. The sums are those of head.h, so the log-probability of the drawn token is that of LogProb.

INLINE int is_kept(float logit, int64_t token, const grpo_cut *c)
{
	return logit > c->logit || (logit == c->logit && token <= c->token);
}

// The bucket of a logit: steps of 1/64 below the largest; the last bucket has all the rest.
INLINE int bucket_of(float logit, float max)
{
	float d = (max - logit) * 64;
	return d < BUCKETS - 1 ? (int)d : BUCKETS - 1;
}

static int by_likelihood(const void *a, const void *b)
{
	const grpo_cut *x = a, *y = b;
	if (x->logit != y->logit)
		return x->logit > y->logit ? -1 : 1;
	return x->token < y->token ? -1 : x->token > y->token;
}

// Tightens a cut: keeps the most likely of the kept tokens until there are `count` of them or they have `share` of the kept mass.
static grpo_cut find_cut(const float *l, int64_t n, float max, grpo_cut kept, int64_t count, double share, grpo_buckets *b)
{
	float least = max;
	for (int64_t v = 0; v < n; v++)
		if (l[v] < least && is_kept(l[v], v, &kept))
			least = l[v];
	int used = bucket_of(least, max) + 1; // later buckets would be empty, and are not cleared
	memset(b->count, 0, used * sizeof *b->count);
	memset(b->mass, 0, used * sizeof *b->mass);
	for (int64_t v = 0; v < n; v += VL) {
		float e[VL];
		store(e, vexp_low(load(l + v) - max));
		for (int64_t i = v; i < n && i < v + VL; i++)
			if (is_kept(l[i], i, &kept)) {
				int k = bucket_of(l[i], max);
				b->count[k]++;
				b->mass[k] += e[i - v];
			}
	}
	double total = 0, mass = 0;
	for (int k = 0; k < used; k++) total += b->mass[k];
	double goal = share * total;
	int64_t seen = 0;
	int at = 0;
	for (; at < used && seen + b->count[at] < count && mass + b->mass[at] < goal; at++) {
		seen += b->count[at];
		mass += b->mass[at];
	}
	if (at == used)
		return kept;
	int64_t members = 0;
	for (int64_t v = 0; v < n; v++)
		if (bucket_of(l[v], max) == at && is_kept(l[v], v, &kept))
			b->members[members++] = (grpo_cut){l[v], v};
	qsort(b->members, members, sizeof(grpo_cut), by_likelihood);
	for (int64_t i = 0; i < members; i++) {
		seen++;
		mass += exp1(b->members[i].logit - max);
		if (seen >= count || mass >= goal)
			return b->members[i];
	}
	return kept;
}

// The token of [from, n) at which the cumulative sum of exp(logit − max) over kept tokens, starting at sum,
// exceeds the goal; the last one with a weight if rounding keeps the sum below the goal.
static int64_t find_token(const float *l, int64_t from, int64_t n, float max, const grpo_cut *kept, double *sum, double goal)
{
	int64_t last = -1;
	for (int64_t v = from; v < n; v += VL) {
		float e[VL];
		store(e, vexp_low(load(l + v) - max));
		for (int64_t i = v; i < n && i < v + VL; i++) {
			if (e[i - v] == 0 || !is_kept(l[i], i, kept))
				continue;
			last = i;
			*sum += e[i - v];
			if (*sum > goal)
				return i;
		}
	}
	return last;
}

// Draws from the whole distribution: skips chunks by their sums until the goal is in one.
static int64_t draw_from_all(const float *l, int64_t n, const grpo_partial *p, const grpo_total *t, double u)
{
	const grpo_cut all = {-__builtin_inff(), n};
	double goal = u * t->sum, sum = 0;
	int64_t last = 0;
	for (int64_t c = 0; c * HEAD_CHUNK < n; c++) {
		double shrink = exp1(p[c].max - t->max), part = p[c].sum * shrink;
		int64_t from = c * HEAD_CHUNK, to = min64(from + HEAD_CHUNK, n);
		if (part == 0)
			continue;
		if (sum + part > goal) {
			double inside = 0, rest = (goal - sum) / shrink;
			int64_t token = find_token(l, from, to, p[c].max, &all, &inside, rest);
			return token >= 0 ? token : last;
		}
		double none = 0;
		sum += part;
		if (c == (n - 1) / HEAD_CHUNK || sum >= goal) // only because of rounding can the search end here
			last = find_token(l, from, to, p[c].max, &all, &none, __builtin_inff());
	}
	return last;
}

static int64_t most_likely(const float *l, int64_t n, const grpo_partial *p, float max)
{
	for (int64_t c = 0; c * HEAD_CHUNK < n; c++)
		if (p[c].max == max)
			for (int64_t v = c * HEAD_CHUNK; v < n; v++)
				if (l[v] == max)
					return v;
	return 0; // only if a logit is NaN
}

// The most likely tokens in descending order. Skips chunks whose largest logit is not above the last of them.
static void find_tops(const float *l, int64_t n, const grpo_partial *p, const grpo_total *t, int64_t count, int32_t *token, float *logp)
{
	grpo_cut top[MOST_TOPS];
	int64_t have = 0;
	for (int64_t from = 0; from < n; from += HEAD_CHUNK, p++) {
		if (have == count && !(p->max > top[count - 1].logit))
			continue;
		for (int64_t v = from; v < n && v < from + HEAD_CHUNK; v++) {
			if (have == count && !(l[v] > top[count - 1].logit))
				continue;
			int64_t i = have < count ? have++ : count - 1;
			for (; i > 0 && l[v] > top[i - 1].logit; i--) top[i] = top[i - 1];
			top[i] = (grpo_cut){l[v], v};
		}
	}
	for (int64_t i = 0; i < count; i++) {
		token[i] = top[i].token;
		logp[i] = log_probability(top[i].logit, t);
	}
}

// Excludes the tokens that are not allowed: logits and partials become those of a vocabulary without them.
static void exclude(float *l, int64_t n, const uint32_t *allowed, grpo_partial *p)
{
	const vf none = splat(-__builtin_inff());
	vu lane;
	UNROLL for (int i = 0; i < VL; i++) lane[i] = i;
	for (int64_t from = 0; from < n; from += HEAD_CHUNK, p++) {
		int64_t to = min64(from + HEAD_CHUNK, n);
		uint32_t gone = 0, any = 0; // not 0 if some tokens are forbidden, and if some are allowed
		for (int64_t v = from; v < to; v += 32) {
			uint32_t word = allowed[v / 32], whole = to - v < 32 ? (1u << (to - v)) - 1 : ~0u;
			any |= word & whole;
			gone |= ~word & whole;
			if ((word & whole) == whole)
				continue;
			for (int64_t i = v; i < to && i < v + 32; i += VL) // may write into the padding after the row
				store(l + i, blend(-(vi)(((vu){0} + (word >> (i - v))) >> lane & 1), load(l + i), none));
		}
		if (gone)
			*p = any ? reduce_logits(l + from, to - from) : (grpo_partial){-__builtin_inff(), 0, 0};
	}
}

// Draws the token of a row, and reduces its distribution t to the kept tokens. If tokens were excluded, a cut must not keep them.
static int64_t draw_token(const grpo_draw *d, int64_t row, float *l, const grpo_partial *p, grpo_total *t, grpo_buckets *b)
{
	int64_t n = d->vocabulary, top_k = d->top_k[row];
	float top_p = d->top_p[row], min_p = d->min_p[row];
	if (d->inv_temp[row] == 0)
		return most_likely(l, n, p, t->max);
	if ((top_k <= 0 || top_k >= n) && top_p >= 1 && min_p <= 0)
		return draw_from_all(l, n, p, t, d->uniform[row]);
	grpo_cut kept = {d->allowed ? -__FLT_MAX__ : -__builtin_inff(), n};
	if (top_k > 0 && top_k < n)
		kept = find_cut(l, n, t->max, kept, top_k, 2, b);
	if (top_p < 1)
		kept = find_cut(l, n, t->max, kept, n + 1, top_p, b);
	if (min_p > 0)
		for (int64_t v = 0; v < n; v++)
			if (exp1(l[v] - t->max) < min_p)
				l[v] = -__builtin_inff();
	t->sum = 0;
	find_token(l, 0, n, t->max, &kept, &t->sum, __builtin_inff());
	double sum = 0;
	int64_t token = find_token(l, 0, n, t->max, &kept, &sum, d->uniform[row] * t->sum);
	t->log_sum = log1(t->sum);
	return token;
}

static void draw(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_draw *d = args;
	int64_t n = d->vocabulary, chunks = (n + HEAD_CHUNK - 1) / HEAD_CHUNK;
	grpo_partial *p = scratch;
	grpo_buckets *b = (grpo_buckets *)(p + (chunks + 15) / 16 * 16);
	for (int64_t row = from; row < to; row++) {
		float *l = d->logits + row * d->stride, inv = d->inv_temp[row];
		int greedy = inv == 0;
		for (int64_t c = 0; c < chunks; c++) {
			float *chunk = l + c * HEAD_CHUNK;
			int64_t width = min64(HEAD_CHUNK, n - c * HEAD_CHUNK);
			if (d->cap != 0)
				soft_cap_logits(chunk, width, (grpo_logit_form){greedy ? 1 : inv, d->cap});
			else if (!greedy && inv != 1)
				for (int64_t v = 0; v < width; v += VL) store(chunk + v, load(chunk + v) * inv);
			p[c] = reduce_logits(chunk, width);
		}
		grpo_total whole = add_partials(p, chunks), t = whole;
		if (d->tops)
			find_tops(l, n, p, &whole, d->tops, d->top_token + row * d->tops, d->top_logp + row * d->tops);
		int64_t token = d->given ? d->given[row] : -1;
		if (token < 0) {
			if (d->allowed) {
				exclude(l, n, d->allowed + row * d->words, p);
				t = add_partials(p, chunks);
			}
			token = draw_token(d, row, l, p, &t, b);
			token = token < 0 ? 0 : token; // negative only if a logit is NaN, or no token is allowed
		}
		d->token[row] = token;
		d->logp[row] = log_probability(l[token], &t);
		if (d->raw)
			d->raw[row] = log_probability(l[token], &whole);
	}
}

// Drawing a token from a row of logits: by inverse transform sampling, with the cumulative distribution in ascending
// order of the tokens. The sums are those of head.h, so the log-probability of the drawn token is LogProb's.

INLINE int is_kept(float logit, int64_t token, const grpo_cut *c)
{
	return logit > c->logit || (logit == c->logit && token <= c->token);
}

// Logits in buckets of 1/64 below the largest; the last takes all the rest.
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

// Cuts after the most likely tokens that number count, or that have the share of the mass of what is kept.
static grpo_cut tighten(const float *l, int64_t n, float max, grpo_cut kept, int64_t count, double share, grpo_buckets *b)
{
	float least = max;
	for (int64_t v = 0; v < n; v++)
		if (l[v] < least && is_kept(l[v], v, &kept))
			least = l[v];
	int used = bucket_of(least, max) + 1; // what lies above them has no mass and is left as it is
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

// The token at which the cumulative sum of exp(logit − max) over what is kept passes the goal, starting at
// sum; the last one of any weight if rounding keeps the sum below it. It looks at tokens [from, n).
static int64_t walk(const float *l, int64_t from, int64_t n, float max, const grpo_cut *kept, double *sum, double goal)
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

// Chunks are skipped by their sums until the goal falls into one.
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
			int64_t token = walk(l, from, to, p[c].max, &all, &inside, rest);
			return token >= 0 ? token : last;
		}
		double none = 0;
		sum += part;
		if (c == (n - 1) / HEAD_CHUNK || sum >= goal) // only rounding can make this the end
			last = walk(l, from, to, p[c].max, &all, &none, __builtin_inff());
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
	return 0; // only where a logit is no number
}

// The likeliest tokens, from the likeliest on. A chunk without a larger logit than the last of them has none.
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

// Takes out of a row what may not come: logits and partials are those of a vocabulary without it.
static void exclude(float *l, int64_t n, const uint32_t *allowed, grpo_partial *p)
{
	const vf none = splat(-__builtin_inff());
	vu lane;
	UNROLL for (int i = 0; i < VL; i++) lane[i] = i;
	for (int64_t from = 0; from < n; from += HEAD_CHUNK, p++) {
		int64_t to = min64(from + HEAD_CHUNK, n);
		uint32_t gone = 0, any = 0; // bits of tokens that may not come, and that may
		for (int64_t v = from; v < to; v += 32) {
			uint32_t word = allowed[v / 32], whole = to - v < 32 ? (1u << (to - v)) - 1 : ~0u;
			any |= word & whole;
			gone |= ~word & whole;
			if ((word & whole) == whole)
				continue;
			for (int64_t i = v; i < to && i < v + 32; i += VL) // what is behind the row is nobody's
				store(l + i, pick(-(vi)(((vu){0} + (word >> (i - v))) >> lane & 1), load(l + i), none));
		}
		if (gone)
			*p = any ? reduce_logits(l + from, to - from) : (grpo_partial){-__builtin_inff(), 0, 0};
	}
}

// Draws the token of a row, whose distribution t is cut to what is drawn from. Where tokens were excluded, no cut may keep them.
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
		kept = tighten(l, n, t->max, kept, top_k, 2, b);
	if (top_p < 1)
		kept = tighten(l, n, t->max, kept, n + 1, top_p, b);
	if (min_p > 0)
		for (int64_t v = 0; v < n; v++)
			if (exp1(l[v] - t->max) < min_p)
				l[v] = -__builtin_inff();
	t->sum = 0;
	walk(l, 0, n, t->max, &kept, &t->sum, __builtin_inff());
	double sum = 0;
	int64_t token = walk(l, 0, n, t->max, &kept, &sum, d->uniform[row] * t->sum);
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
				bend_logits(chunk, width, (grpo_logit_form){greedy ? 1 : inv, d->cap});
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
			token = token < 0 ? 0 : token; // only where a logit is no number, or nothing may come
		}
		d->token[row] = token;
		d->logp[row] = log_probability(l[token], &t);
		if (d->raw)
			d->raw[row] = log_probability(l[token], &whole);
	}
}

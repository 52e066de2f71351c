// The objectives of kernels.LossKind, and the statistics of the rows with a weight: in one block, in double precision. A batch has some
// ten thousand rows at most.
#include "kernel.h"

enum Kind : u32 { importance_sampling, ppo, cispo, cross_entropy };

enum { loss_sum, rows_sum, ratio_sum, ratio_sq, ratio_min, ratio_max, kl1, kl2, max_diff, entropy_sum, clipped_sum, num_stats };

struct Objective {
	double loss, slope; // slope is the derivative with respect to the log-probability
	bool clipped;
};

DEVICE Objective objective(u32 kind, double low, double high, double logp, double ratio, double advantage) {
	double clamped = ratio < low ? low : ratio;
	clamped = clamped > high ? high : clamped;
	Objective plain = {-ratio * advantage, -ratio * advantage, false};
	switch (kind) {
	case ppo:
		return clamped * advantage < ratio * advantage ? Objective{-clamped * advantage, 0, true} : plain;
	case cispo:
		return Objective{-clamped * advantage * logp, -clamped * advantage, clamped != ratio && advantage != 0};
	case cross_entropy:
		return Objective{-advantage * logp, -advantage, false};
	}
	return plain;
}

KERNEL loss(float *dlogp, double *stats, const float *logp, const float *entropy, const float *old, const float *advantage,
	const float *weight, u32 kind, float low, float high, u32 T) {
	double s[num_stats] = {};
	s[ratio_min] = __builtin_inf(), s[ratio_max] = -__builtin_inf();
	for (u32 t = thread(); t < T; t += threads) {
		double w = (double)weight[t], l = (double)logp[t], apart = l - (double)old[t];
		if (w == 0) {
			dlogp[t] = 0;
			continue;
		}
		double ratio = exponential(apart);
		Objective o = objective(kind, (double)low, (double)high, l, ratio, (double)advantage[t]);
		dlogp[t] = (float)(w * o.slope);
		s[loss_sum] += w * o.loss;
		s[rows_sum] += 1;
		s[ratio_sum] += ratio;
		s[ratio_sq] += ratio * ratio;
		s[ratio_min] = Least::of(s[ratio_min], ratio);
		s[ratio_max] = Greatest::of(s[ratio_max], ratio);
		s[kl1] -= apart;
		s[kl2] += apart * apart / 2;
		s[max_diff] = Greatest::of(s[max_diff], apart < 0 ? -apart : apart);
		s[entropy_sum] += (double)entropy[t];
		s[clipped_sum] += o.clipped ? 1 : 0;
	}
	UNROLL for (int k = 0; k < num_stats; k++) {
		bool greatest = k == ratio_max || k == max_diff;
		double all = k == ratio_min ? over_block<Least>(s[k]) : greatest ? over_block<Greatest>(s[k]) : over_block(s[k]);
		if (thread() == 0)
			stats[k] = all;
	}
}

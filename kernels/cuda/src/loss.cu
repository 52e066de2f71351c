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
	double sums[num_stats] = {};
	sums[ratio_min] = __builtin_inf(), sums[ratio_max] = -__builtin_inf();
	for (u32 t = thread(); t < T; t += threads) {
		double row_weight = (double)weight[t], log_prob = (double)logp[t], log_ratio = log_prob - (double)old[t];
		if (row_weight == 0) {
			dlogp[t] = 0;
			continue;
		}
		double ratio = exponential(log_ratio);
		Objective result = objective(kind, (double)low, (double)high, log_prob, ratio, (double)advantage[t]);
		dlogp[t] = (float)(row_weight * result.slope);
		sums[loss_sum] += row_weight * result.loss;
		sums[rows_sum] += 1;
		sums[ratio_sum] += ratio;
		sums[ratio_sq] += ratio * ratio;
		sums[ratio_min] = Least::of(sums[ratio_min], ratio);
		sums[ratio_max] = Greatest::of(sums[ratio_max], ratio);
		sums[kl1] -= log_ratio;
		sums[kl2] += log_ratio * log_ratio / 2;
		sums[max_diff] = Greatest::of(sums[max_diff], log_ratio < 0 ? -log_ratio : log_ratio);
		sums[entropy_sum] += (double)entropy[t];
		sums[clipped_sum] += result.clipped ? 1 : 0;
	}
	UNROLL for (int k = 0; k < num_stats; k++) {
		bool greatest = k == ratio_max || k == max_diff;
		double all = k == ratio_min ? over_block<Least>(sums[k]) : greatest ? over_block<Greatest>(sums[k]) : over_block(sums[k]);
		if (thread() == 0)
			stats[k] = all;
	}
}

#include "kernel.h"

// One step of Adam with decoupled weight decay; decay is the learning rate times the weight decay.
KERNEL adam(float *p, float *m, float *v, const float *g, float rate, float beta1, float beta2, float eps, float decay,
	float scale, float correction1, float correction2, u64 n) {
	u64 i = 4 * global_thread();
	bool wide = aligned(p, m, v, g);
	Four P = load_four(p, i, n, wide), M = load_four(m, i, n, wide), V = load_four(v, i, n, wide), G = load_four(g, i, n, wide);
	UNROLL for (int k = 0; k < 4; k++) {
		float grad = scale * G[k];
		M[k] = fma(beta1, M[k], (1 - beta1) * grad);
		V[k] = fma(beta2, V[k], (1 - beta2) * grad * grad);
		P[k] = fma(-decay, P[k], P[k]);
		P[k] = fma(-rate, (M[k] / correction1) / (__builtin_sqrtf(V[k] / correction2) + eps), P[k]);
	}
	store_four(p, i, n, wide, P);
	store_four(m, i, n, wide, M);
	store_four(v, i, n, wide, V);
}

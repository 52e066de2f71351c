// Linear: out [T, N] = (accumulate ? out : 0) + alpha · x [T, K] · wᵀ + bias [N], w [N, K] in bf16.
#include "linear_tensor.h"

PRODUCTS(linear, false)

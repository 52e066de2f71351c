// LinearGradX: dx [T, K] = (accumulate ? dx : 0) + alpha · dy [T, N] · w, w [N, K] in bf16.
#include "linear_tensor.h"

PRODUCTS(linear_grad_x, true)

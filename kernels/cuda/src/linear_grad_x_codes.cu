// LinearGradX with 4-bit weights.
#include "linear_codes.h"

CODES_PRODUCTS(linear_grad_x_codes, true)

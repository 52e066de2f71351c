// LinearGradX with weights of four bits.
#include "linear_codes.h"

CODES_PRODUCTS(linear_grad_x_codes, true)

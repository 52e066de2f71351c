// Linear with weights of four bits.
#include "linear_codes.h"

CODES_PRODUCTS(linear_codes, false)

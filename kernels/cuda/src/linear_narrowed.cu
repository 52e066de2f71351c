// Linear and LinearGradX of narrowed rows: as in linear.cu and linear_grad_x.cu, with weights whose rows begin at multiples of 16 bytes.
#include "linear_narrowed.h"

NARROWED(linear_narrowed_bf16_128x160, false, Broad, 1)
NARROWED(linear_narrowed_bf16_128x128, false, Square, 2)
NARROWED(linear_grad_x_narrowed_bf16_128x160, true, Broad, 1)
NARROWED(linear_grad_x_narrowed_bf16_128x128, true, Square, 2)

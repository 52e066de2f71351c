#include "probe.h"
void run_zoo(void) {}

#include "probe.h"
void run_driver(const char *name) { (void)name; }

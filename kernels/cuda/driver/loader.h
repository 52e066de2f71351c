// Of our loader: what stands in for a driver at link time, and finds the real one at run time.
#ifndef GRPO_CUDA_LOADER_H
#define GRPO_CUDA_LOADER_H

// Answers of grpo_cuda_open that are not the driver's.
enum { GRPO_CUDA_NO_LIBRARY = -1, GRPO_CUDA_NO_DRIVER = -2 };

// Opens a library and lets every driver function lead into it. Gives what the library's cuInit answers. text is the
// library's own path then, or why it cannot be opened.
int grpo_cuda_open(const char *library, char *text, int length);

#endif

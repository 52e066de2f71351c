// The loader: it replaces the driver at link time, and finds the real one at run time.
#ifndef GRPO_CUDA_LOADER_H
#define GRPO_CUDA_LOADER_H

// Results of grpo_cuda_open that are not the driver's.
enum { GRPO_CUDA_NO_LIBRARY = -1, GRPO_CUDA_NO_DRIVER = -2 };

// Opens a library, binds every driver function to it, and returns the result of the library's cuInit. text is then the path of the
// library, or why it cannot be opened.
int grpo_cuda_open(const char *library, char *text, int length);

#endif

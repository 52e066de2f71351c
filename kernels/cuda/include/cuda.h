// The part of the CUDA driver interface that gorgonia.org/cu and this package use, written from its public
// documentation, so that both compile where no toolkit is installed. cu finds it by CGO_CFLAGS (docs/cuda.md).
//
// A driver exports some functions in several versions, the one without a suffix being the oldest: cuMemAlloc takes 32-bit
// sizes, cuMemAlloc_v2 those of type size_t. cuda_calls.h names the version that each prototype here has, and the loader
// binds that one. All of them are part of every driver from CUDA 11.0 on, except where a comment says otherwise.
#ifndef GRPO_CUDA_H
#define GRPO_CUDA_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h> // cu takes malloc and free from here

#define CUDA_VERSION 11000

#include "cuda_codes.h"
#include "cuda_attributes.h"
#include "cuda_types.h"

CUresult cuInit(unsigned int flags);
#define CALL(name, entry, parameters) CUresult name parameters;
#include "cuda_calls.h"
#undef CALL

#endif

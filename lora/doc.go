// Package lora is LoRA on the host: low-rank corrections W + scale·B·A of a transformer's linear weights.
// An adapter is one slab of numbers; the package lays it out, initialises it, reads and writes it in
// PEFT's format, and merges it into a model's weights. It knows neither graphs nor devices: package
// model uploads the slab and downloads it again.
//
// For each adapted weight W [out, in] there is A [rank, in] and B [out, rank], row-major:
//
//	y = W·x + (alpha/rank)·B·(A·x)
package lora

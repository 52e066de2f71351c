// Package lora is the adapter: low-rank corrections W + scale·B·A of a transformer's linear weights.
// It says where each matrix lies in one slab of numbers, starts it, reads and writes it in PEFT's
// format, and merges it into a model's weights. It runs on the host and knows neither graphs nor
// devices; whoever trains uploads the slab and brings it back.
//
// For each adapted weight W [out, in] there is A [rank, in] and B [out, rank], row-major:
//
//	y = W·x + (alpha/rank)·B·(A·x)
package lora

// Package lora is LoRA on the host: low-rank corrections W + scale·B·A of a transformer's linear weights.
// An adapter is one slab of numbers; the package lays it out, initialises it, reads and writes it in
// PEFT's format, and merges it into a model's weights. It knows neither graphs nor devices: package
// model uploads the slab and downloads it again.
//
// For each adapted weight W [out, in] there is A [rank, in] and B [out, rank], row-major:
//
//	y = W·x + (alpha/rank)·B·(A·x)
//
// An input error, as comments here call it, is one that whoever called can mend. errors.As finds it as an interface{ BadInput() bool }.
//
// An adapter is not safe for concurrent use while it is written to. Values may be written by whoever trains; Attach of package model and
// Serve of package sampler take a copy.
package lora

// Package gguf writes models as GGUF files, which llama.cpp, Ollama and their kin run, and reads such files again.
//
//	Hugging Face directory ──Export──▶ model.gguf ──Open──▶ File ──Config, Set──▶ a model to compute with
//
// A file is a header of keys and values, a list of tensors, and their bytes. Three things are not as in the directory: tensors
// have other names; the rows of queries and keys of Llama's family are in another order, since its heads turn neighbouring pairs
// and not halves; and the weights of Gemma's norms have the one that is added to them in them.
//
// Export goes through the model tensor by tensor, in memory that does not grow with it. Open maps the file: what it claims is
// checked before anything is believed. The package reads what it writes, and refuses by name what it does not know.
package gguf

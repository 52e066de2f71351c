// Package gguf writes models as GGUF files, for llama.cpp, Ollama and the like, and reads them back.
//
//	Hugging Face directory ──Export──▶ model.gguf ──Open──▶ File ──Config, Set──▶ a model to compute with
//
// A file has a header of keys and values, a list of tensors, and their bytes. Three things differ from the directory: tensors
// have other names; the rows of queries and keys of Llama's family are permuted, as its rotary embedding rotates neighbouring pairs
// and not halves; and the weights of Gemma's norms include the 1 that the model adds to them.
//
// Export converts the model tensor by tensor, in constant memory. Open maps the file, and checks its header
// before it uses it. The package reads what it writes, and refuses what it does not know, by name.
package gguf

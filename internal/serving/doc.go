// Package serving keeps the models and adapters of a server, by name: a Host opens them, runs a sampler for each
// model, and loads and unloads adapters while it runs. It knows no protocol.
//
//	Host     what is served; on one backend, which one goroutine uses at a time
//	Policy   what a name stands for: a model, or an adapter over one, with tokenizer and chat format
package serving

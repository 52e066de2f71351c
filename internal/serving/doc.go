// Package serving has the models and adapters that a server speaks with, by name: a Host opens them, runs a sampler for each
// model, and loads and unloads adapters meanwhile. It knows no protocol.
//
//	Host     what is served; one backend, on which one computes at a time
//	Policy   what a name stands for: a model, or an adapter over one, and the language that it is spoken to in
package serving

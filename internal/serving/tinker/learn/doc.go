// Package learn trains adapters for clients that bring data, losses and the settings of each step: many adapters over one
// base model, which take turns. It knows neither the wire nor where anything is kept.
//
// A Bench is a policy with an optimizer, for adapters of one layout. A Model is an adapter with its gradient and its
// optimizer's state; it is in the bench's memory while it is worked on, and on the host else. Where one model alone is
// worked on, nothing is copied.
//
// The numbers are the trainer's: the same datums, objective and step give the same adapter, to the bit.
package learn

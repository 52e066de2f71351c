// Package learn trains adapters for clients that bring data, losses and the settings of each step: many adapters over one
// base model, which take turns. It knows neither the wire nor where anything is stored.
//
// A Bench is a policy with an optimizer, for adapters of one layout. A Model is an adapter with its gradient and
// optimizer state. They are in the bench's memory while it is trained, and on the host otherwise; if only one model is
// trained, nothing is copied.
//
// The numbers are the trainer's: the same datums, objective and step give the same adapter, to the bit.
package learn

// Package tinker lets programs that speak Tinker's protocol train adapters and sample from them: it is an http.Handler for the
// paths under /api/v1.
//
// # How requests are handled
//
// A heavy call is accepted at once and polled for later: its result is a future, with an ID derived from the request. A model's
// requests are numbered by its client and executed strictly in that order; a missing number is waited for some seconds. The same
// number with the same content is the same request, and is executed once.
//
// # What survives
//
// An accepted request is in the model's journal. After a crash a model is restored from its last snapshot, and the requests after
// it are replayed; as the numbers are the same to the bit, so are the results that a client polls for. A checkpoint is on disk
// before its path is told. Requests to sample are not kept: the client is told that they are lost, and sends them again.
//
// # What it does not know
//
// Keys, TLS and the limits of connections are the gate's. How a model is opened, and its tokenizer, come from a Base.
package tinker

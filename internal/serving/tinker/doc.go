// Package tinker lets programs that speak Tinker's protocol train adapters and sample from them: it is an http.Handler for
// the paths under /api/v1.
//
// # What a request becomes
//
// A heavy call is accepted at once and polled for later: its result is a future, named after what was asked. The requests of
// a model are numbered by its client, and are done strictly in that order; a number that does not come is waited for some
// seconds. The same number with the same content is the same request, and is done once.
//
// # What survives
//
// A request that was accepted is in the model's journal. After a kill a model begins at its last snapshot and does again what
// the journal has beyond it; as the numbers are the same to the bit, so are the results that a client polls for. A
// checkpoint is on disk before its path is told. Requests to sample are not kept: the client is told that they are lost,
// and sends them again.
//
// # What it does not know
//
// Keys, limits on bodies, TLS: that is the gate's. How a model is opened, and in what language it is spoken to: a Base brings it.
package tinker

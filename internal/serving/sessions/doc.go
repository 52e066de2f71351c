// Package sessions lets programs train from elsewhere with the trainer's own steps: a session is a run, whose settings and problems a
// client brings, and whose steps it asks for one by one. It is an http.Handler for the paths under /v1/sessions.
//
// # What a client decides, and what it does not
//
// A base configuration is the server's. Of its settings a client may change those in allowed: what is learned, and how it is sampled.
// Where programs run, files, directories and the machine are not its to say, and no name of a client becomes a path.
//
// # What survives
//
// A step is answered when its checkpoint is on disk. Its number is its name: asked for again, with the same content, it is
// answered from the record. After a kill a session goes on from its run directory. A call that takes long is answered with 202, and
// made again.
//
// # Whose turn it is
//
// Trainers share the weights of the model that is served, and the turn of the host: answers to others are drawn between their pieces of
// work. The requests of a session are done one after the other.
package sessions

// Package gate stands before the handlers of a server: who may ask (keys, names of hosts, origins of pages), how much
// (bodies, headers, requests at a time, connections), how slowly, and what is told of it (request ids, metrics, logs).
// It also ends: readiness goes first, streams that run are let finish, for so long. It knows no models.
package gate

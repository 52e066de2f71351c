// Package gate stands before the handlers of a server. It checks who may ask (keys, host names, origins of pages), limits how much
// (bodies, headers, concurrent requests, connections) and how slowly, and records what happens (request ids, metrics, logs). It also
// shuts down: readiness ends first, and requests in progress get some time to finish. It knows no models.
package gate

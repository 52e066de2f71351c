// Package siege has only tests: attacks that try to bring a server down, or to read what the attacker must not. The server is a process
// of its own. Each attack measures the answers, the server's processor time and memory, and how long another client waits meanwhile.
// `make siege` runs all of them, and prints the table of docs/serve.md.
package siege

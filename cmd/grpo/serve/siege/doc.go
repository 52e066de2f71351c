// Package siege has tests alone: what is done to a server to bring it down, or to learn from it what one must not. The server is a
// process of its own. Of each attack it is measured what was answered, what it took of the processor and the memory, and how
// long another client waited meanwhile. `make siege` does all of it, and prints the table of docs/serve.md.
package siege

// Package mcp has the tools of servers that speak the Model Context Protocol: it reads the file that lists them, starts or connects to
// them, gives their tools names that a model can write, and turns the result of a call into text.
//
// What is wrong with a call is returned as text. A server that ends is restarted a few times; one that cannot be is an error of the
// machine. It knows nothing of conversations but that each has its own Kit.
package mcp

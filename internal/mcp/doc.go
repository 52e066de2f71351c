// Package mcp has the tools of servers that speak the Model Context Protocol: it reads the file that names them, starts or reaches
// them, gives their tools names that a model can write, and makes a text of whatever a call comes to.
//
// What is wrong with a call is a text. A server that ends is started again, some times; one that cannot be is an error of the machine.
// It knows nothing of conversations but that each has a Kit of its own.
package mcp

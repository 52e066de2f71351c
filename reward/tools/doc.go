// Package tools has the tools that a model may call while it answers a problem: a Python interpreter that keeps its state
// (python), the public tests of the problem (run_tests), and a trace of a program line by line (trace).
//
// A Kit holds the tools of one conversation. A tool answers every call with a text, also a call with wrong arguments, a program that
// fails or one that exceeds a limit. An error is a failure of the machine, and says nothing about the conversation. Equal calls get
// equal texts, unless a program uses the time, random bytes or the addresses of its objects.
//
// Everything that a model writes runs in the cells of package sandbox. What hidden tests expect never enters a cell, and is not part
// of an answer.
package tools

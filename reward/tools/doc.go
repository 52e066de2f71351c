// Package tools has what a model may call while it answers a problem: a Python interpreter that keeps its state
// (python), the public tests of the problem (run_tests), and a look at what a program does line by line (trace).
//
// A Kit holds the tools of one conversation. A tool answers with a text, whatever it is asked: wrong arguments, programs that fail,
// limits that are passed are things to be told. An error is a failure of the machine, and says nothing about the conversation.
// The same calls get the same texts, as far as a program does not ask for the time, for random bytes or for the addresses of its objects.
//
// Everything that a model writes runs in the cells of package sandbox. What hidden tests expect never enters one, and is no part
// of an answer.
package tools

// Package assertion tests a program by Python assertions that the author of the problem wrote: assert f(2) == 4. Each test has two
// processes in separate cells. One runs the assertions; no untrusted code ever runs in its cell. The other runs the program. A call of
// the program's function goes from the first to the second and back as plain data. So the program cannot reach what the assertions say,
// expect or compare, and can only do what any function can: return a value, or fail.
//
// A program may end its process, or send its assertions any bytes; that is worth what returning them would be worth.
package assertion

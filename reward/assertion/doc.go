// Package assertion tests a program by assertions that its author wrote as Python: assert f(2) == 4. Each test has two processes, in
// cells of their own. One runs the assertions, and nobody who is not trusted ever ran there. The other has the program. A call of
// the program's function goes from the first to the second and back as plain data; so what the assertions say, what they expect
// and how they compare is out of the program's reach, and all that it can do is what any function can: return a value, or fail.
//
// A program may end its process, or say to its assertions whatever it likes: it is worth what returning that would be worth.
package assertion

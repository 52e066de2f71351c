// Package apart keeps the programs that a user brings apart from this one: in a group of their own, so that no key of the terminal
// reaches them, and what they have started ends with them. On Linux they and all that they have started end with this process, too, however
// that ends, by a keeper between the two. It keeps nothing from them: they run with the user's rights.
package apart

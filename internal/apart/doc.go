// Package apart keeps the programs that a user brings apart from this one: in a group of their own, so that no key of the terminal
// reaches them, and what they have started ends with them. It keeps nothing from them: they run with the user's rights.
package apart

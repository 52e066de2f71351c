// Package privilege lets a test access files as a user who owns none of them.
package privilege

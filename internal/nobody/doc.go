// Package nobody lets a test look at files as a user would who owns none of them.
package nobody

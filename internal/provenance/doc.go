// Package provenance knows what a run was made of: the settings that were in force at each of its steps, and
// fingerprints of the files that they name. It tells a run that goes on, or is replayed, from one that only looks
// like it. It opens no model and starts nothing.
package provenance

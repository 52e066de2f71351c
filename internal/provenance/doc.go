// Package provenance records what a run was made of: the settings in force at each step, and fingerprints of the files
// that they name. With these it recognises whether a run is resumed or replayed with the same inputs. It loads no model
// and starts nothing.
package provenance

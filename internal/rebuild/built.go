//go:build !gpu

package rebuild

// built reports whether this binary has the GPU backend.
const built = false

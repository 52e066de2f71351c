//go:build !gpu

package rebuild

// built tells whether this binary has the GPU backend.
const built = false

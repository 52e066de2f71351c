//go:build !race

package backendtest

const racing = false

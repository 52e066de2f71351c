package model

// Served is an adapter that a decoder has a copy of, for the rows of some of its sequences.
type Served struct{}

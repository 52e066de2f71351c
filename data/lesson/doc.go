// Package lesson is what a policy can be told to say: conversations, and answers of which one is preferred. It reads them from
// the rows of a data set, and lays them out as tokens of which some are learned, as the model's own chat format has them.
// It knows nothing of losses.
package lesson

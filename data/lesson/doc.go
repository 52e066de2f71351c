// Package lesson has the data of supervised training: conversations, and pairs of a chosen and a rejected answer. It reads them from the
// rows of a data set, and renders them with the model's chat format as tokens, with the spans that are trained on. It knows
// nothing of losses.
package lesson

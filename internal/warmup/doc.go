// Package warmup trains a policy on rows: on the assistant's messages in conversations (sft), or on which of two answers is
// preferred (dpo). It is a run like any other, with the same settings, directory, checkpoints and optimizer, and the same
// guarantee: one seed gives one result, whenever it was interrupted. It samples nothing and judges nothing.
//
// A step takes rows from the pool, packs them into batches and updates the policy once. The two methods differ in a value of
// methodData: the weighted datums of a step, and how held-out rows are measured.
package warmup

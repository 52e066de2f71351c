// Package warmup trains a policy on rows: on what the assistant says in conversations (sft), or on which of two answers is
// preferred (dpo). It is a run as every other: the same settings, directory, checkpoints and optimizer, and the same promise that
// one seed gives one result, whenever it was interrupted. It samples nothing and judges nothing.
//
// A step takes rows from the pool, lays them into batches and lets the learner change the policy once. What the two methods differ
// in is a value of lessons: the datums of a step with their weights, and what is measured of rows that are held out.
package warmup

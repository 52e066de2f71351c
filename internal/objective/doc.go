// Package objective has what GRPO and its relatives differ in: how rewards are shaped, how they become advantages, and
// the loss that is minimised. It is arithmetic on plain numbers and does not know where they come from.
//
// A step uses it twice: Comparison turns the rewards of all groups into advantages; then Loss computes, sequence by
// sequence, the loss and its derivative by the log-probability of each token.
package objective

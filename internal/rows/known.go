package rows

import "slices"

// Keys of a step that are 0 but meaningless: without an update, and without scored completions. In a chart an entropy of 0 would
// look like a collapse.
var (
	ofUpdates = []string{"loss", "ratio_mean", "ratio_min", "ratio_max", "kl_v1", "kl_v2", "kl_pre_post_v1", "kl_pre_post_v2", "kl_ref",
		"max_logp_diff", "max_logp_diff_on_policy", "entropy", "clip_fraction", "clip_low_fraction", "clip_high_fraction",
		"clip_dual_fraction", "tis_mean", "tis_truncated", "ess", "grad_norm"}
	ofScores = []string{"mean_reward", "std_reward", "mean_correct", "mean_fraction", "format_rate"}
)

// Meaningful are the cells of a step without the meaningless ones.
func Meaningful(cells []Cell) []Cell {
	updated, completions, left := true, 0.0, 0.0
	for _, c := range cells {
		switch v, _ := c.Number(); c.Name {
		case "updated":
			updated = string(c.JSON) != "false"
		case "completions":
			completions = v
		case "reward_errors", "excluded":
			left = max(left, v)
		}
	}
	scored := completions == 0 || left < completions
	return slices.DeleteFunc(cells, func(c Cell) bool {
		return !updated && slices.Contains(ofUpdates, c.Name) || !scored && slices.Contains(ofScores, c.Name)
	})
}

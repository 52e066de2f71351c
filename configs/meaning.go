package configs

import (
	"fmt"
	"strconv"
)

// Weights is the mix of components that the reward is, as reward_weights has it.
func (c *Config) Weights() string {
	switch c.Reward {
	case "weights":
		return c.RewardWeights
	case "custom":
		return "custom=1"
	}
	return fmt.Sprintf("%s=1,format=%s", c.Reward, formatNumber(c.FormatCoef))
}

// RecordEvery is which steps' completions are kept: those that it divides, none where it is 0.
func (c *Config) RecordEvery() int {
	n, _ := recordEvery(c.RecordRollouts) // which Validate has seen
	return n
}

func recordEvery(text string) (int, error) {
	switch text {
	case "all":
		return 1, nil
	case "none":
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err == nil && n == 0 {
		err = strconv.ErrRange
	}
	return int(n), err
}

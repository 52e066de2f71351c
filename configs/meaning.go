package configs

import (
	"fmt"
	"strconv"
)

// Weights is reward_weights in words.
func (c *Config) Weights() string {
	switch c.Reward {
	case "weights":
		return c.RewardWeights
	case "custom":
		return "custom=1"
	}
	return fmt.Sprintf("%s=1,format=%s", c.Reward, formatNumber(c.FormatCoef))
}

// RecordEvery is the interval of steps whose completions are recorded; 0: none.
func (c *Config) RecordEvery() int {
	n, _ := recordEvery(c.RecordRollouts) // validated
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

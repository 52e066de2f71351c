package configs

// judge checks the settings of the model that judges.
func (k *checker) judge() {
	c := k.c
	if c.JudgeURL == "" {
		for _, s := range []struct {
			key   string
			named bool
		}{
			{"judge_model", c.JudgeModel != ""}, {"judge_prompt", c.JudgePrompt != ""}, {"judge_score", c.JudgeScore != ""},
			{"judge_budget", c.JudgeBudget > 0}, {"judge_slots", c.JudgeSlots > 0}, {"judge_timeout", c.JudgeTimeout > 0},
		} {
			k.refuse(s.named, s.key, "%s: there is no judge; type judge_url=http://host:8000/v1, or leave it out", s.key)
		}
		return
	}
	k.refuse(c.Reward != "weights", "judge_url",
		"judge_url: reward=%s does not use it; type reward=weights reward_weights=judge=1, or a mix such as correct=1,judge=0.5", c.Reward)
	k.refuse(c.JudgeModel == "", "judge_model", "judge_model: found nothing; type judge_model=NAME, as the endpoint knows it")
	k.refuse(c.Deterministic, "deterministic",
		"deterministic: with judge_url the rewards come from another machine; type deterministic=false, or leave judge_url out")
}

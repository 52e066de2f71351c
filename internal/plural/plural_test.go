package plural

import "testing"

func TestOf(t *testing.T) {
	for n, want := range map[int]string{0: "0 steps are", 1: "1 step is", 2: "2 steps are", 21: "21 steps are"} {
		if got := Of(n, "step") + " " + Pick(n, "is", "are"); got != want {
			t.Errorf("found %q, expected %q", got, want)
		}
	}
}

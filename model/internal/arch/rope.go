package arch

import (
	"cmp"
	"encoding/json"
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// Scaling scales the frequencies of a rotary embedding, for more positions than it was first trained with. The zero value
// scales nothing. Names and meanings are those of config.json.
type Scaling struct {
	Type     string  // "linear", "llama3", "yarn"
	Factor   float64 // the divisor of the lowest frequencies
	Original int     // the number of positions in the first training

	LowFactor, HighFactor float64 // of llama3: the range of wavelengths that are scaled in part, as fractions of the original positions
	BetaFast, BetaSlow    float64 // of yarn: the range of frequencies that are scaled in part, as rotations in the original positions
	Exact                 bool    // of yarn: the bounds of that range are not rounded to indices of frequencies
	Magnitude             float64 // of yarn: the factor of cosines and sines
}

// scalings are the known types.
const scalings = "default, linear, llama3, yarn"

// rawScaling is the scaling in config.json: in rope_scaling or, since transformers 5, in rope_parameters.
type rawScaling struct {
	Theta    *float64 `json:"rope_theta"`
	Type     string   `json:"rope_type"`
	OldType  string   `json:"type"`
	Partial  *float64 `json:"partial_rotary_factor"`
	Factor   *float64 `json:"factor"`
	Original *int     `json:"original_max_position_embeddings"`

	LowFactor  *float64 `json:"low_freq_factor"`
	HighFactor *float64 `json:"high_freq_factor"`

	BetaFast     *float64 `json:"beta_fast"`
	BetaSlow     *float64 `json:"beta_slow"`
	Truncate     *bool    `json:"truncate"`
	Attention    *float64 `json:"attention_factor"`
	MScale       *float64 `json:"mscale"`
	MScaleAllDim *float64 `json:"mscale_all_dim"`

	Full    json.RawMessage `json:"full_attention"`
	Sliding json.RawMessage `json:"sliding_attention"`
}

// readRope reads the base of the rotary embedding and its scaling, from the old keys or the new one.
func (r rawConfig) readRope(c *Config, theta float64) error {
	key, text := "rope_scaling", r.RopeScaling
	if !isNull(r.RopeParameters) {
		key, text = "rope_parameters", r.RopeParameters
	}
	var s rawScaling
	if !isNull(text) {
		if err := jsonl.UnmarshalExactCase(text, &s); err != nil {
			return badinput.Errorf("%s: %w", key, err)
		}
	}
	switch {
	case s.Theta != nil:
		c.RopeTheta = *s.Theta
	case r.RopeTheta != nil:
		c.RopeTheta = *r.RopeTheta
	case theta == 0:
		return badinput.Errorf("rope_theta: missing")
	default:
		c.RopeTheta = theta
	}
	const inPart = "partial_rotary_factor: found %g, expected 1: partial rotary embedding is not supported"
	switch {
	case r.Partial != nil && *r.Partial != 1:
		return badinput.Errorf(inPart, *r.Partial)
	case s.Partial != nil && *s.Partial != 1:
		return badinput.Errorf("%s."+inPart, key, *s.Partial)
	case s.Full != nil || s.Sliding != nil:
		return badinput.Errorf("%s: found one for each kind of layer, expected one for all", key)
	}
	switch of := r.Original; {
	case of != nil && s.Original != nil && *of != *s.Original:
		return badinput.Errorf("original_max_position_embeddings: found %d, and %d in %s; expected one of them", *of, *s.Original, key)
	case s.Original == nil:
		s.Original = of
	}
	var err error
	if c.RopeScaling, err = s.read(key, r.MaxPositions); err != nil || isNull(r.RopeParameters) || isNull(r.RopeScaling) {
		return err
	}
	var old Config
	r.RopeParameters, r.RopeTheta = nil, &c.RopeTheta
	if err = r.readRope(&old, 0); err == nil && (old.RopeScaling != c.RopeScaling || old.RopeTheta != c.RopeTheta) {
		err = badinput.Errorf("rope_scaling: found beside rope_parameters, which say something else; expected one of them")
	}
	return err
}

// read reads the keys of the type, and refuses an unknown type.
func (s rawScaling) read(key string, positions int) (Scaling, error) {
	kind := cmp.Or(s.Type, s.OldType, "default")
	if s.Type != "" && s.OldType != "" && s.Type != s.OldType {
		return Scaling{}, badinput.Errorf("%s: found rope_type %q and type %q, expected one", key, s.Type, s.OldType)
	}
	if s.Type == "" && s.OldType == "" && s.Factor != nil {
		return Scaling{}, badinput.Errorf("%s: found a factor and no rope_type, expected one of %s", key, scalings)
	}
	r := Scaling{Type: kind}
	var missing string
	number := func(name string, x *float64) float64 {
		if x == nil {
			missing = cmp.Or(missing, name)
			return 0
		}
		return *x
	}
	switch kind {
	case "default":
		return Scaling{}, nil
	case "linear":
		r.Factor = number("factor", s.Factor)
	case "llama3":
		r.Factor, r.LowFactor = number("factor", s.Factor), number("low_freq_factor", s.LowFactor)
		r.HighFactor = number("high_freq_factor", s.HighFactor)
		if s.Original == nil {
			missing = cmp.Or(missing, "original_max_position_embeddings")
		} else {
			r.Original = *s.Original
		}
	case "yarn":
		r.Factor, r.Original = number("factor", s.Factor), positions
		if s.Original != nil {
			r.Original = *s.Original
		}
		s.readYarn(&r)
	default:
		return Scaling{}, badinput.Errorf("%s: found type %q, supported: %s", key, kind, scalings)
	}
	if missing != "" {
		return Scaling{}, badinput.Errorf("%s.%s: missing, type %q needs it", key, missing, kind)
	}
	return r, nil
}

// readYarn reads the keys of yarn besides the factor.
func (s rawScaling) readYarn(r *Scaling) {
	given := func(x *float64) float64 {
		if x == nil {
			return 0
		}
		return *x
	}
	r.BetaFast, r.BetaSlow = cmp.Or(given(s.BetaFast), 32), cmp.Or(given(s.BetaSlow), 1)
	r.Exact = s.Truncate != nil && !*s.Truncate
	magnitude := func(of float64) float64 {
		if r.Factor <= 1 {
			return 1
		}
		return 0.1*of*math.Log(r.Factor) + 1
	}
	switch one, all := given(s.MScale), given(s.MScaleAllDim); {
	case s.Attention != nil:
		r.Magnitude = *s.Attention
	case one != 0 && all != 0:
		r.Magnitude = magnitude(one) / magnitude(all)
	default:
		r.Magnitude = magnitude(1)
	}
}

// check names the first key with an impossible value.
func (s Scaling) check() error {
	if s.Type == "" {
		return nil
	}
	bad := func(key string, found any, expected string) error {
		return badinput.Errorf("rope_scaling.%s: found %v, expected %s", key, found, expected)
	}
	switch {
	case !(s.Factor >= 1) || math.IsInf(s.Factor, 1):
		return bad("factor", s.Factor, "at least 1")
	case s.Type != "linear" && (s.Original < 1 || s.Original > 1<<30):
		return bad("original_max_position_embeddings", s.Original, "1 to 1073741824")
	case s.Type == "llama3" && !(s.LowFactor > 0 && s.HighFactor > s.LowFactor):
		return bad("high_freq_factor", s.HighFactor, "more than low_freq_factor, and that more than 0")
	case s.Type == "yarn" && !(s.BetaSlow > 0 && s.BetaFast > s.BetaSlow):
		return bad("beta_fast", s.BetaFast, "more than beta_slow, and that more than 0")
	case s.Type == "yarn" && !(s.Magnitude > 0 && s.Magnitude < 100):
		return bad("attention_factor", s.Magnitude, "a small positive number")
	}
	return nil
}

// write is the scaling as a value of config.json; nil: there is none.
func (s Scaling) write() any {
	keys := map[string]any{"rope_type": s.Type, "factor": s.Factor}
	switch s.Type {
	case "":
		return nil
	case "llama3":
		keys["original_max_position_embeddings"] = s.Original
		keys["low_freq_factor"], keys["high_freq_factor"] = s.LowFactor, s.HighFactor
	case "yarn":
		keys["original_max_position_embeddings"], keys["truncate"] = s.Original, !s.Exact
		keys["beta_fast"], keys["beta_slow"], keys["attention_factor"] = s.BetaFast, s.BetaSlow, s.Magnitude
	}
	return keys
}

// RopeScale is the factor of cosines and sines.
func (c Config) RopeScale() float64 {
	if c.RopeScaling.Type == "yarn" {
		return c.RopeScaling.Magnitude
	}
	return 1
}

// Frequencies are the angles by which the pairs of a head rotate from one position to the next.
func (c Config) Frequencies() []float64 {
	dim, s := c.Heads.Dim, c.RopeScaling
	turns := make([]float64, dim/2)
	for i := range turns {
		turns[i] = math.Pow(c.RopeTheta, -2*float64(i)/float64(dim))
	}
	switch s.Type {
	case "linear":
		for i := range turns {
			turns[i] /= s.Factor
		}
	case "llama3":
		for i, f := range turns {
			turns[i] = s.llama3(f)
		}
	case "yarn":
		s.yarn(turns, c.RopeTheta, dim)
	}
	return turns
}

// llama3 keeps frequencies with short wavelengths, divides those with long ones, and interpolates in between.
func (s Scaling) llama3(f float64) float64 {
	turns := float64(s.Original) * f / (2 * math.Pi) // rotations in the original positions
	share := (turns - s.LowFactor) / (s.HighFactor - s.LowFactor)
	share = min(max(share, 0), 1)
	return f * ((1-share)/s.Factor + share)
}

// yarn does the same by the index of a frequency.
func (s Scaling) yarn(turns []float64, theta float64, dim int) {
	at := func(rotations float64) float64 { // the fractional index of the frequency with that many rotations in the original positions
		return float64(dim) * math.Log(float64(s.Original)/(rotations*2*math.Pi)) / (2 * math.Log(theta))
	}
	low, high := at(s.BetaFast), at(s.BetaSlow)
	if !s.Exact {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(dim-1))
	if low == high {
		high += 0.001
	}
	for i, f := range turns {
		slow := min(max((float64(i)-low)/(high-low), 0), 1)
		turns[i] = f/s.Factor*slow + f*(1-slow)
	}
}
